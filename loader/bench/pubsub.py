"""The Pub/Sub servers that a benchmark runs on, and backlogs on them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from loader.local.emulator import EmulatorProcess, find_emulator
from loader.local.pubsub_process import PubsubProcess
from loader.publish import Publisher
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

KINDS = ("memory", "official")


@contextmanager
def pubsub(kind: str) -> Iterator[tuple[str, str]]:
    """A server of this kind: its endpoint and its version. Raises LoaderError when the emulator is not installed."""
    if kind == "memory":
        with PubsubProcess() as server:
            yield server.endpoint, "in-memory"
        return
    emulator = find_emulator()
    with EmulatorProcess(emulator) as official:
        yield official.endpoint, f"official emulator {emulator.version}"


def backlog(endpoint: str, bodies: Iterable[bytes]) -> str:
    """A new topic and subscription that holds these messages; the subscription's full name."""
    topic, subscription = fresh_subscription(endpoint)
    channel = open_channel(endpoint)
    try:
        publisher = Publisher(Stub(channel), topic)
        publisher.publish(bodies)
        publisher.flush()
    finally:
        channel.close()
    return subscription


def fresh_subscription(endpoint: str) -> tuple[str, str]:
    """Full names of a new topic and its subscription."""
    project = f"projects/bench-{uuid.uuid4().hex[:8]}"
    topic, subscription = f"{project}/topics/events", f"{project}/subscriptions/events-loader"
    channel = open_channel(endpoint)
    try:
        stub = Stub(channel)
        stub.create_topic(pb.Topic(name=topic))
        stub.create_subscription(pb.Subscription(name=subscription, topic=topic, ack_deadline_seconds=60))
    finally:
        channel.close()
    return topic, subscription
