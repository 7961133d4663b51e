"""One suite for the in-memory server and the official emulator: what both must do alike, judged by unary Pull."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from loader.errors import LoaderError
from loader.local.emulator import EmulatorProcess, find_emulator
from loader.local.pubsub_server import PubsubServer
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel


@pytest.fixture(scope="module", params=["memory", pytest.param("official", marks=pytest.mark.emulator)])
def stub(request: pytest.FixtureRequest) -> Iterator[Stub]:
    server: Any
    if request.param == "memory":
        server = PubsubServer()
    else:
        try:
            server = EmulatorProcess(find_emulator())
        except LoaderError as missing:
            pytest.skip(str(missing))
    with server:
        channel = open_channel(server.endpoint)
        yield Stub(channel)
        channel.close()


@pytest.fixture
def project() -> str:
    return f"projects/p{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(stub: Stub, project: str) -> str:
    return str(stub.create_topic(pb.Topic(name=f"{project}/topics/events")).name)


@pytest.fixture
def subscribe(stub: Stub, project: str, topic: str) -> Callable[..., str]:
    def make(name: str = "loader", **settings: Any) -> str:
        full = f"{project}/subscriptions/{name}"
        return str(stub.create_subscription(pb.Subscription(name=full, topic=topic, **settings)).name)

    return make


def publish(stub: Stub, topic: str, *bodies: bytes, **attributes: str) -> list[str]:
    messages = [pb.PubsubMessage(data=body, attributes=attributes) for body in bodies]
    return list(stub.publish(pb.PublishRequest(topic=topic, messages=messages)).message_ids)


def pull(stub: Stub, subscription: str, count: int) -> list[Any]:
    """Pulls until `count` messages came; fewer when the server has no more."""
    received: list[Any] = []
    while len(received) < count:
        request = pb.PullRequest(subscription=subscription, max_messages=count - len(received))
        try:
            received += stub.pull(request, timeout=3).received_messages
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            break
    return received


def nothing(stub: Stub, subscription: str) -> bool:
    request = pb.PullRequest(subscription=subscription, max_messages=10, return_immediately=True)
    return not stub.pull(request).received_messages


def bodies(received: list[Any]) -> list[bytes]:
    return sorted(one.message.data for one in received)


def ack(stub: Stub, subscription: str, received: list[Any]) -> None:
    ids = [one.ack_id for one in received]
    stub.acknowledge(pb.AcknowledgeRequest(subscription=subscription, ack_ids=ids))


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return str(error.value.code().name)


def test_what_is_made_is_found_listed_and_deleted(
    stub: Stub, project: str, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe(ack_deadline_seconds=30)
    found = stub.get_subscription(pb.GetSubscriptionRequest(subscription=name))
    assert (found.topic, found.ack_deadline_seconds) == (topic, 30)
    assert found.message_retention_duration.seconds == 7 * 86_400
    assert stub.get_topic(pb.GetTopicRequest(topic=topic)).name == topic
    assert [one.name for one in stub.list_topics(pb.ListTopicsRequest(project=project)).topics] == [topic]
    listed = stub.list_subscriptions(pb.ListSubscriptionsRequest(project=project)).subscriptions
    assert [one.name for one in listed] == [name]
    stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=name))
    stub.delete_topic(pb.DeleteTopicRequest(topic=topic))
    assert code_of(lambda: stub.get_topic(pb.GetTopicRequest(topic=topic))) == "NOT_FOUND"
    assert code_of(lambda: stub.get_subscription(pb.GetSubscriptionRequest(subscription=name))) == "NOT_FOUND"


def test_names_that_are_taken_or_unknown_are_refused(
    stub: Stub, project: str, topic: str, subscribe: Callable[..., str]
) -> None:
    subscribe()
    assert code_of(lambda: stub.create_topic(pb.Topic(name=topic))) == "ALREADY_EXISTS"
    assert code_of(subscribe) == "ALREADY_EXISTS"
    other = pb.Subscription(name=f"{project}/subscriptions/other", topic=f"{project}/topics/none")
    assert code_of(lambda: stub.create_subscription(other)) == "NOT_FOUND"
    assert code_of(lambda: publish(stub, f"{project}/topics/none", b"x")) == "NOT_FOUND"
    missing = pb.PullRequest(subscription=f"{project}/subscriptions/none", max_messages=1)
    assert code_of(lambda: stub.pull(missing)) == "NOT_FOUND"
    assert code_of(lambda: stub.create_topic(pb.Topic(name=f"{project}/topics/1x"))) == "INVALID_ARGUMENT"


def test_requests_that_cannot_be_right_are_refused(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe()
    assert code_of(lambda: publish(stub, topic)) == "INVALID_ARGUMENT"
    assert code_of(lambda: publish(stub, topic, b"")) == "INVALID_ARGUMENT"
    assert code_of(lambda: publish(stub, topic, *[b"x"] * 1_001)) == "INVALID_ARGUMENT"
    assert code_of(lambda: stub.pull(pb.PullRequest(subscription=name, max_messages=0))) == "INVALID_ARGUMENT"
    assert code_of(lambda: subscribe("long", ack_deadline_seconds=601)) == "INVALID_ARGUMENT"


def test_a_message_arrives_as_it_was_published(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe()
    body = bytes(range(256))
    (message_id,) = publish(stub, topic, body, kind="a", empty="")
    (received,) = pull(stub, name, 1)
    assert received.message.data == body
    assert dict(received.message.attributes) == {"kind": "a", "empty": ""}
    assert received.message.message_id == message_id
    assert message_id.isdigit()
    assert received.message.publish_time.seconds > 1_600_000_000
    assert received.delivery_attempt == 0


def test_a_message_without_a_body_arrives(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe()
    publish(stub, topic, b"", only="attributes")
    (received,) = pull(stub, name, 1)
    assert (received.message.data, dict(received.message.attributes)) == (b"", {"only": "attributes"})


def test_an_id_and_a_time_that_the_publisher_sets_count_for_nothing(
    stub: Stub, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe()
    message = pb.PubsubMessage(data=b"x", message_id="mine", publish_time={"seconds": 5, "nanos": 7})
    (message_id,) = stub.publish(pb.PublishRequest(topic=topic, messages=[message])).message_ids
    (received,) = pull(stub, name, 1)
    assert received.message.message_id == message_id != "mine"
    assert received.message.publish_time.seconds > 1_600_000_000
    assert received.message.publish_time.nanos < 1_000_000_000


def test_every_subscription_has_every_message_published_after_it_was_made(
    stub: Stub, topic: str, subscribe: Callable[..., str]
) -> None:
    first = subscribe("first")
    publish(stub, topic, b"1")
    second = subscribe("second")
    publish(stub, topic, b"2")
    assert bodies(pull(stub, first, 2)) == [b"1", b"2"]
    assert bodies(pull(stub, second, 1)) == [b"2"]
    assert nothing(stub, second)


def test_what_is_leased_is_not_delivered_and_what_is_acked_never_again(
    stub: Stub, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe()
    publish(stub, topic, b"1", b"2")
    received = pull(stub, name, 2)
    assert nothing(stub, name)
    ack(stub, name, received)
    stub.modify_ack_deadline(
        pb.ModifyAckDeadlineRequest(subscription=name, ack_ids=[one.ack_id for one in received], ack_deadline_seconds=0)
    )
    assert nothing(stub, name)


def test_a_nacked_message_comes_again_at_once_under_another_ack_id(
    stub: Stub, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe()
    publish(stub, topic, b"1")
    (first,) = pull(stub, name, 1)
    stub.modify_ack_deadline(
        pb.ModifyAckDeadlineRequest(subscription=name, ack_ids=[first.ack_id], ack_deadline_seconds=0)
    )
    (second,) = pull(stub, name, 1)
    assert second.message.message_id == first.message.message_id
    assert second.message.publish_time == first.message.publish_time
    assert second.ack_id != first.ack_id


def test_a_lease_that_runs_out_is_delivered_again(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe()
    publish(stub, topic, b"1")
    (first,) = pull(stub, name, 1)
    stub.modify_ack_deadline(
        pb.ModifyAckDeadlineRequest(subscription=name, ack_ids=[first.ack_id], ack_deadline_seconds=1)
    )
    (second,) = pull(stub, name, 1)
    assert second.message.message_id == first.message.message_id


def test_a_seek_to_a_time_brings_retained_messages_back_and_drops_older_ones(
    stub: Stub, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe(retain_acked_messages=True)
    publish(stub, topic, b"old")
    (old,) = pull(stub, name, 1)
    publish(stub, topic, b"new-1", b"new-2")
    new = pull(stub, name, 2)
    ack(stub, name, [old, *new])
    assert nothing(stub, name)
    moment = min(one.message.publish_time.ToNanoseconds() for one in new)
    assert moment > old.message.publish_time.ToNanoseconds()
    request = pb.SeekRequest(subscription=name)
    request.time.FromNanoseconds(moment)
    stub.seek(request)
    again = pull(stub, name, 2)
    assert bodies(again) == [b"new-1", b"new-2"]
    assert {one.message.message_id for one in again} == {one.message.message_id for one in new}
    assert nothing(stub, name)


def test_a_seek_to_a_later_time_acks_the_backlog(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe()
    publish(stub, topic, b"1", b"2")
    request = pb.SeekRequest(subscription=name)
    request.time.FromSeconds(4_000_000_000)
    stub.seek(request)
    assert nothing(stub, name)
    publish(stub, topic, b"3")
    # The service treats a time to come as now: what is published afterwards is delivered.
    assert bodies(pull(stub, name, 1)) == [b"3"]


def test_a_seek_to_a_snapshot_brings_back_its_backlog_and_what_came_later(
    stub: Stub, project: str, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe()
    publish(stub, topic, b"acked-before")
    ack(stub, name, pull(stub, name, 1))
    publish(stub, topic, b"in-backlog")
    snapshot = f"{project}/snapshots/before"
    made = stub.create_snapshot(pb.CreateSnapshotRequest(name=snapshot, subscription=name))
    assert (made.name, made.topic) == (snapshot, topic)
    publish(stub, topic, b"later")
    ack(stub, name, pull(stub, name, 2))
    assert nothing(stub, name)
    stub.seek(pb.SeekRequest(subscription=name, snapshot=snapshot))
    assert bodies(pull(stub, name, 2)) == [b"in-backlog", b"later"]
    assert nothing(stub, name)
    listed = stub.list_snapshots(pb.ListSnapshotsRequest(project=project)).snapshots
    assert [one.name for one in listed] == [snapshot]
    stub.delete_snapshot(pb.DeleteSnapshotRequest(snapshot=snapshot))
    assert code_of(lambda: stub.seek(pb.SeekRequest(subscription=name, snapshot=snapshot))) == "NOT_FOUND"


def test_settings_change_by_mask_and_only_those_in_it(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe(ack_deadline_seconds=20)
    changed = pb.Subscription(name=name, retain_acked_messages=True, ack_deadline_seconds=40, topic=topic)
    request = pb.UpdateSubscriptionRequest(subscription=changed, update_mask={"paths": ["retain_acked_messages"]})
    stub.update_subscription(request)
    found = stub.get_subscription(pb.GetSubscriptionRequest(subscription=name))
    assert (found.retain_acked_messages, found.ack_deadline_seconds) == (True, 20)


def test_deliveries_are_counted_under_a_dead_letter_policy_and_end_in_its_topic(
    stub: Stub, project: str, topic: str, subscribe: Callable[..., str]
) -> None:
    dead = stub.create_topic(pb.Topic(name=f"{project}/topics/dead")).name
    watcher = f"{project}/subscriptions/dead-watcher"
    stub.create_subscription(pb.Subscription(name=watcher, topic=dead))
    name = subscribe(dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 5})
    publish(stub, topic, b"poison")
    for attempt in range(1, 6):
        (received,) = pull(stub, name, 1)
        assert received.delivery_attempt == attempt
        stub.modify_ack_deadline(
            pb.ModifyAckDeadlineRequest(subscription=name, ack_ids=[received.ack_id], ack_deadline_seconds=0)
        )
    assert nothing(stub, name)
    (letter,) = pull(stub, watcher, 1)
    assert letter.message.data == b"poison"
    assert letter.message.attributes["CloudPubSubDeadLetterSourceSubscription"] == "loader"
    assert letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"


def test_an_ordering_key_keeps_its_messages_in_order(stub: Stub, topic: str, subscribe: Callable[..., str]) -> None:
    name = subscribe(enable_message_ordering=True)
    messages = [pb.PubsubMessage(data=b"%03d" % number, ordering_key="k") for number in range(50)]
    stub.publish(pb.PublishRequest(topic=topic, messages=messages))
    received = pull(stub, name, 50)
    assert [one.message.data for one in received] == [b"%03d" % number for number in range(50)]
    assert {one.message.ordering_key for one in received} == {"k"}


def test_an_exactly_once_subscription_takes_an_ack_in_time(
    stub: Stub, topic: str, subscribe: Callable[..., str]
) -> None:
    name = subscribe(enable_exactly_once_delivery=True)
    publish(stub, topic, b"1")
    received = pull(stub, name, 1)
    ack(stub, name, received)
    assert nothing(stub, name)
    assert stub.get_subscription(pb.GetSubscriptionRequest(subscription=name)).enable_exactly_once_delivery
