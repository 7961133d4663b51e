"""What the bridge costs a message: Kafka in, stages, Pub/Sub out; broker and server in processes of their own."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from loader.bench.cpu import own_seconds
from loader.bridge.engine.bucket import Share
from loader.bridge.engine.flow import CountedFormat, Flow, Limits
from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.engine.timer import Timer
from loader.bridge.formats.raw import Raw
from loader.bridge.frame import Format, Frame
from loader.bridge.sinks.pubsub import PubsubSink
from loader.bridge.sinks.sink import Delivery, Sink
from loader.bridge.sources.kafka import KafkaSource
from loader.bridge.sources.kafka_options import consumer_settings
from loader.bridge.stages.filter import Filter
from loader.bridge.stages.stage import Outcome, Stage
from loader.errors import LoaderError
from loader.local.kafka import process_command
from loader.local.pubsub_process import PubsubProcess
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

TOPIC = "bench"
PARTITIONS = 16
PROJECT = "projects/bench"
_SETTINGS = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500, "fetch.wait.max.ms": 10}
_PATIENCE = 120.0


@contextmanager
def kafka_process(topics: dict[str, int]) -> Iterator[str]:
    """A broker in a process of its own; gives its address."""
    command, environment = process_command(topics)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise LoaderError("the Kafka broker did not start")
        yield line.rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def fill(brokers: str, topic: str, values: Iterator[bytes], partitions: int) -> int:
    """Produce values, round robin. Compressed, because the broker keeps 5 MiB a partition."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "message.max.bytes": 10_000_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    count = 0
    for value in values:
        while True:
            try:
                producer.produce(topic, value, partition=count % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 10_000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise LoaderError("the broker did not take all messages")
    return count


def flat_values(count: int, size: int = 200) -> Iterator[bytes]:
    """JSON of eight fields and about `size` bytes; `status` is below 76 in 76 of 100."""
    for number in range(count):
        body = {
            "id": number,
            "status": number % 100,
            "user": f"u-{number % 9973:06d}",
            "path": "/products/list",
            "country": "DE",
            "took_ms": number % 500 / 4,
            "mobile": number % 3 == 0,
        }
        text = json.dumps(body, separators=(",", ":"))
        yield (text[:-1] + ',"note":"' + "x" * max(0, size - len(text) - 10) + '"}').encode()


class StandardJson:
    """JSON by the standard library."""

    name = "json"

    def decode(self, value: bytes) -> Any:
        return json.loads(value)

    def decode_exactly(self, value: bytes, fields: Any) -> Any:
        return fields

    def encode(self, fields: Any) -> bytes:
        return json.dumps(fields, separators=(",", ":")).encode()


class PlainJson(StandardJson):
    """JSON by orjson, without the care for long numbers that a change takes."""

    def __init__(self) -> None:
        import orjson

        self.decode = orjson.loads  # type: ignore[method-assign, assignment]
        self.encode = orjson.dumps  # type: ignore[method-assign, assignment]


class Rewrite:
    """What a router without lazy frames does: decode and encode every message."""

    def apply(self, frames: list[Frame]) -> Outcome:
        for frame in frames:
            frame.replace(frame.fields)
        return Outcome(frames)


class ConvenienceSink:
    """The publisher client of Google's library, as its documentation shows it: a future a message."""

    name = "convenience"
    trouble: str | None = None
    backoff_seconds = 0.0

    def __init__(self, endpoint: str, topic: str, delivery: Delivery) -> None:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.pubsub_v1.publisher import Client
        from google.cloud.pubsub_v1.types import BatchSettings
        from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

        transport = PublisherGrpcTransport(channel=open_channel(endpoint), credentials=AnonymousCredentials())
        settings = BatchSettings(max_messages=1_000, max_bytes=9_000_000, max_latency=0.05)
        self._client = Client(batch_settings=settings, transport=transport)
        self._topic = topic
        self._delivery = delivery

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        each = size / len(frames)
        for frame in frames:
            identity = f"{frame.source.prefix.decode()}{frame.offset}"
            future = self._client.publish(
                self._topic, frame.value() or b"", event_id=identity, kafka_timestamp=str(frame.timestamp)
            )
            future.add_done_callback(lambda _: self._delivery.confirm(share, 1, each))

    def flush(self) -> None:
        pass

    def close(self, deadline: float) -> bool:
        self._client.stop()
        return True


@dataclass(frozen=True, slots=True)
class Result:
    """CPU of this process (both clients included) for messages read."""

    name: str
    messages: int
    sent: int
    cpu: float
    wall: float
    reads: int
    decodes: int

    @property
    def rate(self) -> float:
        """Messages read a second of CPU: what one core does."""
        return self.messages / self.cpu


def run_once(
    name: str,
    brokers: str,
    endpoint: str,
    count: int,
    *,
    format: Callable[[], Format] = Raw,
    stages: Callable[[], Sequence[Stage]] = list,
    sink: Callable[[str, str, Delivery], Sink] | None = None,
    pipelines: int = 1,
    shared: bool = True,
) -> Result:
    """Route all messages of the topic once."""
    timer = Timer()
    formats = CountedFormat(format())
    flows = [Flow(f"p{number}", formats, stages(), Limits()) for number in range(pipelines)]
    groups = [flows] if shared else [[flow] for flow in flows]
    readers = []
    for number, group in enumerate(groups):
        settings = consumer_settings(brokers, f"{name}-{number}-{time.monotonic_ns()}", _SETTINGS)
        readers.append(
            Reader(
                f"{name}-{number}",
                lambda settings=settings: KafkaSource("bench", TOPIC, settings, formats),  # type: ignore[misc]
                group,
                Pace(commit=1.0),
            )
        )
    for flow in flows:
        topic = f"{PROJECT}/topics/{TOPIC}"
        made: Sink
        if sink is not None:
            made = sink(endpoint, topic, flow.delivery("out"))
        else:
            made = PubsubSink("out", topic, lambda: open_channel(endpoint), flow.delivery("out"), timer)
        flow.start({"out": made})
    started = threading.Event()
    cpu, wall = own_seconds(), time.perf_counter()
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + _PATIENCE
    while any(flow.counts.taken < count or flow.in_flight for flow in flows):
        if time.monotonic() > deadline:
            raise LoaderError(f"{name}: {[flow.counts for flow in flows]} of {count} within {_PATIENCE:g} s")
        started.wait(0.05)
    cpu, wall = own_seconds() - cpu, time.perf_counter() - wall
    end = time.monotonic() + 10
    for reader in readers:
        reader.stop(end)
    for reader in readers:
        reader.join(end)
    for flow in flows:
        flow.close(end)
    timer.close()
    counts = [flow.counts for flow in flows]
    return Result(
        name,
        count,
        sum(each.sent for each in counts),
        cpu,
        wall,
        sum(reader.messages for reader in readers),
        sum(each.decodes for each in counts),
    )


def filter_stage() -> Sequence[Stage]:
    """Three quarters pass."""
    return [Filter({"when": "payload.status < 76"}, _NoContext())]


class _NoContext:
    pipeline = "bench"
    sinks: Sequence[str] = ("out",)

    def lookup(self, name: str) -> Mapping[str, Any]:
        return {}

    def wait(self, seconds: float) -> None:
        pass


def rewrite_stages() -> Sequence[Stage]:
    """The filter, and everything written again."""
    return [*filter_stage(), Rewrite()]  # type: ignore[list-item]


@contextmanager
def setting(count: int) -> Iterator[tuple[str, str]]:
    """Broker with the messages, and Pub/Sub with the topic; gives both addresses."""
    with kafka_process({TOPIC: PARTITIONS}) as brokers, PubsubProcess() as server:
        channel = open_channel(server.endpoint)
        with channel:
            Stub(channel).create_topic(pb.Topic(name=f"{PROJECT}/topics/{TOPIC}"))
        fill(brokers, TOPIC, flat_values(count), PARTITIONS)
        yield brokers, server.endpoint


def ceiling(brokers: str, endpoint: str, count: int) -> Result:
    """The least that Kafka to Pub/Sub can cost in this language: no identities, no bounds, no commits, no pipelines."""
    from confluent_kafka import Consumer

    from loader.bridge.sinks import wire

    settings = consumer_settings(brokers, f"ceiling-{time.monotonic_ns()}", _SETTINGS)
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    channel = open_channel(endpoint)
    publish: Any = channel.unary_unary("/google.pubsub.v1.Publisher/Publish")
    topic = wire.topic_field(f"{PROJECT}/topics/{TOPIC}")
    flying: list[Any] = []
    cpu, wall = own_seconds(), time.perf_counter()
    left = count
    while left:
        messages = consumer.consume(1_000, 0.05)
        if not messages:
            continue
        left -= len(messages)
        parts = []
        for message in messages:
            data = message.value() or b""
            size = wire.VARINTS[len(data)]
            parts.append(b"\x12%b\x0a%b%b" % (wire.VARINTS[1 + len(size) + len(data)], size, data))
        if len(flying) >= 8:
            flying.pop(0).result()
        flying.append(publish.future(topic + b"".join(parts)))
    for each in flying:
        each.result()
    cpu, wall = own_seconds() - cpu, time.perf_counter() - wall
    consumer.close()
    channel.close()
    return Result("ceiling", count, count, cpu, wall, count, 0)
