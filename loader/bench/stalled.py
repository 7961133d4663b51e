"""How much memory a bridge takes at most: 90 partitions of 100 KB messages in front of a sink that takes nothing.

Run as a process of its own, `python -m loader.bench.stalled BROKERS SECONDS`: it prints its peak in bytes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

from loader.bench.cpu import peak_bytes, resident_bytes
from loader.bridge.engine.bucket import Share
from loader.bridge.engine.flow import CountedFormat, Flow, Limits
from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.formats.raw import Raw
from loader.bridge.frame import Frame
from loader.bridge.sources.kafka import KafkaSource
from loader.bridge.sources.kafka_options import consumer_settings

TOPIC = "large"
PARTITIONS = 90
MESSAGE_BYTES = 100_000


class Stalled:
    """Holds everything and confirms nothing."""

    name = "stalled"
    trouble = "it is stalled"
    backoff_seconds = 0.0

    def __init__(self) -> None:
        self.held: list[Any] = []

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        self.held += frames

    def flush(self) -> None:
        """Nothing goes anywhere."""

    def close(self, deadline: float) -> bool:
        return False


def main() -> int:
    """Read until the bound holds the reading, then wait and tell the peak."""
    brokers, seconds = sys.argv[1], float(sys.argv[2])
    # What it sends with is part of its memory.
    import loader.bridge.sinks.pubsub  # noqa: F401

    format = CountedFormat(Raw())
    flow = Flow("stalled", format, [], Limits())
    settings = consumer_settings(brokers, "stalled", {"session.timeout.ms": 6_000, "fetch.wait.max.ms": 10})
    reader = Reader("stalled", lambda: KafkaSource("large", TOPIC, settings, format), [flow], Pace())
    flow.start({"stalled": Stalled()})
    reader.start()
    threading.Event().wait(seconds)
    peak = peak_bytes(os.getpid()) or resident_bytes(os.getpid())
    sys.stdout.write(f"{peak} {flow.in_flight}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
