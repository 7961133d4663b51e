"""Parts for tests of the bridge's engine: a broker, pipelines built by hand, and waiting for what is to happen."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from loader.bridge.engine.flow import CountedFormat, Flow, Limits
from loader.bridge.engine.marks import Marks
from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.engine.timer import Timer
from loader.bridge.sinks.pubsub import PubsubSink
from loader.bridge.sources.kafka import KafkaSource
from loader.bridge.sources.kafka_options import consumer_settings
from loader.local.kafka import KafkaServer
from loader.pull.channel import open_channel

QUICK = {
    "session.timeout.ms": 1500,
    "heartbeat.interval.ms": 300,
    "max.poll.interval.ms": 6000,
    "fetch.wait.max.ms": 10,
}
PATIENCE = 30.0


def until(reached: Callable[[], Any], what: str | Callable[[], str] = "", seconds: float = PATIENCE) -> None:
    """Wait for something that happens in other threads or processes."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not reached in {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(0.01)


class Raw:
    """A format that reads nothing."""

    name = "raw"

    def decode(self, value: bytes) -> Any:
        return value

    def encode(self, fields: Any) -> bytes:
        return bytes(fields)


class Json:
    """JSON, as plain as can be."""

    name = "json"

    def decode(self, value: bytes) -> Any:
        import orjson

        return orjson.loads(value)

    def encode(self, fields: Any) -> bytes:
        import orjson

        return orjson.dumps(fields)


class ListSink:
    """Keeps what it is given; confirms at once unless it is held."""

    backoff_seconds = 0.0

    def __init__(self, delivery: Any) -> None:
        self.name = "list"
        self.values: list[bytes] = []
        self.frames: list[tuple[int, int]] = []
        self.trouble: str | None = None
        self._delivery = delivery
        self._held: list[tuple[Any, int, float]] = []
        self._lock = threading.Lock()
        self.hold = False

    def send(self, frames: Sequence[Any], share: Any, size: float) -> None:
        with self._lock:
            self._held.append((share, len(frames), size))
            if not self.hold:
                self.values += [frame.value() for frame in frames]
                self.frames += [(frame.partition, frame.offset) for frame in frames]
                self._release()
            else:
                self.pending = [*getattr(self, "pending", []), *frames]

    def _release(self) -> None:
        for share, count, size in self._held:
            self._delivery.confirm(share, count, size)
        self._held = []

    def release(self) -> None:
        with self._lock:
            self.hold = False
            for frame in getattr(self, "pending", []):
                self.values.append(frame.value())
                self.frames.append((frame.partition, frame.offset))
            self.pending = []
            self._release()

    def flush(self) -> None:
        pass

    def close(self, deadline: float) -> bool:
        return True


def produce(brokers: str, topic: str, values: Sequence[bytes | None], partitions: int = 4, **extra: Any) -> None:
    """Values, round robin over the partitions."""
    producer = Producer({"bootstrap.servers": brokers, "compression.type": "lz4", "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions, **extra)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0


def committed(brokers: str, group: str, topic: str, partitions: int = 4) -> dict[int, int]:
    """The group's positions; 0 where there is none."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=10)
        return {each.partition: max(0, each.offset) for each in found}
    finally:
        consumer.close()


class Bridge:
    """One reader with pipelines, as the engine builds them, with lists for sinks."""

    def __init__(
        self,
        server: KafkaServer,
        names: Sequence[str] = ("one",),
        *,
        topic: str = "events",
        group: str = "bridge",
        pace: Pace | None = None,
        limits: Limits | None = None,
        stages: Sequence[Any] = (),
        format: Any = None,
        make_sink: Callable[[Flow], Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.timer = Timer()
        self.format = CountedFormat(format or Raw())
        self.flows = [Flow(name, self.format, stages, limits or Limits()) for name in names]
        settings = consumer_settings(server.brokers, group, {**QUICK, **(properties or {})})
        apart = {**settings, "group.id": f"{group}.apart"}
        self.reader = Reader(
            group,
            lambda: KafkaSource("kafka", topic, settings, self.format),
            self.flows,
            pace or Pace(commit=0.2, part=0.2, rejoin=0.5),
            lambda: Marks(apart, group),
            lambda: KafkaSource("kafka", topic, apart, self.format, member=False),
        )
        self.sinks: dict[str, Any] = {}
        for flow in self.flows:
            sink = make_sink(flow) if make_sink is not None else ListSink(flow.delivery("list"))
            self.sinks[flow.name] = sink
            flow.start({"list": sink}, flow._dead)
        self.reader.start()

    def stop(self, seconds: float = 10.0) -> bool:
        deadline = time.monotonic() + seconds
        self.reader.stop(deadline)
        done = self.reader.join(deadline + 5)
        for flow in self.flows:
            done = flow.close(deadline) and done
        self.timer.close()
        return done

    def pubsub_sink(self, endpoint: str, topic: str, flow: Flow) -> PubsubSink:
        return PubsubSink("out", topic, lambda: open_channel(endpoint), flow.delivery("out"), self.timer)


def difference(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """What a comparison of collections says."""
    lacking, added = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    return f"{lacking.total()} missing such as {list(lacking)[:3]}, {added.total()} too many such as {list(added)[:3]}"
