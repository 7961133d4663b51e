from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Message, Refused
from loader.message.text import Cleaned

ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        [
            "content-encoding",
            "Content-Type",
            "ce-specversion",
            "ce-id",
            "ce-source",
            "ce-type",
            "ce-data",
            "ce-",
            "t",
            "i",
        ]
    ),
    st.sampled_from(
        ["", "gzip", "application/cloudevents+json", "application/cloudevents-batch+json", "1.0", "\0", "é"]
    )
    | st.text(max_size=8),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["i", "t", "id", "source"]), inner),
)
BODIES = st.binary(max_size=50) | VALUES.map(lambda value: json.dumps(value).encode())
RULES = DecodeRules(
    table_key="t",
    table_attribute="t",
    event_id_key="i",
    event_id_attribute="i",
    emulator=True,
    max_keys=5,
    max_array_elements=3,
    max_message_bytes=100,
)


def message(body: bytes, attributes: dict[str, str] | None = None) -> Message:
    return Message("ack", "4711", body, attributes or {}, 17, 0)


def test_the_table_attribute_wins_and_a_blank_one_counts_as_absent() -> None:
    decoder = Decoder(DecodeRules(table_key="kind", table_attribute="table"))
    body = b'{"kind":"by key"}'
    assert decoder.decode(message(body, {"table": "By Attribute"}))[0].table == "by_attribute"
    assert decoder.decode(message(body, {"table": " "}))[0].table == "by_key"
    assert decoder.decode(message(body))[0].table == "by_key"
    assert decoder.decode(message(b"{}"))[0].table == "unknown"
    assert Decoder(DecodeRules()).decode(message(body))[0].table == "unknown"


def test_each_element_of_an_array_has_its_own_table_and_one_digest() -> None:
    decoder = Decoder(DecodeRules(table_key="t"))
    events = decoder.decode(message(b'[{"t":"a"},{"t":"b"}]'))
    assert [(event.table, event.record) for event in events] == [("a", {"t": "a"}), ("b", {"t": "b"})]
    assert events[0].digest == events[1].digest


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"[]", "the body is an empty array"),
        (b'[{},{},"x"]', "the body is an array whose element 2 is text, not an object"),
        (b"[{},[]]", "the body is an array whose element 1 is an array, not an object"),
    ],
)
def test_an_array_of_anything_but_objects_is_refused_whole(body: bytes, detail: str) -> None:
    with pytest.raises(Refused) as caught:
        Decoder(DecodeRules()).decode(message(body))
    assert (caught.value.reason, caught.value.detail) == ("not an object", detail)


def test_no_refusal_repeats_what_the_body_says() -> None:
    for body in (b'{"password":"hunter2",}', b'"hunter2"', b'["hunter2"]', b'{"a":hunter2}', b'{"a":"hunter2'):
        with pytest.raises(Refused) as caught:
            Decoder(DecodeRules()).decode(message(body))
        assert "hunter2" not in str(caught.value)


def test_the_body_is_given_inflated() -> None:
    decoder = Decoder(DecodeRules())
    assert decoder.body(message(gzip.compress(b"{}"), {"content-encoding": "gzip"})) == b"{}"
    assert decoder.body(message(b"{}", {"x": "y"})) == b"{}"


@pytest.mark.parametrize("rules", [DecodeRules(), RULES])
@given(BODIES, ATTRIBUTES)
def test_any_message_becomes_events_or_is_refused(rules: DecodeRules, body: bytes, attributes: dict[str, str]) -> None:
    outcomes: list[Any] = []
    for decode in (Decoder(rules).decode, Decoder(rules).decode, Decoder(rules).decode_exactly):
        try:
            events = decode(message(body, attributes))
        except Refused as refused:
            outcomes.append((refused.reason, refused.detail))
        else:
            assert events
            assert len({event.identity for event in events}) == len(events)
            assert all(type(event.record) is dict for event in events)
            outcomes.append([(event.identity, event.digest, event.table) for event in events])
    assert outcomes[0] == outcomes[1] == outcomes[2]


COMMON = st.dictionaries(st.sampled_from(["i", "t", "a"]), st.text(max_size=6) | st.integers() | st.none()).map(
    lambda value: json.dumps(value).encode()
)


@pytest.mark.parametrize("rules", [DecodeRules(), DecodeRules(table_key="t"), RULES])
@given(st.lists(st.tuples(COMMON | BODIES, ATTRIBUTES | st.just({})), max_size=4))
def test_messages_together_become_what_each_becomes_alone(
    rules: DecodeRules, pairs: list[tuple[bytes, dict[str, str]]]
) -> None:
    messages = [message(body, attributes) for body, attributes in pairs]
    together = Decoder(rules).decode_all(messages)
    if together is not None:
        decoder = Decoder(rules)
        assert repr(together) == repr([event for each in messages for event in decoder.decode(each)])
        assert decoder.cleaned == Cleaned()


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        (b"[{}]", {}),
        (b'{"a":"\\u0000"}', {}),
        (b"no JSON", {}),
        (b'{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}' + b" " * 50, {}),
        (gzip.compress(b"{}"), {"content-encoding": "gzip"}),
        (b"{}", {"ce-specversion": "1.0"}),
    ],
)
def test_one_uncommon_message_has_all_of_them_read_one_by_one(body: bytes, attributes: dict[str, str]) -> None:
    common = message(b'{"t":"x","a":1}')
    rules = DecodeRules(table_key="t", max_keys=5)
    events = Decoder(rules).decode_all([common, common])
    assert events is not None
    assert [event.table for event in events] == ["x", "x"]
    assert Decoder(rules).decode_all([common, message(body, attributes), common]) is None
