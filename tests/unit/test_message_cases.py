"""Small hostile inputs from public reports, each line one message body."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Event, Message, Refused

CASES = Path(__file__).parent / "data" / "cases"
DECODER = Decoder(DecodeRules(table_key="eventName"))


def message(data: bytes, message_id: str = "1", **attributes: str) -> Message:
    return Message("ack", message_id, data, attributes, 1_700_000_000_000_000, 0)


def outcome(data: bytes, exactly: bool = False) -> Event | str:
    try:
        events = DECODER.decode_exactly(message(data)) if exactly else DECODER.decode(message(data))
    except Refused as refused:
        return f"{refused.reason}: {refused.detail}"
    assert len(events) == 1
    return events[0]


def outcomes(name: str, exactly: bool = False) -> list[Event | str]:
    lines = (CASES / f"{name}.jsonl").read_bytes().removesuffix(b"\n").split(b"\n")
    return [outcome(line, exactly) for line in lines]


def record(result: Event | str) -> dict[str, Any]:
    assert isinstance(result, Event), result
    return result.record


def test_nul_is_removed_from_text_and_the_neighbours_are_unharmed() -> None:
    notes = [record(result)["note"] for result in outcomes("01-nul-in-text")]
    assert notes == ["beforeafter", "", "clean row that must not be lost"]


def test_nul_is_removed_from_nested_values_and_keys_but_not_from_literal_text() -> None:
    contexts = [record(result)["ctx"] for result in outcomes("02-nul-in-nested-json")]
    assert contexts == [
        {"ua": "Agent/1.0", "tags": ["a", "b"]},
        {"key": "v"},
        {"literal": "backslash-u text: \\u0000 stays as typed"},
        {"ua": "ok"},
    ]


def test_big_integers_keep_every_digit() -> None:
    expected = [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**42, 7]
    exact = [record(result)["n"] for result in outcomes("03-big-integers", exactly=True)]
    assert exact == expected
    assert all(type(number) is int for number in exact)
    fast = [record(result)["n"] for result in outcomes("03-big-integers")]
    for number, right in zip(fast, expected, strict=True):
        is_marked = type(number) is float and abs(number) >= 2.0**63
        assert is_marked or (type(number) is int and number == right)


def test_what_is_not_a_finite_number_is_refused_and_the_word_is_text() -> None:
    results = outcomes("04-nan-infinity")
    assert [record(results[i])["x"] for i in (0, 6, 7)] == [1.5, "NaN", 2.5]
    assert results[1:6] == [
        "not JSON: NaN is not JSON",
        "not JSON: Infinity is not JSON",
        "not JSON: -Infinity is not JSON",
        "not JSON: the number 1e400 is beyond double precision",
        "not JSON: NaN is not JSON",
    ]


def test_lone_surrogates_become_the_replacement_character() -> None:
    texts = [record(result)["s"] for result in outcomes("15-lone-surrogates")]
    assert texts == ["half \ufffd pair", "good pair \U0001f600", "reversed \ufffd\ufffd", "clean row"]


def test_reserved_names_in_a_record_are_left_to_the_schema() -> None:
    results = outcomes("19-reserved-names")
    assert [record(result)["id"] for result in results] == [1, 2, 3, 4]
    assert record(results[0])["_dlt_id"] == "mine"


def test_bodies_that_are_not_one_object_are_refused_by_name() -> None:
    results = outcomes("20-not-an-object")
    loaded = {i: result.table for i, result in enumerate(results) if isinstance(result, Event)}
    assert loaded == {1: "x", 8: "unknown", 9: "ok_row"}
    assert [result for result in results if not isinstance(result, Event)] == [
        "not an object: the body is an array whose element 0 is a number, not an object",
        "not an object: the body is text, not a JSON object",
        "not an object: the body is a number, not a JSON object",
        "not an object: the body is null, not a JSON object",
        "not an object: the body is true, not a JSON object",
        "empty body: the body has no bytes",
        "empty body: the body is blank",
        "not JSON: more follows the JSON value at byte 26",
        "not JSON: ends early at byte 24",
        "not JSON: expecting property name enclosed in double quotes at byte 1",
        "not JSON: expecting property name enclosed in double quotes at byte 31",
    ]


def test_every_routing_value_finds_a_table() -> None:
    results = outcomes("23-hostile-table-names")
    tables = {record(result)["id"]: result.table for result in results if isinstance(result, Event)}
    assert tables == {
        **dict.fromkeys([1, 2, 3, 4, 5, 6, 17], "unknown"),
        7: "events_dlt_loads",
        8: "events_dlt_version",
        9: "orders",
        10: "orders",
        11: "orders_items",
        12: "public_users",
        13: "x_drop_table_ordersxxx",
        14: "events_9e176c80",
        15: "a_etc",
        16: "nnnnnnnnnnnnnnnnnnnnnnnnnnnnn4p5qcqnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        18: "order_placed",
        19: "order_placed",
        20: "order_placed",
    }


def test_deep_nesting_is_refused_and_never_recurses() -> None:
    deep = "too deep: objects and arrays nest deeper than 200 levels"
    results = outcomes("25-deep-nesting")
    assert results[0] == results[2] == deep
    assert record(results[1]) == {"eventName": "deep", "id": 2, "o": {"n": "ok"}}
    assert outcomes("25-deep-nesting", exactly=True)[0] == deep


def test_deliveries_of_one_message_are_one_event_and_copies_are_two() -> None:
    body = (CASES / "34-same-message-twice.jsonl").read_bytes().split(b"\n")[0]
    first, again, copy = (DECODER.decode(message(body, id))[0] for id in ("7", "7", "8"))
    assert (first.identity, first.digest) == (again.identity, again.digest)
    assert copy.identity != first.identity
    by_key = Decoder(DecodeRules(event_id_key="orderNo"))
    assert by_key.decode(message(body, "7"))[0].identity == by_key.decode(message(body, "8"))[0].identity == "A-1"


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (
            "H4sIAAAAAAACA6tWSi1LzSvxS8xNVbJSSq9S0lHKTFGyMqwFAGi1P3EZAAAA",
            "not JSON: looks like gzip but has no content-encoding attribute",
        ),
        ("//57ACIAaQBkACIAOgAxAH0A", "not JSON: looks like UTF-16; JSON in a message is UTF-8"),
        ("eyJldmVudE5hbWUiOiJsYXRpbiIsInMiOiJjYWbpIn0=", "not UTF-8: not UTF-8 at byte 29"),
        ("", "empty body: the body has no bytes"),
        (
            "AAAAAAEKYWJj",
            "not JSON: Confluent wire format (magic byte 0, schema id 1): decode it in the bridge",
        ),
        (
            "CgVoZWxsbxAB",
            "not JSON: binary data (perhaps Protobuf or Avro); decode it before it is published",
        ),
    ],
)
def test_bytes_that_are_not_json_are_named(encoded: str, expected: str) -> None:
    assert outcome(base64.b64decode(encoded)) == expected


def test_a_byte_order_mark_is_skipped() -> None:
    result = outcome(base64.b64decode("77u/eyJldmVudE5hbWUiOiJib20iLCJpZCI6MX0="))
    assert record(result) == {"eventName": "bom", "id": 1}


def test_a_body_just_under_the_limit_of_pubsub_loads() -> None:
    head, tail = b'{"eventName":"big","id":1,"s":"', b'"}'
    result = outcome(head + b"x" * (10_000_000 - len(head) - len(tail)) + tail)
    assert isinstance(result, Event)
    assert result.table == "big"
