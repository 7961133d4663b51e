"""A Kafka that is away, and a group that gives nothing: seen from the log and the metrics."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import Bridge, Raw, committed, produce, until

from loader.bridge.config.model import Pipeline, Place
from loader.bridge.engine.flow import CountedFormat, Flow, Limits
from loader.bridge.engine.marks import Marks
from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame, Payload
from loader.bridge.metrics import Watched, render
from loader.bridge.outage import Outage
from loader.bridge.sinks.kafka import KafkaSink
from loader.bridge.sinks.sink import Origin
from loader.bridge.sources import kafka as source_module
from loader.bridge.sources.kafka import KafkaSource
from loader.bridge.sources.kafka_options import check_settings, consumer_settings, producer_settings
from loader.local.kafka import KafkaServer


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer({"events": 4, "single": 1}) as server:
        yield server


def _told(caplog, severity=logging.INFO):
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("loader.bridge") and each.levelno >= severity
    ]


def test_brokers_that_cannot_be_reached_are_one_line_however_often_the_reader_begins(monkeypatch, caplog, capfd):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(source_module, "_CALL_SECONDS", 0.3)
    format = CountedFormat(Raw())
    settings = consumer_settings("127.0.0.1:9", "g", {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10})
    check_settings(settings, "clicks")
    opened: list[int] = []
    outage = Outage("Kafka, clicks", logging.getLogger("loader.bridge.test"))

    def open_source() -> KafkaSource:
        opened.append(1)
        return KafkaSource("clicks", "events", settings, format, outage=outage)

    reader = Reader(
        "g", open_source, [Flow("one", format, (), Limits())], Pace(), lambda: Marks(settings, "g"),
        None, outage,
    )  # fmt: skip
    reader.start()
    until(lambda: len(opened) >= 3)
    reader.stop(time.monotonic() + 5)
    assert reader.join(time.monotonic() + 10)
    assert len(_told(caplog)) == 1
    assert "127.0.0.1:9" in _told(caplog)[0]
    assert outage._untold > 3, "librdkafka said more than the reader"
    assert capfd.readouterr().err == ""


def test_an_outage_and_its_end_are_told_once_each_though_no_message_comes(kafka, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(source_module, "LAG_SECONDS", 0.2)
    bridge = Bridge(kafka, properties={"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50})
    until(lambda: bridge.reader.partitions == 4)
    until(lambda: bridge.reader.lag("one") == 0)
    kafka.set_down()
    until(lambda: bridge.reader.fault is not None)
    time.sleep(1.0)  # many tries
    kafka.set_down(False)
    until(lambda: bridge.reader.fault is None)
    until(lambda: bridge.reader.partitions == 4)
    assert bridge.stop()
    told = _told(caplog, logging.WARNING)
    assert len(told) == 1, told
    assert sum("works again" in each for each in _told(caplog)) == 1


class _Delivery:
    def __init__(self) -> None:
        self.confirmed = 0

    def confirm(self, share, count, size):
        self.confirmed += count


def test_an_outage_of_a_sink_and_its_end_are_told_once_each(kafka, caplog):
    caplog.set_level(logging.INFO)
    timer, delivery = Timer(), _Delivery()
    settings = producer_settings(kafka.brokers, {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50})
    sink = KafkaSink("out", "events", settings, delivery, timer)
    frame = Frame(Payload(b"{}", Raw()), None, (), "t", 0, 0, 0, Origin("t", 0, "c/t/0/"))
    sink.send([frame], None, 1.0)
    until(lambda: delivery.confirmed == 1)
    kafka.set_down()
    until(lambda: sink.trouble is not None)
    time.sleep(1.0)
    kafka.set_down(False)
    until(lambda: sink.trouble is None)  # and no message that showed it
    sink.send([frame], None, 1.0)
    until(lambda: delivery.confirmed == 2)
    assert sink.close(time.monotonic() + 5)
    timer.close()
    assert len(_told(caplog, logging.WARNING)) == 1, _told(caplog)
    assert sum("works again" in each for each in _told(caplog)) == 1


def _metrics(bridge: Bridge) -> str:
    pipeline = Pipeline("one", "in", (), (), "raw", {}, None, "high", True, {}, Place("f", 1))
    return render([Watched(pipeline, "r", "e", bridge.flows[0], bridge.reader)], {}, {}).decode()


def test_a_member_without_partitions_shows_it_and_has_no_lag(kafka, monkeypatch, caplog):
    monkeypatch.setattr(source_module, "LAG_SECONDS", 0.1)
    monkeypatch.setattr(source_module, "UNASSIGNED_SECONDS", 1.0)
    produce(kafka.brokers, "single", [b"x"] * 10, partitions=1)
    first = Bridge(kafka, topic="single")
    until(lambda: len(first.sinks["one"].values) == 10)
    until(lambda: first.reader.lag("one") == 0)
    second = Bridge(kafka, topic="single")
    until(lambda: any("no partition of the topic single" in each for each in _told(caplog)))
    assert 'bridge_partitions{pipeline="one",region="r",environment="e",criticality="high"} 1' in _metrics(first)
    assert 'bridge_lag{pipeline="one",region="r",environment="e",criticality="high"} 0' in _metrics(first)
    assert 'bridge_partitions{pipeline="one",region="r",environment="e",criticality="high"} 0' in _metrics(second)
    assert "bridge_lag{" not in _metrics(second)
    assert first.stop()
    until(lambda: second.reader.partitions == 1)
    until(lambda: second.reader.lag("one") == 0, "a topic that is read up to its end, and of which nothing comes")
    assert sum("no partition" in each for each in _told(caplog)) == 1
    assert second.stop()


@pytest.mark.parametrize("trouble", [None, "the sink is away"])
def test_a_reader_that_stops_with_undelivered_messages_leaves_its_group_at_once(kafka, caplog, trouble):
    caplog.set_level(logging.DEBUG)
    produce(kafka.brokers, "events", [b"x"] * 40)
    bridge = Bridge(kafka, properties={"debug": "cgrp", "log_level": 7})
    sink = bridge.sinks["one"]
    sink.hold = True
    sink.trouble = trouble
    until(lambda: bridge.flows[0].in_flight == 40)
    # As the engine stops it: who is not through by the deadline is not waited for, and the process ends.
    deadline = time.monotonic() + 4.0
    bridge.reader.stop(deadline - 0.8)
    assert bridge.reader.join(deadline), "it would have been ended in the middle of leaving"
    # The broker of the tests lets a newcomer wait for the whole session even so; Kafka does not.
    assert any("LeaveGroup response received" in each for each in _told(caplog, logging.DEBUG))
    sink.release()
    bridge.stop(1)
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == 0
