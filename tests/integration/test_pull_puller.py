"""The puller against the in-memory server, with its faults."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loader.bundle.bundler import Bundler
from loader.bundle.window import Window
from loader.errors import LoaderError
from loader.local.pubsub_server import PubsubServer
from loader.message.message import Message
from loader.pull import lease
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel
from loader.pull.puller import Puller

PATIENCE = 20.0
"""Seconds after which what is awaited counts as never coming."""


class ModelClock:
    """Time that runs only when told to, for the server (microseconds) and the leases (seconds)."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def micros(self) -> int:
        return int(self.seconds * 1_000_000)


@pytest.fixture
def start() -> Iterator[Callable[..., Puller]]:
    every: list[Puller] = []

    def make(pubsub: Any, subscription: str | None = None, **settings: Any) -> Puller:
        settings.setdefault("tick_seconds", 0.05)
        puller = Puller(pubsub.endpoint, subscription or pubsub.subscription, **settings)
        puller.start()
        every.append(puller)
        return puller

    yield make
    for puller in every:
        puller.close(2)


@pytest.fixture
def model() -> Iterator[tuple[ModelClock, Any]]:
    clock = ModelClock()
    with PubsubServer(clock=clock.micros) as server:
        yield clock, Project(server)


class Project:
    """One topic and one subscription on a server of the test's own."""

    def __init__(self, server: PubsubServer) -> None:
        self.server = server
        self.endpoint = server.endpoint
        self.topic = "projects/model/topics/events"
        self.subscription = "projects/model/subscriptions/events"

    def create(self, stub: Stub, **settings: Any) -> None:
        stub.create_topic(pb.Topic(name=self.topic))
        stub.create_subscription(pb.Subscription(name=self.subscription, topic=self.topic, **settings))

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.server.faults.stats()["subscriptions"][self.subscription]
        return counts


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.01)


def take(puller: Puller, count: int) -> list[Message]:
    taken: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(taken) < count:
        assert time.monotonic() < deadline, f"{len(taken)} of {count} messages came"
        taken += puller.take(0.1)
    return taken


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_everything_published_is_taken_once_and_gone_when_acked(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(5_000), {"kind": "test"})
    puller = start(pubsub, streams=3)
    taken = take(puller, 5_000)
    assert sorted(int(message.data) for message in taken) == list(range(5_000))
    assert taken[0].attributes == {"kind": "test"}
    assert puller.state.held == 5_000
    puller.ack(taken)
    assert puller.flush(PATIENCE)
    assert pubsub.counts()["acked"] == 5_000
    state = puller.state
    assert (state.held, state.held_bytes, state.acked, state.unread, state.healthy) == (0, 0, 5_000, 0, True)


def test_nothing_is_acked_that_was_not_told(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(100))
    puller = start(pubsub)
    taken = take(puller, 100)
    puller.ack(taken[:10])
    puller.close(PATIENCE)
    counts = pubsub.counts()
    assert (counts["acked"], counts["backlog"], counts["leased"]) == (10, 90, 0)


def test_cut_streams_are_opened_again_and_lose_nothing(pubsub: Any, start: Callable[..., Puller]) -> None:
    puller = start(pubsub, streams=2)
    seen: set[int] = set()
    for round_number in range(4):
        pubsub.publish(bodies(500, round_number * 500))
        # Cut with messages on the way, held and unread.
        pubsub.faults.cut_streams(["UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED", "UNKNOWN"][round_number])
        deadline = time.monotonic() + PATIENCE
        while len(seen) < (round_number + 1) * 500:
            assert time.monotonic() < deadline
            taken = puller.take(0.1)
            seen.update(int(message.data) for message in taken)
            puller.ack(taken)
    assert puller.flush(PATIENCE)
    assert seen == set(range(2_000))
    assert puller.state.reconnects >= 2
    until(lambda: pubsub.counts()["acked"] >= 2_000, "every ack")


def test_a_service_that_refuses_for_a_while_is_asked_until_it_answers(
    pubsub: Any, start: Callable[..., Puller], caplog: pytest.LogCaptureFixture
) -> None:
    pubsub.publish(bodies(10))
    pubsub.faults.refuse("StreamingPull", 4)
    with caplog.at_level(logging.INFO):
        puller = start(pubsub)
        take(puller, 10)
    assert puller.state.healthy
    assert "to open it again follows" in caplog.text
    assert "works again" in caplog.text


def test_flow_control_is_never_exceeded_and_reopens_when_acked(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(1_000))
    puller = start(pubsub, streams=2, max_outstanding_messages=100)
    held: list[Message] = take(puller, 100)
    assert puller.take(0.3) == []
    assert pubsub.counts()["leased"] == 100
    # A new connection starts with an empty count on the server: it must not double what is held.
    pubsub.faults.cut_streams()
    until(lambda: puller.state.reconnects >= 2, "the reconnection")
    assert puller.take(0.3) == []
    assert pubsub.counts()["leased"] == 100
    seen = len(held)
    while seen < 1_000:
        puller.ack(held)
        held = take(puller, 1)
        assert puller.state.held <= 100
        seen += len(held)


def test_it_is_known_when_flow_control_lets_nothing_more_come(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(100))
    puller = start(pubsub, max_outstanding_messages=100)
    until(lambda: puller.state.unread == 100, "all messages")
    assert not puller.exhausted  # they wait to be taken
    held = take(puller, 100)
    assert puller.exhausted
    puller.ack(held[:60])
    assert not puller.exhausted


def test_a_share_made_small_by_a_reconnection_grows_back(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(1_000))
    puller = start(pubsub, max_outstanding_messages=100)
    held = take(puller, 100)
    puller.ack(held[:30])
    held = held[30:] + take(puller, 30)
    pubsub.faults.cut_streams()
    until(lambda: puller.state.reconnects >= 1, "the reconnection")
    puller.ack(held[:20])
    take(puller, 20)  # the new stream has what is left of the share
    puller.ack(held[20:])
    until(lambda: puller.state.held == 100, "the full share")
    assert pubsub.counts()["leased"] == 100


def test_a_silent_stream_is_opened_again(pubsub: Any, start: Callable[..., Puller]) -> None:
    puller = start(pubsub, silence_seconds=0.2)
    pubsub.faults.silence()
    pubsub.publish(bodies(10))
    until(lambda: puller.state.reconnects >= 2, "the second reopening")
    assert puller.take(0.01) == []
    pubsub.faults.silence(False)
    take(puller, 10)
    assert puller.state.alert is None


def test_a_stream_that_waits_for_acks_is_not_taken_for_silent(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(50))
    puller = start(pubsub, silence_seconds=0.1, max_outstanding_messages=10)
    take(puller, 10)
    assert puller.take(0.5) == []
    assert puller.state.reconnects == 0


def test_leases_are_extended_as_long_as_messages_are_held(model: Any, start: Callable[..., Puller]) -> None:
    clock, project = model
    with open_channel(project.endpoint) as channel:
        stub = Stub(channel)
        project.create(stub, ack_deadline_seconds=10)
        stub.publish(pb.PublishRequest(topic=project.topic, messages=[pb.PubsubMessage(data=b"1")] * 10))
        puller = start(project, clock=clock, tick_seconds=0.01)
        taken = take(puller, 10)
        for number in range(1, 4):
            clock.seconds += lease.SECONDS - 15
            until(lambda number=number: puller.state.renewals >= 10 * number, "the renewal")
            pull = pb.PullRequest(subscription=project.subscription, max_messages=100, return_immediately=True)
            assert not stub.pull(pull).received_messages
        assert puller.state.expired == 0
        puller.ack(taken)
        assert puller.flush(PATIENCE)
        assert project.counts()["acked"] == 10


def test_leases_are_as_long_as_they_are_asked_to_be(model: Any, start: Callable[..., Puller]) -> None:
    clock, project = model
    with open_channel(project.endpoint) as channel:
        stub = Stub(channel)
        project.create(stub, ack_deadline_seconds=10)
        stub.publish(pb.PublishRequest(topic=project.topic, messages=[pb.PubsubMessage(data=b"1")]))
        puller = start(project, clock=clock, tick_seconds=0.01, lease_seconds=300)
        take(puller, 1)
        clock.seconds += 190  # long past the default of 60 s, not yet time to renew one of 300 s
        pull = pb.PullRequest(subscription=project.subscription, max_messages=100, return_immediately=True)
        assert not stub.pull(pull).received_messages
        assert (puller.state.renewals, puller.state.expired) == (0, 0)


def test_a_main_loop_that_hangs_loses_its_messages_to_others(
    model: Any, start: Callable[..., Puller], caplog: pytest.LogCaptureFixture
) -> None:
    clock, project = model
    with open_channel(project.endpoint) as channel:
        stub = Stub(channel)
        project.create(stub)
        stub.publish(pb.PublishRequest(topic=project.topic, messages=[pb.PubsubMessage(data=b"1")] * 10))
        with caplog.at_level(logging.ERROR):
            puller = start(project, clock=clock, tick_seconds=0.01, hold_seconds=0.2)
            take(puller, 10)
            puller.pause()  # or it would be offered its own messages
            until(lambda: "has not moved" in caplog.text, "the complaint")
        clock.seconds += lease.SECONDS + 1
        pull = pb.PullRequest(subscription=project.subscription, max_messages=100, return_immediately=True)
        assert len(stub.pull(pull).received_messages) == 10


def test_an_ack_after_the_lease_ran_out_is_only_a_warning_with_exactly_once(
    model: Any, start: Callable[..., Puller], caplog: pytest.LogCaptureFixture
) -> None:
    clock, project = model
    with open_channel(project.endpoint) as channel:
        stub = Stub(channel)
        project.create(stub, enable_exactly_once_delivery=True)
        stub.publish(pb.PublishRequest(topic=project.topic, messages=[pb.PubsubMessage(data=b"1")] * 4))
        puller = start(project, clock=clock, tick_seconds=0.01)
        late = take(puller, 4)
        assert puller.state.exactly_once
        project.server.faults.refuse("ModifyAckDeadline", 1_000)
        clock.seconds += lease.SECONDS + 1
        # Only a delivery makes the server look at the clock.
        stub.publish(pb.PublishRequest(topic=project.topic, messages=[pb.PubsubMessage(data=b"2")]))
        again = take(puller, 5)
        until(lambda: puller.state.expired == 4, "the count of expired leases")
        project.server.faults.clear()
        with caplog.at_level(logging.WARNING):
            puller.ack([*late, *again])
            assert puller.flush(PATIENCE)
        assert project.counts()["acked"] == 5
        assert (puller.state.acked, puller.state.ack_failures) == (5, 4)
        assert "4 acks failed" in caplog.text


def test_acks_are_confirmed_through_an_outage_with_exactly_once(pubsub: Any, start: Callable[..., Puller]) -> None:
    subscription = pubsub.subscribe("exactly-once", enable_exactly_once_delivery=True)
    pubsub.publish(bodies(3_000))
    puller = start(pubsub, subscription)
    taken = take(puller, 3_000)
    pubsub.faults.refuse("Acknowledge", 3)
    puller.ack(taken)
    assert puller.flush(PATIENCE)
    assert (puller.state.acked, puller.state.ack_failures) == (3_000, 0)
    assert pubsub.counts(subscription)["acked"] == 3_000


def test_pause_and_close_give_everything_unread_to_another_puller_at_once(
    pubsub: Any, start: Callable[..., Puller], caplog: pytest.LogCaptureFixture
) -> None:
    pubsub.publish(bodies(2_000))
    first = start(pubsub)
    taken = first.take(PATIENCE)
    until(lambda: first.state.received == 2_000, "the whole backlog")
    with caplog.at_level(logging.DEBUG, "loader"):
        first.pause()
        pubsub.publish(bodies(10, 2_000))
        unread = first.nack_unread()
        assert unread == 2_000 - len(taken)
        first.ack(taken)
        assert first.close(PATIENCE)
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]
    assert pubsub.counts()["leased"] == 0
    second = start(pubsub)
    rest = take(second, unread + 10)
    assert {int(message.data) for message in [*taken, *rest]} == set(range(2_010))


def test_what_is_on_the_way_when_pulling_ends_is_still_received(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish([b"x" * 500] * 20_000)
    for _ in range(5):
        puller = start(pubsub)
        assert puller.take(PATIENCE)  # in the middle of the flood
        puller.pause(PATIENCE)
        # What the server has leased and nobody received would be stuck until its lease runs out.
        assert pubsub.counts()["leased"] == puller.state.held
        assert puller.close(PATIENCE)
        assert pubsub.counts()["leased"] == 0


@pytest.mark.parametrize(("code", "cure"), [("PERMISSION_DENIED", "roles/pubsub.subscriber"), ("NOT_FOUND", "create")])
def test_a_subscription_refused_at_the_start_ends_the_command(
    pubsub: Any, start: Callable[..., Puller], code: str, cure: str
) -> None:
    pubsub.faults.refuse("StreamingPull", 1, code)
    puller = start(pubsub)
    with pytest.raises(LoaderError, match=cure) as raised:
        take(puller, 1)
    assert pubsub.subscription in str(raised.value)
    assert not puller.state.healthy


def test_a_subscription_that_is_not_there_ends_the_command(pubsub: Any, start: Callable[..., Puller]) -> None:
    puller = start(pubsub, pubsub.subscription + "-missing")
    with pytest.raises(LoaderError, match="does not exist"):
        take(puller, 1)


def test_a_permission_lost_later_is_an_alert_once_and_is_waited_for(
    pubsub: Any, start: Callable[..., Puller], caplog: pytest.LogCaptureFixture
) -> None:
    pubsub.publish(bodies(1))
    puller = start(pubsub)
    puller.ack(take(puller, 1))
    pubsub.faults.refuse("StreamingPull", 3, "PERMISSION_DENIED")
    with caplog.at_level(logging.INFO):
        pubsub.faults.cut_streams()
        until(lambda: puller.state.alert is not None, "the alert")
        assert not puller.state.healthy
        assert "roles/pubsub.subscriber" in str(puller.state.alert)
        pubsub.publish(bodies(5, 1))
        take(puller, 5)
    assert (puller.state.healthy, puller.state.alert) == (True, None)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_a_server_that_is_killed_and_started_again_is_found_again(
    pubsub_process: Any, start: Callable[..., Puller]
) -> None:
    def create() -> None:
        with open_channel(pubsub_process.endpoint) as channel:
            stub = Stub(channel)
            stub.create_topic(pb.Topic(name="projects/kill/topics/events"))
            stub.create_subscription(
                pb.Subscription(name="projects/kill/subscriptions/events", topic="projects/kill/topics/events")
            )
            stub.publish(pb.PublishRequest(topic="projects/kill/topics/events", messages=[pb.PubsubMessage(data=b"1")]))

    create()
    puller = start(pubsub_process, "projects/kill/subscriptions/events")
    puller.ack(take(puller, 1))
    pubsub_process.kill()
    pubsub_process.start()
    create()
    puller.ack(take(puller, 1))
    assert puller.flush(PATIENCE)


def test_bundles_of_a_puller_hold_everything_once(pubsub: Any, start: Callable[..., Puller]) -> None:
    pubsub.publish(bodies(2_500))
    puller = start(pubsub, streams=2)
    bundler = Bundler(puller, Window(0.3, 1_000, 1 << 20))

    class Never:
        def is_set(self) -> bool:
            return False

    seen: list[int] = []
    sizes: list[int] = []
    deadline = time.monotonic() + PATIENCE
    while len(seen) < 2_500:
        assert time.monotonic() < deadline
        bundle = bundler.next(Never())
        if bundle is not None:
            sizes.append(len(bundle.messages))
            seen += [int(message.data) for message in bundle.messages]
            puller.ack(bundle.messages)
    assert sorted(seen) == list(range(2_500))
    assert max(sizes) == 1_000
    assert puller.flush(PATIENCE)
    assert pubsub.counts()["acked"] == 2_500
