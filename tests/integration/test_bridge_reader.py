"""The reader on a real broker protocol: shares, commits, parts pipelines, hands partitions over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import Bridge, committed, difference, produce, until

from loader.bridge.engine.flow import Limits
from loader.local.kafka import KafkaServer


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer({"events": 4}) as server:
        yield server


def _values(count: int, start: int = 0) -> list[bytes]:
    return [b"value-%d" % number for number in range(start, start + count)]


def test_every_message_is_delivered_and_then_committed(kafka):
    values = _values(5_000)
    produce(kafka.brokers, "events", values)
    bridge = Bridge(kafka)
    until(lambda: len(bridge.sinks["one"].values) >= 5_000)
    assert sorted(bridge.sinks["one"].values) == sorted(values)
    assert bridge.stop()
    assert committed(kafka.brokers, "bridge", "events") == dict.fromkeys(range(4), 1_250)


def test_nothing_is_committed_before_it_is_confirmed(kafka):
    produce(kafka.brokers, "events", _values(400))
    bridge = Bridge(kafka)
    bridge.sinks["one"].hold = True
    until(lambda: bridge.flows[0].in_flight == 400)
    assert not bridge.stop(seconds=1.0)
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == 0


def test_a_shared_consumer_reads_each_message_once_for_all_its_pipelines(kafka):
    values = _values(2_000)
    produce(kafka.brokers, "events", values)
    bridge = Bridge(kafka, [f"p{number}" for number in range(5)])
    until(lambda: all(len(sink.values) == 2_000 for sink in bridge.sinks.values()))
    assert bridge.reader.messages == 2_000
    assert bridge.stop()


@pytest.mark.slow
def test_a_stalled_pipeline_goes_its_own_way_and_comes_back(kafka):
    bridge = Bridge(kafka, ["well", "stalled"], limits=Limits(messages=500))
    stalled = bridge.sinks["stalled"]
    stalled.hold = True
    values = _values(8_000)
    produce(kafka.brokers, "events", values)
    until(lambda: len(bridge.sinks["well"].values) == 8_000, "the neighbour is held up")
    until(lambda: sum(committed(kafka.brokers, "bridge", "events").values()) == 8_000, "its commits are held up")
    assert bridge.reader.apart == ["stalled"]
    stalled.release()
    until(lambda: len(stalled.values) >= 8_000, lambda: f"{len(stalled.values)}")
    until(lambda: not bridge.reader.apart, "it does not come back")
    more = _values(100, 8_000)
    produce(kafka.brokers, "events", more)
    until(lambda: len(stalled.values) >= 8_100)
    assert bridge.stop()
    for sink in bridge.sinks.values():
        assert sorted(sink.values) == sorted(values + more), difference(sink.values, values + more)
        for partition in range(4):
            offsets = [offset for number, offset in sink.frames if number == partition]
            assert offsets == sorted(offsets), "the order within a partition is kept"


@pytest.mark.slow
def test_a_stalled_pipeline_goes_on_from_its_mark_after_a_crash(kafka):
    bridge = Bridge(kafka, ["well", "stalled"], limits=Limits(messages=500))
    bridge.sinks["stalled"].hold = True
    values = _values(20_000)
    produce(kafka.brokers, "events", values)
    until(lambda: len(bridge.sinks["well"].values) == 20_000)
    until(lambda: sum(committed(kafka.brokers, "bridge", "events").values()) == 20_000)
    bridge.stop(seconds=0.5)
    again = Bridge(kafka, ["well", "stalled"], limits=Limits(messages=500))
    until(lambda: len(set(again.sinks["stalled"].values)) == 20_000, lambda: f"{len(again.sinks['stalled'].values)}")
    until(lambda: not again.reader.apart)
    assert again.stop()
    assert again.sinks["well"].values == [], "what the neighbour has delivered is not delivered again"
