"""Rebalances on a real broker protocol: who keeps a partition reads on, and who lost one commits nothing of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import Bridge, committed, produce, until

from loader.bridge.engine.reader import Pace
from loader.bridge.sources.kafka import KafkaSource
from loader.local.kafka import KafkaServer


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer({"events": 4}) as server:
        yield server


def _values(count: int, start: int = 0) -> list[bytes]:
    return [b"value-%d" % number for number in range(start, start + count)]


def test_partitions_that_stay_are_read_and_committed_while_others_move(kafka):
    stop, revoked, over = threading.Event(), threading.Event(), threading.Event()
    produced = 0

    def feed():
        nonlocal produced
        while not stop.wait(0.02):
            produce(kafka.brokers, "events", _values(40, produced))
            produced += 40

    first = Bridge(kafka, pace=Pace(commit=0.05))
    sink = first.sinks["one"]
    until(lambda: first.reader._source is not None and len(first.reader._source.assigned) == 4)
    give_up = first.reader.revoked
    went: list[int] = []

    def noted(partitions):
        found = give_up(partitions)
        went.extend(number for _, number in partitions)
        return found

    unassign = first.reader._source._forget

    def forgotten(keys):
        unassign(keys)
        if went:
            revoked.set()

    first.reader._source._forget = forgotten

    def first_positions() -> dict[int, int]:
        return {number: offset for (_, number), offset in first.reader._source.positions().items()}

    first.reader.revoked = noted
    feeding = threading.Thread(target=feed)
    feeding.start()
    second = None
    try:
        until(lambda: len(sink.values) > 200)
        second = Bridge(kafka, pace=Pace(commit=0.05))
        take_over = second.reader.assigned
        before: dict[int, int] = {}
        after: dict[int, int] = {}

        def held(partitions):
            # The newcomer is in the middle of it: until this returns the group waits for it.
            if revoked.wait(10) and not before:
                before.update(first_positions())
                deadline = time.monotonic() + 10
                while time.monotonic() < deadline:
                    after.update(first_positions())
                    if all(after[each] > before[each] + 20 for each in before):
                        break
                    time.sleep(0.01)
                over.set()
            return take_over(partitions)

        second.reader.assigned = held
        assert revoked.wait(15), "nothing was handed over"
        assert over.wait(25), "the newcomer was given nothing"
        stayed = sorted(before)
        assert sorted([*stayed, *went]) == [0, 1, 2, 3]
        assert len(stayed) == 2
        for number in stayed:
            assert after[number] > before[number] + 20, "it stands still while others move"
        at = committed(kafka.brokers, "bridge", "events")
        until(lambda: all(committed(kafka.brokers, "bridge", "events")[each] > at[each] for each in stayed))
        until(lambda: len(second.sinks["one"].values) > 100)
    finally:
        stop.set()
        feeding.join()
    for number in stayed:
        offsets = [offset for each, offset in list(sink.frames) if each == number]
        assert offsets == list(range(len(offsets))), "what stayed was read twice, or in part"
    until(lambda: len(sink.values) + len(second.sinks["one"].values) >= produced)
    assert first.stop()
    assert second.stop()
    assert {*sink.values, *second.sinks["one"].values} == set(_values(produced))
    assert len(sink.values) + len(second.sinks["one"].values) == produced, "a clean hand-over repeats nothing"
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == produced


def test_a_partition_that_was_lost_is_dropped_uncommitted(kafka, monkeypatch):
    produce(kafka.brokers, "events", _values(400))
    lost, asleep, wake = threading.Event(), threading.Event(), threading.Event()
    commits: list[dict] = []
    hand_over, commit_now = KafkaSource._on_lost, KafkaSource._commit_now

    def on_lost(self, consumer, partitions):
        before = len(commits)
        hand_over(self, consumer, partitions)
        assert len(commits) == before
        assert not self.assigned
        assert not self._uncommitted
        lost.set()

    def noted(self, positions):
        commits.append(dict(positions))
        return commit_now(self, positions)

    monkeypatch.setattr(KafkaSource, "_on_lost", on_lost)
    monkeypatch.setattr(KafkaSource, "_commit_now", noted)
    bridge = Bridge(kafka, properties={"max.poll.interval.ms": 1_600}, pace=Pace(commit=60.0))
    sink = bridge.sinks["one"]
    sink.hold = True
    until(lambda: bridge.flows[0].in_flight == 400)
    source = bridge.reader._source
    read = source.read

    def stuck(most, timeout):
        if not wake.is_set():
            asleep.set()
            wake.wait(20)
        return read(most, timeout)

    source.read = stuck
    assert asleep.wait(10)
    time.sleep(2.5)  # longer than a member may be silent: the group goes on without it
    # All that it had is confirmed, only too late: by now it may be another's.
    sink.release()
    until(lambda: bridge.flows[0].in_flight == 0)
    wake.set()
    assert lost.wait(15), "the partitions were not taken for lost"
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == 0
    until(
        lambda: len(sink.values) == 800, lambda: f"{len(sink.values)}: it does not begin again where it was committed"
    )
    assert bridge.stop()
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == 400
