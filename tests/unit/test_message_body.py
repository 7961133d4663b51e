from __future__ import annotations

import contextlib
import gzip
import json
import math
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.message.body import MAX_DIGITS, loads, parse_exactly
from loader.message.decode import Decoder, DecodeRules
from loader.message.inflation import MAX_MEMBERS, inflate
from loader.message.limits import MAX_DEPTH
from loader.message.message import Message, Refused
from loader.message.text import Cleaned

MIB = 1024 * 1024


def refusal(body: bytes, rules: DecodeRules | None = None, **attributes: str) -> str:
    message = Message("ack", "1", body, {name.replace("_", "-"): v for name, v in attributes.items()}, 0, 0)
    with pytest.raises(Refused) as caught:
        Decoder(rules or DecodeRules()).decode(message)
    return f"{caught.value.reason}: {caught.value.detail}"


@pytest.mark.parametrize("name", ["content-encoding", "Content-Encoding"])
@pytest.mark.parametrize("value", ["gzip", "GZIP", "x-gzip", " gzip"])
def test_a_gzip_body_is_inflated(name: str, value: str) -> None:
    decoder = Decoder(DecodeRules())
    body = b'{"id":1}'
    events = decoder.decode(Message("ack", "1", gzip.compress(body), {name: value}, 0, 0))
    plain = decoder.decode(Message("ack", "1", body, {}, 0, 0))
    assert events[0].record == {"id": 1}
    assert events[0].digest == plain[0].digest


@pytest.mark.parametrize("length", [0, 1, 65535, 65536, 65537, 300_000])
@pytest.mark.parametrize("level", [0, 9])
def test_members_one_after_the_other_are_one_body(length: int, level: int) -> None:
    plain = bytes(i * 7 % 251 for i in range(length))
    assert inflate(gzip.compress(plain, level) * 3, MIB) == plain * 3


def test_a_gzip_bomb_is_refused_before_it_is_inflated() -> None:
    stream = zlib.compressobj(9, wbits=31)
    bomb = b"".join(stream.compress(b"\0" * MIB) for _ in range(300)) + stream.flush()
    tracemalloc.start()
    assert (
        refusal(bomb, content_encoding="gzip") == "body too large: the gzip body inflates to more than 10485760 bytes"
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * MIB


def test_the_limit_counts_inflated_bytes_of_all_members() -> None:
    assert inflate(gzip.compress(b"x" * 50) * 2, 100) == b"x" * 100
    with pytest.raises(Refused, match="more than 99 bytes"):
        inflate(gzip.compress(b"x" * 50) * 2, 99)


def test_half_a_million_empty_members_are_refused() -> None:
    with pytest.raises(Refused, match=f"more than {MAX_MEMBERS} gzip members"):
        inflate(gzip.compress(b"") * (MAX_MEMBERS + 1), MIB)


def test_damaged_gzip_is_refused_with_what_is_wrong() -> None:
    whole = gzip.compress(b'{"id":1}')
    assert "begin like gzip" in refusal(b'{"id":1}', content_encoding="gzip")
    assert refusal(whole[:-3], content_encoding="gzip").startswith("bad gzip: the gzip data is cut short")
    assert (
        refusal(whole + b"junk", content_encoding="gzip") == "bad gzip: 4 bytes that are not gzip follow the gzip data"
    )
    assert refusal(whole[:-8] + b"\0" * 8, content_encoding="gzip").startswith("bad gzip: the gzip data is damaged")
    assert refusal(b"", content_encoding="gzip") == "empty body: the body has no bytes"


def test_a_plain_body_over_the_limit_is_refused() -> None:
    rules = DecodeRules(max_message_bytes=20)
    assert Decoder(rules).decode(Message("a", "1", b'{"a":"0123456789012"}'[:7] + b'12345678901"}', {}, 0, 0))
    assert refusal(b'{"a":"0123456789012"}', rules).startswith("body too large: the body has 21 bytes")


@pytest.mark.parametrize(("before", "inner", "after"), [(b"[", b"", b"]"), (b'{"a":', b"1", b"}")])
@pytest.mark.parametrize("exactly", [False, True])
def test_depth_is_exact_at_its_limit(before: bytes, inner: bytes, after: bytes, exactly: bool) -> None:
    decoder = Decoder(DecodeRules())
    decode = decoder.decode_exactly if exactly else decoder.decode

    def message(depth: int) -> Message:
        nested = before * (depth - 1) + inner + after * (depth - 1)
        return Message("a", "1", b'{"n":99999999999999999999,"x":' + nested + b"}", {}, 0, 0)

    assert decode(message(MAX_DEPTH))
    with pytest.raises(Refused, match="too deep"):
        decode(message(MAX_DEPTH + 1))


@pytest.mark.parametrize("body", [b"[" * 5_000_000, b'{"a":' * 100_000, b'[{"":' * 1000 + b"NaN", b'["\\"[' * 900])
def test_endless_nesting_never_reaches_a_parser_that_recurses(body: bytes) -> None:
    with pytest.raises(Refused):
        loads(body)
    with pytest.raises(Refused):
        parse_exactly(body + b"1" * 30)


def test_brackets_in_text_are_no_depth() -> None:
    body = json.dumps({"a": "[{" * 5000, "b": '\\"[' * 5000, "n": 10**30}).encode()
    decoder = Decoder(DecodeRules())
    assert decoder.decode_exactly(Message("a", "1", body, {}, 0, 0))[0].record["n"] == 10**30


def test_an_array_in_a_message_has_a_limit() -> None:
    rules = DecodeRules(max_array_elements=100)
    decoder = Decoder(rules)
    assert decoder.decode(Message("a", "1", json.dumps({"x": [1] * 100}).encode(), {}, 0, 0))
    assert len(decoder.decode(Message("a", "1", json.dumps([{}] * 100).encode(), {}, 0, 0))) == 100
    wide: list[object] = [{"x": [1] * 101}, [{}] * 101, {"x": {"y": [[2], [1] * 101]}}]
    for value in wide:
        body = json.dumps(value, separators=(",", ":")).encode()
        assert refusal(body, rules) == "too many elements: an array of 101 elements; LOADER_MAX_ARRAY_ELEMENTS is 100"
    many = json.dumps({"x": [[1] * 90] * 12}).encode()
    assert refusal(many, rules).startswith("too many elements: more than 1000 elements in the arrays of one message")


def test_keys_of_a_message_have_a_limit() -> None:
    rules = DecodeRules(max_keys=100)
    decoder = Decoder(rules)
    flat = {f"k{i}": i for i in range(100)}
    assert decoder.decode(Message("a", "1", json.dumps(flat).encode(), {}, 0, 0))
    for value in (
        flat | {"one": 1},
        {"x": [{"a": 1}] * 100},
        {"x": {"y": flat}},
        flat | {"when": "12:00:00" * 200, "z": 0},
    ):
        assert refusal(json.dumps(value).encode(), rules).startswith("too many keys: more than 100 keys")
    colons = {"when": "12:00:00," * 2000}
    assert decoder.decode(Message("a", "1", json.dumps(colons).encode(), {}, 0, 0))[0].record == colons


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * 3_000_000 + b"{}]",
        b"{" + b",".join(b'"%x":0' % i for i in range(1_000_000)) + b"}",
        b'{"a":[' + b",".join([b"[" + b",".join([b"{}"] * 9_000) + b"]"] * 300) + b"]}",
        b'{"a":[' + b",".join([b"[" * 190 + b"]" * 190] * 9_000) + b"]}",
    ],
    ids=["array", "keys", "arrays", "nested"],
)
def test_millions_of_elements_never_become_objects(body: bytes) -> None:
    tracemalloc.start()
    refused = refusal(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.startswith("too many")
    assert peak < 20 * MIB


def test_an_integer_with_too_many_digits_is_refused_and_the_loop_lives() -> None:
    assert parse_exactly(b'{"n":' + b"9" * MAX_DIGITS + b"}") == {"n": int("9" * MAX_DIGITS)}
    assert (
        refusal(b'{"n":-' + b"9" * 5000 + b"}")
        == f"number too long: an integer of 5000 digits; at most {MAX_DIGITS} can be kept"
    )


def test_parsing_exactly_leaves_floats_alone() -> None:
    value = parse_exactly(b'{"f":1e20,"g":12345678901234567890.0,"n":12345678901234567890123}')
    assert value == {"f": 1e20, "g": 12345678901234567890.0, "n": 12345678901234567890123}
    assert [type(x) for x in value.values()] == [float, float, int]


def test_cleaning_is_counted() -> None:
    counts = Cleaned()
    assert loads(rb'{"a":"\u0000\u0000","b\u0000":["\ud800"]}', counts) == {"a": "", "b": ["\ufffd"]}
    assert (counts.nul, counts.surrogates) == (2, 1)


def test_of_equal_keys_the_last_one_counts_on_both_roads() -> None:
    body = b'{"a":1,"a":2}'
    assert loads(body) == loads(b"\xef\xbb\xbf" + body) == {"a": 2}


@pytest.mark.parametrize(
    "body", [b'{"a":"\x00"}', b'{"a":"\n"}', b"{}\x00", b"\xc2\xa0{}", b'{"a":01}', b'{"a":+1}', b'{"a":.5}']
)
def test_the_strict_road_is_as_strict_as_the_fast_one(body: bytes) -> None:
    with pytest.raises(Refused):
        loads(body)
    with pytest.raises(Refused):
        loads(b"\xef\xbb\xbf" + body)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@given(JSON)
def test_both_roads_read_the_same_value(value: object) -> None:
    body = json.dumps(value).encode()
    assert repr(loads(body)) == repr(loads(b"\xef\xbb\xbf" + body)) == repr(parse_exactly(body))


@given(st.binary() | st.text('{}[]",:0e-.\\utrnalsf1 \ufeffé', max_size=60).map(str.encode))
def test_any_bytes_are_parsed_or_refused_and_never_infinite(body: bytes) -> None:
    for parse in (loads, parse_exactly):
        try:
            value = parse(body)
        except Refused:
            continue
        assert not isinstance(value, float) or math.isfinite(value)


@given(st.binary(), st.integers(0, 30), st.integers(0, 255))
def test_any_gzip_is_inflated_or_refused(plain: bytes, at: int, byte: int) -> None:
    data = bytearray(gzip.compress(plain, mtime=0))
    assert inflate(bytes(data), MIB) == plain
    data[min(at, len(data) - 1)] = byte
    for damaged in (bytes(data), bytes(data[:at]), plain):
        with contextlib.suppress(Refused):
            inflate(damaged, MIB)
