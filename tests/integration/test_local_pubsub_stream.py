"""Streaming pull and faults of the in-memory Pub/Sub server, over gRPC."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from loader.local.faults import FaultsClient
from loader.local.pubsub_process import PubsubProcess
from loader.local.pubsub_server import PubsubServer
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel


class Stream:
    """One open StreamingPull."""

    def __init__(self, stub: Stub, subscription: str, **first: Any) -> None:
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        first.setdefault("stream_ack_deadline_seconds", 10)
        self.send(subscription=subscription, **first)
        self.call = stub.streaming_pull(iter(self.requests.get, None), timeout=30)
        self._responses: Iterator[Any] = iter(self.call)

    def send(self, **fields: Any) -> None:
        self.requests.put(pb.StreamingPullRequest(**fields))

    def response(self) -> Any:
        return next(self._responses)

    def messages(self, count: int) -> list[Any]:
        received: list[Any] = []
        while len(received) < count:
            received += self.response().received_messages
        return received

    def close(self) -> None:
        self.requests.put(None)
        self.call.cancel()


def open_stream(pubsub: Any, request: pytest.FixtureRequest, subscription: str = "", **first: Any) -> Stream:
    stream = Stream(pubsub.stub, subscription or pubsub.subscription, **first)
    request.addfinalizer(stream.close)
    return stream


def ids(received: list[Any]) -> list[str]:
    return [one.ack_id for one in received]


def settled(pubsub: Any, subscription: str = "", **wanted: int) -> dict[str, int]:
    """Waits until the server's counts are so: acks on a stream are not answered."""
    until = time.monotonic() + 10
    while True:
        counts = pubsub.counts(subscription or None)
        if all(counts[name] == value for name, value in wanted.items()) or time.monotonic() > until:
            return {name: counts[name] for name in wanted}
        time.sleep(0.005)


def test_a_waiting_stream_gets_what_is_published_and_acks_on_it_count(
    pubsub: Any, request: pytest.FixtureRequest
) -> None:
    stream = open_stream(pubsub, request)
    pubsub.publish([b"1", b"2", b"3"])
    received = stream.messages(3)
    assert [one.message.data for one in received] == [b"1", b"2", b"3"]
    stream.send(ack_ids=ids(received[:2]))
    assert settled(pubsub, acked=2, leased=1) == {"acked": 2, "leased": 1}


def test_a_response_holds_up_to_a_thousand_messages(pubsub: Any, request: pytest.FixtureRequest) -> None:
    pubsub.publish([b"x"] * 2_500)
    stream = open_stream(pubsub, request)
    assert [len(stream.response().received_messages) for _ in range(3)] == [1_000, 1_000, 500]


def test_a_response_fits_a_client_with_the_default_limit(pubsub: Any, request: pytest.FixtureRequest) -> None:
    for _ in range(3):
        pubsub.publish([b"x" * 1_000_000] * 3)
    stream = open_stream(pubsub, request)
    sizes = []
    while sum(sizes) < 9:
        response = stream.response()
        assert response.ByteSize() < 4 * 1024 * 1024
        sizes.append(len(response.received_messages))
    assert max(sizes) == 3


def test_flow_control_stops_the_stream_until_an_ack_comes_even_from_elsewhere(
    pubsub: Any, request: pytest.FixtureRequest
) -> None:
    pubsub.publish([b"x"] * 10)
    stream = open_stream(pubsub, request, max_outstanding_messages=4)
    received = stream.messages(4)
    assert settled(pubsub, leased=4, backlog=6) == {"leased": 4, "backlog": 6}
    pubsub.ack(received[:3])
    assert len(stream.messages(3)) == 3
    assert settled(pubsub, leased=4, backlog=3) == {"leased": 4, "backlog": 3}


def test_two_streams_share_a_backlog_without_overlap(pubsub: Any, request: pytest.FixtureRequest) -> None:
    streams = [open_stream(pubsub, request, max_outstanding_messages=50) for _ in range(2)]
    published = pubsub.publish([b"x"] * 100)
    received = [one.message.message_id for stream in streams for one in stream.messages(50)]
    assert sorted(received) == sorted(published)


def test_a_nack_on_the_stream_brings_the_message_back_at_once(pubsub: Any, request: pytest.FixtureRequest) -> None:
    stream = open_stream(pubsub, request)
    pubsub.publish([b"x"])
    (first,) = stream.messages(1)
    stream.send(modify_deadline_ack_ids=[first.ack_id], modify_deadline_seconds=[0])
    (second,) = stream.messages(1)
    assert second.message.message_id == first.message.message_id


def test_messages_of_a_closed_stream_stay_leased_until_their_deadline(
    pubsub: Any, request: pytest.FixtureRequest
) -> None:
    stream = open_stream(pubsub, request)
    pubsub.publish([b"x"])
    (first,) = stream.messages(1)
    stream.close()
    assert pubsub.pull(wait=False) == []
    pubsub.stub.modify_ack_deadline(
        pb.ModifyAckDeadlineRequest(subscription=pubsub.subscription, ack_ids=[first.ack_id], ack_deadline_seconds=1)
    )
    assert [one.message.message_id for one in pubsub.pull()] == [first.message.message_id]


def test_a_stream_ends_when_its_subscription_is_deleted(pubsub: Any, request: pytest.FixtureRequest) -> None:
    name = pubsub.subscribe("short-lived")
    stream = open_stream(pubsub, request, name)
    pubsub.publish([b"x"])
    stream.messages(1)
    pubsub.stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=name))
    with pytest.raises(grpc.RpcError) as error:
        stream.response()
    assert error.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("first", "code"),
    [({"stream_ack_deadline_seconds": 9}, "INVALID_ARGUMENT"), ({"subscription": "nobody"}, "NOT_FOUND")],
)
def test_a_stream_that_cannot_be_is_refused(
    pubsub: Any, request: pytest.FixtureRequest, first: dict[str, Any], code: str
) -> None:
    name = first.pop("subscription", "")
    stream = open_stream(pubsub, request, f"projects/{pubsub.project}/subscriptions/{name}" if name else "", **first)
    with pytest.raises(grpc.RpcError) as error:
        stream.response()
    assert error.value.code().name == code


def test_an_exactly_once_stream_confirms_acks_and_names_the_ones_it_refuses(
    pubsub: Any, request: pytest.FixtureRequest
) -> None:
    name = pubsub.subscribe("once", enable_exactly_once_delivery=True)
    stream = open_stream(pubsub, request, name)
    pubsub.publish([b"x"])
    response = stream.response()
    assert response.subscription_properties.exactly_once_delivery_enabled
    (received,) = response.received_messages
    stream.send(modify_deadline_ack_ids=[received.ack_id, "gone"], modify_deadline_seconds=[30, 30])
    confirmation = stream.response().modify_ack_deadline_confirmation
    assert (list(confirmation.ack_ids), list(confirmation.invalid_ack_ids)) == ([received.ack_id], ["gone"])
    stream.send(ack_ids=[received.ack_id])
    assert list(stream.response().acknowledge_confirmation.ack_ids) == [received.ack_id]
    stream.send(ack_ids=[received.ack_id])
    assert list(stream.response().acknowledge_confirmation.invalid_ack_ids) == [received.ack_id]


def test_a_refused_unary_ack_carries_the_reason_for_each_id(pubsub: Any) -> None:
    name = pubsub.subscribe("once", enable_exactly_once_delivery=True)
    pubsub.publish([b"x"])
    good = pubsub.pull(subscription=name)
    with pytest.raises(grpc.RpcError) as error:
        pubsub.stub.acknowledge(pb.AcknowledgeRequest(subscription=name, ack_ids=[*ids(good), "gone"]))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    status = rpc_status.from_call(error.value)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert dict(info.metadata) == {"gone": "PERMANENT_FAILURE_INVALID_ACK_ID"}
    assert pubsub.counts(name)["acked"] == 1


def test_a_cut_ends_every_stream_with_the_code_asked_for(pubsub: Any, request: pytest.FixtureRequest) -> None:
    streams = [open_stream(pubsub, request) for _ in range(2)]
    pubsub.publish([b"x"])
    settled(pubsub, leased=1)
    until = time.monotonic() + 10
    while pubsub.faults.stats()["streams"] < 2 and time.monotonic() < until:
        time.sleep(0.005)
    pubsub.faults.cut_streams("ABORTED", "as told")
    for stream in streams:
        with pytest.raises(grpc.RpcError) as error:
            while True:
                stream.response()
        assert (error.value.code(), error.value.details()) == (grpc.StatusCode.ABORTED, "as told")
    later = open_stream(pubsub, request)
    pubsub.publish([b"y"])
    assert [one.message.data for one in later.messages(1)] == [b"y"]


def test_duplicates_come_twice_with_ack_ids_of_their_own(pubsub: Any, request: pytest.FixtureRequest) -> None:
    pubsub.faults.duplicate(2)
    pubsub.publish([b"1", b"2", b"3"])
    received = open_stream(pubsub, request).messages(5)
    assert sorted(one.message.data for one in received) == [b"1", b"1", b"2", b"2", b"3"]
    assert len(set(ids(received))) == 5
    pubsub.ack(received)
    assert settled(pubsub, acked=5, leased=0, backlog=0) == {"acked": 5, "leased": 0, "backlog": 0}


def test_a_method_is_refused_as_often_as_asked(pubsub: Any) -> None:
    pubsub.faults.refuse("Publish", 2)
    for _ in range(2):
        with pytest.raises(grpc.RpcError) as error:
            pubsub.publish([b"x"])
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    pubsub.publish([b"x"])
    pubsub.faults.refuse("StreamingPull", 1, "PERMISSION_DENIED")
    stream = Stream(pubsub.stub, pubsub.subscription)
    with pytest.raises(grpc.RpcError) as error:
        stream.response()
    assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    stream.close()


def test_a_silent_stream_takes_acks_and_sends_again_when_the_fault_ends(
    pubsub: Any, request: pytest.FixtureRequest
) -> None:
    stream = open_stream(pubsub, request)
    pubsub.publish([b"1"])
    received = stream.messages(1)
    pubsub.faults.silence()
    pubsub.publish([b"2"])
    stream.send(ack_ids=ids(received))
    assert settled(pubsub, acked=1, leased=0, backlog=1) == {"acked": 1, "leased": 0, "backlog": 1}
    pubsub.faults.silence(False)
    assert [one.message.data for one in stream.messages(1)] == [b"2"]


def test_dropped_acks_are_answered_as_good_and_do_nothing(pubsub: Any) -> None:
    pubsub.faults.drop_acks(1)
    pubsub.publish([b"x"])
    received = pubsub.pull()
    pubsub.ack(received)
    assert pubsub.counts()["leased"] == 1
    pubsub.ack(received)
    assert pubsub.counts()["leased"] == 0


def test_a_delay_holds_deliveries_back_while_their_leases_run(pubsub: Any, request: pytest.FixtureRequest) -> None:
    pubsub.faults.delay(0.3)
    stream = open_stream(pubsub, request)
    pubsub.publish([b"x"])
    settled(pubsub, leased=1)
    begun = time.monotonic()
    assert len(stream.messages(1)) == 1
    assert time.monotonic() - begun > 0.1


def test_a_server_in_another_process_takes_faults_and_is_empty_after_a_kill(pubsub_process: PubsubProcess) -> None:
    channel = open_channel(pubsub_process.endpoint)
    stub = Stub(channel)
    topic = "projects/p/topics/events"
    stub.create_topic(pb.Topic(name=topic))
    pubsub_process.faults.refuse("GetTopic", 1, "INTERNAL")
    with pytest.raises(grpc.RpcError) as error:
        stub.get_topic(pb.GetTopicRequest(topic=topic))
    assert error.value.code() == grpc.StatusCode.INTERNAL
    message = pb.PubsubMessage(data=b"x")
    before = stub.publish(pb.PublishRequest(topic=topic, messages=[message])).message_ids
    endpoint = pubsub_process.endpoint
    channel.close()
    pubsub_process.kill()
    pubsub_process.start()
    assert pubsub_process.endpoint == endpoint
    channel = open_channel(endpoint)
    stub = Stub(channel)
    assert list(stub.list_topics(pb.ListTopicsRequest(project="projects/p")).topics) == []
    stub.create_topic(pb.Topic(name=topic))
    after = stub.publish(pb.PublishRequest(topic=topic, messages=[message])).message_ids
    channel.close()
    assert int(after[0]) > int(before[0])


def test_an_unknown_fault_is_refused_by_name(pubsub_process: PubsubProcess) -> None:
    with FaultsClient(pubsub_process.endpoint) as client:
        with pytest.raises(grpc.RpcError, match="no_such_fault"):
            client._call("no_such_fault")


def test_a_port_that_is_taken_is_an_error_and_not_a_second_server(pubsub_server: PubsubServer) -> None:
    with pytest.raises(RuntimeError):
        PubsubServer(pubsub_server.port)
