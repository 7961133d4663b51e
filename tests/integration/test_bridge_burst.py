"""A burst of ten times what may be in flight: the work in hand stays bounded, the rest waits in Kafka and drains."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import Bridge, committed, produce, until

from loader.bridge.config.load import load_configuration
from loader.bridge.engine.flow import Limits
from loader.bridge.engine.reader import READ_MESSAGES
from loader.bridge.examples import __path__ as examples
from loader.bridge.formats.avro import Avro, Reading
from loader.bridge.generate.feed import Encoder, schema
from loader.bridge.generate.vehicles import records
from loader.bridge.sinks.sink import identity_of
from loader.bridge.stages.registry import build
from loader.local.kafka import KafkaServer

LIMIT = 500
MOST_LINKS = 7
"""Of a record of the generated feed."""


class Metered:
    """Confirms as many rows as the test lets it, and knows how many it holds."""

    name = "metered"
    trouble: str | None = None
    backoff_seconds = 0.0

    def __init__(self, delivery: Any) -> None:
        self._delivery = delivery
        self._held: list[tuple[Any, int, float]] = []
        self._lock = threading.Lock()
        self.identities: list[bytes] = []
        self.held = self.most_held = self.confirmed = 0

    def send(self, frames: Sequence[Any], share: Any, size: float) -> None:
        with self._lock:
            self.identities += [identity_of(frame, b"") for frame in frames]
            self._held.append((share, len(frames), size))
            self.held += len(frames)
            self.most_held = max(self.most_held, self.held)

    def drained(self, rows: int) -> bool:
        """Confirm what it was given, one after the other; whether these were so many, since the start."""
        while True:
            with self._lock:
                if not self._held:
                    return self.confirmed == rows
                share, count, size = self._held.pop(0)
                self.held -= count
                self.confirmed += count
            self._delivery.confirm(share, count, size)

    def flush(self) -> None:
        pass

    def close(self, deadline: float) -> bool:
        return True


def test_a_burst_of_ten_times_leaves_the_work_in_hand_bounded_and_the_lag_draining():
    form = Avro(None)  # type: ignore[arg-type]
    form.schemas.known[1] = Reading(schema())
    encode = Encoder(schema(), 1)
    feed = list(islice(records(1, 100, 1_000, 1_796_054_400_000), LIMIT * 11))
    values = [encode(each) for each in feed]
    rows = [len(each["path"]) for each in feed]
    stage = load_configuration(Path(examples[0]) / "gps.hcl", {}).pipelines["gps"].stages[0]
    most = (LIMIT + READ_MESSAGES) * MOST_LINKS
    assert sum(rows) > 2 * most, "the burst is too small to tell"
    with KafkaServer({"events": 4}) as kafka:
        bridge = Bridge(
            kafka,
            format=form,
            stages=[build(stage, None)],  # type: ignore[arg-type]
            limits=Limits(messages=LIMIT),
            make_sink=lambda flow: Metered(flow.delivery("metered")),
        )
        try:
            [flow], sink = bridge.flows, bridge.sinks["one"]
            # As much as may be in flight passes.
            produce(kafka.brokers, "events", values[:LIMIT])
            until(lambda: sink.drained(sum(rows[:LIMIT])))
            # Ten times of it, and nothing is confirmed: the rest stays in Kafka.
            produce(kafka.brokers, "events", values[LIMIT:])
            until(lambda: not flow.room and sink.held == flow.in_flight)
            assert bridge.reader.messages <= LIMIT + LIMIT + READ_MESSAGES
            assert flow.in_flight <= most
            assert flow.in_flight_bytes <= most * 2_000
            # It drains as fast as the sink takes it, never with more in hand.
            until(lambda: sink.drained(sum(rows)), lambda: f"{sink.confirmed} of {sum(rows)}")
            assert sink.most_held <= most
            assert len(set(sink.identities)) == len(sink.identities) == sum(rows)
            until(lambda: sum(committed(kafka.brokers, "bridge", "events").values()) == len(values))
            until(lambda: bridge.reader.lag("one") == 0)
            assert flow.in_flight == 0
        finally:
            assert bridge.stop()
