from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.message import cloudevent
from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Event, Message, Refused

CONTEXT = {"specversion": "1.0", "id": "A-1", "source": "/shop/1", "type": "order.placed", "subject": "s"}
STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
BINARY = {f"ce-{name}": value for name, value in CONTEXT.items()}


def decode(body: bytes, attributes: dict[str, str], **rules: Any) -> list[Event]:
    return Decoder(DecodeRules(table_key="type", **rules)).decode(Message("ack", "4711", body, attributes, 0, 0))


def refusal(body: bytes, attributes: dict[str, str]) -> str:
    with pytest.raises(Refused) as caught:
        decode(body, attributes)
    assert caught.value.reason == "bad CloudEvent"
    return caught.value.detail


@pytest.mark.parametrize("data", [{"n": 1}, [1, {"a": 2}], "text", None, 5])
def test_structured_and_binary_mode_are_the_same_record(data: Any) -> None:
    envelope = CONTEXT | {"datacontenttype": "application/json", "data": data}
    structured = decode(json.dumps(envelope).encode(), STRUCTURED)
    binary = decode(json.dumps(data).encode(), BINARY | {"Content-Type": "application/json"})
    assert structured[0].record == binary[0].record == envelope
    assert structured[0].table == binary[0].table == "order_placed"
    assert structured[0].identity == binary[0].identity == "/shop/1 A-1"


def test_a_batch_is_an_event_for_each_envelope() -> None:
    body = json.dumps([CONTEXT, CONTEXT | {"id": "B"}]).encode()
    events = decode(gzip.compress(body), BATCH | {"content-encoding": "gzip"})
    assert [event.identity for event in events] == ["/shop/1 A-1/0", "/shop/1 B/1"]


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_an_envelope_without_a_required_attribute_is_refused_by_its_name(name: str) -> None:
    envelope = {key: value for key, value in CONTEXT.items() if key != name}
    assert refusal(json.dumps(envelope).encode(), STRUCTURED) == f"the CloudEvent has no {name}"
    assert refusal(json.dumps([CONTEXT, envelope]).encode(), BATCH) == f"CloudEvent 1 of the batch has no {name}"
    empty = json.dumps(envelope | {name: ""}).encode()
    assert refusal(empty, STRUCTURED) == f"the {name} of the CloudEvent is not a text with something in it"


def test_the_shape_of_the_body_has_to_fit_the_mode() -> None:
    assert refusal(b"[]", STRUCTURED) == "a structured CloudEvent is an object; the body is an array"
    assert refusal(b"{}", BATCH) == "a batch of CloudEvents is an array; the body is an object"
    assert "application/cloudevents+avro" in refusal(b"{}", {"content-type": "application/cloudevents+avro"})


def test_an_incomplete_binary_event_is_an_ordinary_message() -> None:
    attributes = {name: value for name, value in BINARY.items() if name != "ce-id"}
    event = decode(b'{"type":"x"}', attributes)[0]
    assert (event.identity, event.table, event.record) == ("4711", "x", {"type": "x"})


def test_a_payload_that_is_not_json_is_kept_as_text_or_bytes() -> None:
    assert decode(b"hello", BINARY | {"content-type": "text/plain"})[0].record["data"] == "hello"
    assert decode(b"\xff\0", BINARY | {"content-type": "text/plain"})[0].record["data_base64"] == "/wA="
    assert decode(b"\x01", BINARY | {"content-type": "application/protobuf"})[0].record["data_base64"] == "AQ=="
    assert "data" not in decode(b"", BINARY)[0].record


def test_explicit_identity_settings_win_and_a_long_one_counts_as_absent() -> None:
    assert decode(b"{}", BINARY | {"event_id": "x"}, event_id_attribute="event_id")[0].identity == "x"
    assert decode(b"{}", BINARY, event_id_key="subject")[0].identity == "s"
    assert decode(b"{}", BINARY | {"ce-id": "x" * 600})[0].identity == "4711"


def test_nul_in_an_attribute_is_cleaned_in_the_record_and_no_identity() -> None:
    event = decode(b"{}", BINARY | {"ce-id": "A\0"})[0]
    assert (event.identity, event.record["id"]) == ("4711", "A")


@given(st.text("a %2025", min_size=1), st.text("a %2025", min_size=1), st.text("a %25"), st.text("a %25"))
def test_no_two_pairs_of_source_and_id_are_one_identity(source: str, other: str, id: str, other_id: str) -> None:
    one = cloudevent.identity({"source": source, "id": id})
    two = cloudevent.identity({"source": other, "id": other_id})
    assert (one == two) == ((source, id) == (other, other_id))
