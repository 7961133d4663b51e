"""From protobuf to messages."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from loader.pull import protocol as pb
from loader.pull.receive import messages


def test_every_field_of_a_message_arrives() -> None:
    response = pb.StreamingPullResponse()
    received = response.received_messages.add(ack_id="ack", delivery_attempt=3)
    received.message.data = b"\x00\xff"
    received.message.message_id = "42"
    received.message.attributes["event_id"] = "a/1"
    received.message.attributes["ключ"] = ""
    received.message.ordering_key = "k"
    received.message.publish_time.CopyFrom(Timestamp(seconds=1_796_051_463, nanos=123_456_789))
    response.received_messages.add(ack_id="bare")
    [full, bare], size = messages(response)
    assert size == 2
    assert full == ("ack", "42", b"\x00\xff", {"event_id": "a/1", "ключ": ""}, 1_796_051_463_123_456, 3, "k")
    assert type(full.attributes) is dict
    assert bare == ("bare", "", b"", {}, 0, 0, "")


def test_a_response_without_messages_is_empty() -> None:
    assert messages(pb.StreamingPullResponse()) == ([], 0)
