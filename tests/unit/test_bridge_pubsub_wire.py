"""The hand-built publish request says what the protobuf classes read."""

from __future__ import annotations

import time

import hypothesis.strategies as st
import pytest
from hypothesis import given
from sink_doubles import Channel, Delivery

from loader.bridge.engine.bucket import Share
from loader.bridge.frame import Frame, Payload
from loader.bridge.sinks import pubsub as module
from loader.bridge.sinks.pubsub import PubsubSink
from loader.bridge.sinks.sink import Origin
from loader.pull import protocol as pb

TOPIC = "projects/project/topics/topic"


def _sink(**options):
    channel, delivery = Channel(), Delivery()
    return PubsubSink("out", TOPIC, lambda: channel, delivery, None, **options), channel, delivery


def _frame(value=b"{}", key=None, headers=(), offset=7, timestamp=1_796_000_000_123, prefix="cluster/topic/0/"):
    return Frame(Payload(value, None), key, headers, "topic", 0, offset, timestamp, Origin("topic", 0, prefix))


def _sent(frames, **options):
    sink, channel, delivery = _sink(**options)
    share = Share()
    share.give(len(frames))
    sink.send(frames, share, 100.0)
    sink.flush()
    requests = [pb.PublishRequest.FromString(body) for body in channel.bodies]
    assert all(request.topic == TOPIC for request in requests)
    return requests, delivery


@given(
    st.lists(
        st.tuples(
            st.one_of(st.binary(max_size=300), st.sampled_from([b"x" * 3_799, b"y" * 3_800, b"z" * 70_000])),
            st.integers(0, 2**62),
            st.integers(0, 2**40),
            st.lists(st.tuples(st.text(min_size=1, max_size=8).filter(lambda t: not t.lower().startswith("goog")),
                               st.text(max_size=20)), max_size=3, unique_by=lambda pair: pair[0]),
            st.sampled_from(["cluster/topic/0/", "c" * 95 + "/", "p" * 130 + "/"]),
        ),
        min_size=1,
        max_size=5,
    )
)  # fmt: skip
def test_what_is_built_by_hand_is_what_the_classes_read(messages):
    frames = [
        _frame(value, None, [(name, text.encode()) for name, text in headers], offset, timestamp, prefix)
        for value, offset, timestamp, headers, prefix in messages
    ]
    [request], _ = _sent(frames)
    for (value, offset, timestamp, headers, prefix), found in zip(messages, request.messages, strict=True):
        assert found.data == value
        wanted = {**dict(headers), "event_id": f"{prefix}{offset}"}
        if timestamp:
            wanted["kafka_timestamp"] = str(timestamp)
        kept = {name: text for name, text in found.attributes.items() if name in wanted}
        if not {"event_id", "kafka_timestamp", "tombstone"} & dict(headers).keys():
            assert kept == wanted


def test_a_request_holds_a_thousand_messages_at_most():
    requests, _ = _sent([_frame(offset=number) for number in range(2_500)])
    assert [len(request.messages) for request in requests] == [1_000, 1_000, 500]
    offsets = [
        message.attributes["event_id"].rpartition("/")[2] for request in requests for message in request.messages
    ]
    assert offsets == [str(number) for number in range(2_500)]


def test_a_request_holds_ten_megabytes_at_most():
    requests, _ = _sent([_frame(b"x" * 3_000_000, offset=number) for number in range(8)])
    assert sum(len(request.messages) for request in requests) == 8
    assert all(request.ByteSize() <= module.MOST_BYTES for request in requests)
    assert len(requests) == 3


def test_a_message_beyond_the_limit_is_refused_alone():
    requests, delivery = _sent([_frame(b"a"), _frame(b"x" * 10_000_000, offset=8), _frame(b"b", offset=9)])
    assert [message.data for request in requests for message in request.messages] == [b"a", b"b"]
    [(frame, reason)] = delivery.refused
    assert frame.offset == 8
    assert "10000000" in reason


def test_headers_lose_nothing():
    headers = [("a", b"1"), ("a", b"2"), ("bin", b"\xff\x00"), ("", b"x"), ("googclient", b"y"), ("none", None)]
    [request], _ = _sent([_frame(headers=headers)])
    assert dict(request.messages[0].attributes) == {
        "a": "1",
        "a.2": "2",
        "bin.base64": "/wA=",
        "_": "x",
        "kafka.googclient": "y",
        "none": "",
        "event_id": "cluster/topic/0/7",
        "kafka_timestamp": "1796000000123",
    }


@pytest.mark.parametrize(
    "headers",
    [[("k", b"v" * 1_025)], [("k" * 257, b"v")], [(f"h{number}", b"v") for number in range(98)]],
    ids=["long value", "long name", "too many"],
)
def test_headers_beyond_the_limits_are_refused_or_left_out(headers):
    requests, delivery = _sent([_frame(headers=headers)])
    assert not requests
    assert len(delivery.refused) == 1
    [request], delivery = _sent([_frame(headers=headers)], drop_long_headers=True)
    assert not delivery.refused
    assert request.messages[0].attributes["event_id"] == "cluster/topic/0/7"
    assert len(request.messages[0].attributes) <= 100


def test_a_tombstone_that_is_forwarded_is_marked():
    [request], _ = _sent([_frame(None)])
    assert request.messages[0].data == b""
    assert request.messages[0].attributes["tombstone"] == "true"


def test_a_key_becomes_an_ordering_key_if_wanted():
    [request], _ = _sent([_frame(key=b"k"), _frame(key=b"\xff"), _frame()], ordering=True)
    assert [message.ordering_key for message in request.messages] == ["k", "/w==", ""]


def test_identity_ends_with_pipeline_and_copy():
    frame = _frame()
    frame.index = (2, 1)
    [request], _ = _sent([frame, _frame()], pipeline="p")
    assert [each.attributes["event_id"] for each in request.messages] == [
        "cluster/topic/0/7/p/2/1",
        "cluster/topic/0/7/p",
    ]


def test_building_is_cheaper_than_the_classes():
    frames = [_frame(b"x" * 200, offset=number) for number in range(1_000)]
    sink, _, _ = _sink()
    share = Share()
    best = [9.0, 9.0]
    for _ in range(5):
        began = time.process_time()
        sink.send(frames, share, 0.0)
        best[0] = min(best[0], time.process_time() - began)
        began = time.process_time()
        request = pb.PublishRequest(topic=TOPIC)
        for frame in frames:
            request.messages.add(
                data=frame.value(),
                attributes={"event_id": f"cluster/topic/0/{frame.offset}", "kafka_timestamp": str(frame.timestamp)},
            )
        request.SerializeToString()
        best[1] = min(best[1], time.process_time() - began)
    assert best[0] < best[1]
