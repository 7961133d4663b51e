"""The in-memory Pub/Sub server's state machine, with a clock that the test turns."""

from __future__ import annotations

from typing import Any

import pytest

from loader.local import protocol
from loader.local.lease import Consumer, Lease
from loader.local.refusal import Refusal
from loader.local.store import Store
from loader.local.subscription import SECOND, Subscription

TOPIC = "projects/p/topics/events"
NAME = "projects/p/subscriptions/loader"


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


class Bench:
    """A store with one topic and one subscription."""

    def __init__(self, topic: dict[str, Any] | None = None, max_bytes: int = 10**9, **settings: Any) -> None:
        self.clock = Clock()
        self.store = Store(self.clock, max_bytes)
        self.store.create_topic(protocol.Topic(name=TOPIC, **(topic or {})))
        self.subscription = self.subscribe(NAME, **settings)

    def subscribe(self, name: str, **settings: Any) -> Subscription:
        self.store.create_subscription(protocol.Subscription(name=name, topic=TOPIC, **settings))
        return self.store.subscription(name)

    def publish(self, *bodies: bytes, key: str = "") -> list[str]:
        messages = [protocol.PubsubMessage(data=body, ordering_key=key) for body in bodies]
        return self.store.publish(TOPIC, messages)[0]

    def take(
        self, limit: int = 1_000, consumer: Consumer | None = None, max_bytes: int = 10**9, deadline: int = 10
    ) -> list[Lease]:
        consumer = consumer or Consumer(0, 0, deadline * SECOND)
        return self.subscription.take(consumer, limit, max_bytes, self.clock())

    def ack(self, leases: list[Lease]) -> list[str]:
        return self.subscription.ack([lease.ack_id for lease in leases], self.clock())

    def nack(self, leases: list[Lease]) -> list[str]:
        return self.subscription.modify([lease.ack_id for lease in leases], 0, self.clock())


def bodies(leases: list[Lease]) -> list[bytes]:
    return [protocol.message_of(lease.message.field).data for lease in leases]


def test_an_encoded_delivery_reads_as_the_service_would_send_it() -> None:
    bench = Bench(dead_letter_policy={"dead_letter_topic": "projects/p/topics/dead", "max_delivery_attempts": 5})
    messages = [protocol.PubsubMessage(data=b"x" * size, attributes={"a": "ü"}) for size in (0, 1, 127, 128, 70_000)]
    ids = bench.store.publish(TOPIC, messages)[0]
    leases = bench.take()
    response = protocol.StreamingPullResponse.FromString(protocol.encode_received(leases, counts=True))
    received = response.received_messages
    assert [len(one.message.data) for one in received] == [0, 1, 127, 128, 70_000]
    assert [one.message.message_id for one in received] == ids
    assert [one.ack_id for one in received] == [lease.ack_id for lease in leases]
    assert {one.delivery_attempt for one in received} == {1}
    assert {one.message.publish_time.ToMicroseconds() for one in received} == {bench.clock.now}
    assert dict(received[0].message.attributes) == {"a": "ü"}


def test_message_and_ack_ids_of_a_later_server_are_new() -> None:
    first, second = Bench(), Bench()
    second.store = Store(lambda: first.clock.now + SECOND)
    second.store.create_topic(protocol.Topic(name=TOPIC))
    second.subscription = second.subscribe(NAME)
    old, new = first.publish(b"a", b"b"), second.publish(b"a", b"b")
    assert not set(old) & set(new)
    assert not {lease.ack_id for lease in first.take()} & {lease.ack_id for lease in second.take()}


def test_flow_control_by_messages_holds_until_acks_make_room() -> None:
    bench = Bench()
    bench.publish(*[b"x"] * 10)
    consumer = Consumer(4, 0, 10 * SECOND)
    first = bench.take(consumer=consumer)
    assert len(first) == 4
    assert bench.take(consumer=consumer) == []
    bench.ack(first[:1])
    assert len(bench.take(consumer=consumer)) == 1


def test_flow_control_by_bytes_counts_what_is_outstanding_and_lets_one_great_message_through() -> None:
    bench = Bench()
    bench.publish(b"x" * 5_000, b"y" * 400, b"z" * 400)
    consumer = Consumer(0, 1_000, 10 * SECOND)
    great = bench.take(consumer=consumer)
    assert bodies(great) == [b"x" * 5_000]
    assert bench.take(consumer=consumer) == []
    bench.ack(great)
    assert bodies(bench.take(consumer=consumer)) == [b"y" * 400, b"z" * 400]


@pytest.mark.parametrize("end", ["ack", "nack", "expiry", "seek"])
def test_every_end_of_a_lease_gives_its_room_back(end: str) -> None:
    bench = Bench()
    bench.publish(b"1", b"2")
    consumer = Consumer(2, 0, 10 * SECOND)
    leases = bench.take(consumer=consumer)
    if end == "ack":
        bench.ack(leases)
    elif end == "nack":
        bench.nack(leases)
    elif end == "expiry":
        bench.clock.pass_by(10)
        bench.subscription.expire(bench.clock())
    else:
        bench.store.seek_to_time(NAME, 0)
    assert (consumer.messages, consumer.bytes) == (0, 0)
    assert bench.subscription.leased == {}


def test_a_lease_ends_at_its_deadline_and_not_before() -> None:
    bench = Bench()
    bench.publish(b"1")
    bench.take(deadline=10)
    bench.clock.pass_by(9.999)
    assert bench.take() == []
    assert bench.subscription.next_wake() == bench.clock.now + 1_000
    bench.clock.pass_by(0.001)
    assert bodies(bench.take()) == [b"1"]


def test_an_extended_lease_ends_at_the_new_deadline_and_a_shortened_one_too() -> None:
    bench = Bench()
    bench.publish(b"long", b"short")
    long, short = bench.take(deadline=10)
    bench.subscription.modify([long.ack_id], 60, bench.clock())
    bench.subscription.modify([short.ack_id], 1, bench.clock())
    bench.clock.pass_by(1)
    assert bodies(bench.take(deadline=600)) == [b"short"]
    bench.clock.pass_by(58)
    assert bench.take() == []
    bench.clock.pass_by(1)
    assert bodies(bench.take()) == [b"long"]


def test_the_same_ack_id_twice_in_a_request_counts_once() -> None:
    bench = Bench()
    bench.publish(b"1", b"2")
    first, second = bench.take()
    assert bench.subscription.modify([first.ack_id, first.ack_id], 60, bench.clock()) == []
    assert bench.subscription.ack([second.ack_id, second.ack_id], bench.clock()) == [second.ack_id]
    bench.clock.pass_by(60)
    assert bodies(bench.take()) == [b"1"]
    assert bench.subscription.acknowledged == 1


def test_a_late_ack_counts_until_the_message_was_delivered_again() -> None:
    bench = Bench()
    bench.publish(b"1", b"2")
    leases = bench.take()
    bench.clock.pass_by(11)
    bench.subscription.expire(bench.clock())
    assert bench.ack(leases[:1]) == []
    assert bodies(bench.take()) == [b"2"]
    assert bench.ack(leases[1:]) == [leases[1].ack_id]
    assert bench.subscription.unacked == 1


def test_an_exactly_once_subscription_takes_no_late_ack() -> None:
    bench = Bench(enable_exactly_once_delivery=True)
    bench.publish(b"1")
    leases = bench.take()
    bench.clock.pass_by(11)
    assert bench.ack(leases) == [leases[0].ack_id]
    assert bodies(bench.take()) == [b"1"]


def test_messages_that_are_nacked_for_ever_do_not_starve_the_others() -> None:
    bench = Bench()
    bench.publish(*[b"poison"] * 10)
    bench.nack(bench.take())
    bench.publish(*[b"good"] * 100)
    seen: list[bytes] = []
    for _ in range(25):
        leases = bench.take(limit=10)
        seen += bodies(leases)
        bench.nack([lease for lease, body in zip(leases, bodies(leases), strict=True) if body == b"poison"])
    assert seen.count(b"good") == 100


def test_a_retry_policy_holds_a_nacked_message_back_for_longer_each_time() -> None:
    bench = Bench(retry_policy={"minimum_backoff": {"seconds": 10}, "maximum_backoff": {"seconds": 15}})
    bench.publish(b"1")
    for wait in (10, 15, 15):
        bench.nack(bench.take())
        bench.clock.pass_by(wait - 0.001)
        assert bench.take() == []
        bench.clock.pass_by(0.001)
    assert bodies(bench.take()) == [b"1"]


def test_an_ordering_key_waits_for_its_lease_and_a_nack_takes_its_followers_along() -> None:
    bench = Bench(enable_message_ordering=True)
    bench.publish(b"a1", b"a2", key="a")
    first = bench.take()
    assert bodies(first) == [b"a1", b"a2"]
    bench.publish(b"a3", key="a")
    bench.publish(b"b1", key="b")
    assert bodies(bench.take()) == [b"b1"]
    bench.nack(first[:1])
    assert bodies(bench.take()) == [b"a1", b"a2", b"a3"]


def test_messages_older_than_the_retention_are_gone() -> None:
    bench = Bench(message_retention_duration={"seconds": 600}, retain_acked_messages=True)
    bench.publish(b"acked")
    bench.ack(bench.take())
    bench.publish(b"never taken")
    bench.clock.pass_by(601)
    bench.publish(b"young")
    bench.store.seek_to_time(NAME, 0)
    assert bodies(bench.take()) == [b"young"]


def test_a_topic_with_retention_gives_a_new_subscription_its_past() -> None:
    bench = Bench(topic={"message_retention_duration": {"seconds": 3_600}})
    bench.publish(b"old")
    bench.clock.pass_by(60)
    moment = bench.clock.now
    bench.publish(b"wanted")
    late = bench.subscribe("projects/p/subscriptions/late")
    assert late.unacked == 0
    bench.store.seek_to_time(late.name, moment)
    assert [protocol.message_of(one.field).data for one in late.unacked_messages()] == [b"wanted"]
    bench.clock.pass_by(3_601)
    later = bench.subscribe("projects/p/subscriptions/later")
    bench.store.seek_to_time(later.name, 0)
    assert later.unacked == 0


def test_a_seek_without_anything_retained_brings_nothing_back() -> None:
    bench = Bench()
    bench.publish(b"1")
    bench.ack(bench.take())
    bench.store.seek_to_time(NAME, 0)
    assert bench.take() == []


def test_bytes_return_to_nothing_once_all_is_acked() -> None:
    bench = Bench()
    bench.publish(*[b"x" * 100] * 50)
    leases = bench.take(limit=20)
    bench.nack(leases[:5])
    bench.subscription.duplicate(leases[6], bench.clock())
    for _ in range(10):
        bench.clock.pass_by(11)
        bench.ack(bench.take(limit=30))
    assert bench.subscription.unacked == 0
    assert bench.store.bytes() == 0


def test_a_publish_beyond_the_memory_is_refused_and_nothing_unacked_is_dropped() -> None:
    bench = Bench(max_bytes=3_000)
    bench.publish(b"x" * 1_000, b"y" * 1_000)
    with pytest.raises(Refusal, match="RESOURCE_EXHAUSTED"):
        bench.publish(b"z" * 1_000)
    leases = bench.take()
    assert bodies(leases) == [b"x" * 1_000, b"y" * 1_000]
    bench.ack(leases)
    bench.publish(b"z" * 1_000)
    assert bodies(bench.take()) == [b"z" * 1_000]


def test_a_refused_publish_stores_none_of_its_messages() -> None:
    bench = Bench()
    with pytest.raises(Refusal, match="INVALID_ARGUMENT"):
        bench.publish(b"good", b"")
    assert bench.take() == []


def test_an_unused_subscription_expires() -> None:
    bench = Bench(expiration_policy={"ttl": {"seconds": 86_400}})
    bench.clock.pass_by(86_401)
    with pytest.raises(Refusal, match="NOT_FOUND"):
        bench.store.subscription(NAME)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"ack_deadline_seconds": 9}, "INVALID_ARGUMENT"),
        ({"message_retention_duration": {"seconds": 599}}, "INVALID_ARGUMENT"),
        ({"dead_letter_policy": {"dead_letter_topic": TOPIC, "max_delivery_attempts": 4}}, "INVALID_ARGUMENT"),
        ({"filter": 'attributes.a = "b"'}, "UNIMPLEMENTED"),
        ({"push_config": {"push_endpoint": "http://127.0.0.1/"}}, "UNIMPLEMENTED"),
    ],
)
def test_settings_out_of_range_or_not_offered_are_refused(settings: dict[str, Any], code: str) -> None:
    bench = Bench()
    with pytest.raises(Refusal, match=code):
        bench.subscribe("projects/p/subscriptions/other", **settings)


def test_acked_messages_free_their_memory_before_the_deadline() -> None:
    bench = Bench()
    bench.publish(*[b"x"] * 100)
    leases = bench.take(deadline=600)
    batch = leases[0].batch
    bench.ack(leases)
    assert batch.leases == []
