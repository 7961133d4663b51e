"""Kafka beside the demo's publisher: page views take the way through a router pipeline, vehicles report their links.

Broker, schema registry and bridge run in processes of their own, as in production; without the extra `bridge` the demo
goes without them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loader.demo.events import Sample
from loader.demo.parts import Parts
from loader.errors import LoaderError
from loader.local.bridge import BridgeProcess, kafka_process, missing_for_kafka, registry_process
from loader.pull.channel import EMULATOR_VARIABLE

FILE = Path(__file__).with_name("demo.hcl")
PAGE_VIEWS = "page-views"
_SHARE = 0.05
"""GPS records for each message of the demo; each has about five links."""
_VEHICLES = 200
_FLUSH_SECONDS = 30.0


def available() -> bool:
    """Whether the extra `bridge` is installed."""
    return missing_for_kafka() is None


class Feeds:
    """Sends to Kafka what is to go by Kafka. `route` is for one thread; the vehicles have their own."""

    def __init__(self, brokers: str, registry: str, bridge: BridgeProcess, rate: float) -> None:
        from confluent_kafka import Producer

        from loader.bridge.generate.feed import Encoder, Sent, messages, produce, register, schema
        from loader.bridge.generate.vehicles import records

        self._bridge = bridge
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5, "log_level": 2})
        self._faults: list[str] = []
        self._sent = Sent()
        self._stop = threading.Event()
        written = schema()
        encode = Encoder(written, register(registry, "gps-value", written))
        rate = max(1.0, rate * _SHARE)
        made = messages(records(1, _VEHICLES, rate, int(time.time() * 1_000)), encode)

        def drive() -> None:
            try:
                produce(brokers, "gps", _until(self._stop, made), rate, self._sent, self._stop.wait)
            except LoaderError as error:
                self._faults.append(str(error))

        self._thread = threading.Thread(target=drive, name="vehicles", daemon=True)

    @property
    def links(self) -> int:
        """Road links sent so far: each is to be a row."""
        return self._sent.rows

    def start(self) -> None:
        """The vehicles begin to drive."""
        self._thread.start()

    def check(self) -> None:
        """Raises LoaderError if Kafka or the bridge failed."""
        _ = self._bridge.pid
        if self._faults:
            raise LoaderError(self._faults[0])

    def route(self, samples: Sequence[Sample]) -> None:
        """Send samples to the router. Raises LoaderError when Kafka does not take them."""
        for sample in samples:
            self._producer.produce(PAGE_VIEWS, sample.body, on_delivery=self._delivered)
        if self._producer.flush(_FLUSH_SECONDS):
            raise LoaderError(f"the demo's Kafka did not take page views within {_FLUSH_SECONDS:g} s")
        self.check()

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._faults.append(f"the demo's Kafka refused a page view: {error}")

    def stop(self) -> None:
        """The vehicles park; what they sent is in Kafka then."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_FLUSH_SECONDS)


def _until(stop: threading.Event, messages: Iterator[tuple[bytes, bytes, int]]) -> Iterator[tuple[bytes, bytes, int]]:
    for message in messages:
        if stop.is_set():
            return
        yield message


@contextmanager
def feeds(parts: Parts, rate: float) -> Iterator[Feeds | None]:
    """Kafka and a bridge to the demo's topic, ready to be used; None without the extra `bridge`."""
    if not available():
        yield None
        return
    with ExitStack() as stack:
        brokers = stack.enter_context(kafka_process({PAGE_VIEWS: 2, "gps": 4}))
        registry = stack.enter_context(registry_process())
        environ = {
            EMULATOR_VARIABLE: parts.endpoint,
            "DEMO_BROKERS": brokers,
            "DEMO_REGISTRY": registry,
            "DEMO_TOPIC": parts.topic,
            "BRIDGE_REGION": "demo",
            "BRIDGE_ENVIRONMENT": "demo",
        }
        bridge = stack.enter_context(BridgeProcess(FILE, environ))
        found = Feeds(brokers, registry, bridge, rate)
        stack.callback(found.stop)
        bridge.await_ready()
        yield found
