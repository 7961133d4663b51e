"""What the broker of the tests can do, and what it cannot: the other tests rely on the one and avoid the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import QUICK, committed, produce

from loader.bridge.engine.marks import Marks
from loader.errors import LoaderError
from loader.local.kafka import API_OFFSET_COMMIT, KafkaServer, process_command


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer({"events": 4}) as server:
        yield server


def _consumer(kafka, group="group"):
    return Consumer(
        {
            "bootstrap.servers": kafka.brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUICK,
        }
    )


def test_it_keeps_bytes_headers_keys_and_times(kafka):
    producer = Producer({"bootstrap.servers": kafka.brokers})
    headers = [("a", b"1"), ("a", b"2"), ("none", None), ("bin", b"\xff")]
    producer.produce("events", b"\x00\xff", key=b"k\x00", partition=2, headers=headers, timestamp=1_796_000_000_123)
    producer.produce("events", None, key=b"gone", partition=2)
    assert producer.flush(10) == 0
    consumer = _consumer(kafka)
    consumer.assign([TopicPartition("events", 2, 0)])
    first, second = consumer.consume(2, 5)
    assert (first.value(), first.key(), first.headers(), first.timestamp()[1]) == (
        b"\x00\xff",
        b"k\x00",
        headers,
        1_796_000_000_123,
    )
    assert second.value() is None
    consumer.close()


def test_it_has_a_cluster_id_and_tells_watermarks(kafka):
    produce(kafka.brokers, "events", [b"x"] * 40)
    consumer = _consumer(kafka)
    assert consumer.list_topics("events", timeout=10).cluster_id
    assert consumer.get_watermark_offsets(TopicPartition("events", 1), timeout=10) == (0, 10)
    consumer.close()


def test_it_keeps_metadata_of_positions_for_a_group_without_members(kafka):
    settings = {"bootstrap.servers": kafka.brokers}
    marks = Marks(settings, "group")
    keys = [("events", 0), ("events", 1)]
    assert marks.read(keys) == {}
    marks.set("slow", {("events", 0): 17})
    marks.set("other", {("events", 0): 3, ("events", 1): 4, ("events", 3): 9})
    other = Marks(settings, "group")
    assert other.read(keys) == {"slow": {("events", 0): 17}, "other": {("events", 0): 3, ("events", 1): 4}}
    assert other.read([("events", 3)]) == {}, "a partition that is not owned is not marked"
    other.clear("other")
    assert Marks(settings, "group").read(keys) == {"slow": {("events", 0): 17}}
    marks.close()
    other.close()


def test_marks_that_cannot_be_kept_are_an_error(kafka):
    marks = Marks({"bootstrap.servers": kafka.brokers}, "group")
    marks.read([("events", 0)])
    kafka.fail(API_OFFSET_COMMIT, [29])
    with pytest.raises(LoaderError, match="marks"):
        marks.set("slow", {("events", 0): 17})
    marks.close()


def test_it_refuses_commits_on_demand(kafka):
    consumer = _consumer(kafka)
    kafka.fail(API_OFFSET_COMMIT, [22])
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[TopicPartition("events", 0, 5)], asynchronous=False)
    consumer.commit(offsets=[TopicPartition("events", 0, 6)], asynchronous=False)
    assert committed(kafka.brokers, "group", "events")[0] == 6
    consumer.close()


def test_it_drops_the_oldest_of_a_partition_beyond_its_bound(kafka):
    """Why the tests keep below 5 MiB a partition, compressed."""
    produce(kafka.brokers, "events", [os.urandom(2_000) for _ in range(5_000)], partitions=1)
    consumer = _consumer(kafka)
    low, high = consumer.get_watermark_offsets(TopicPartition("events", 0), timeout=10)
    assert high == 5_000
    assert low > 0
    consumer.close()


def test_a_server_in_a_process_of_its_own_serves_others():
    command, environment = process_command({"events": 2})
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        brokers = process.stdout.readline().rpartition(" ")[2].strip()
        produce(brokers, "events", [b"a", b"b"], partitions=2)
        assert committed(brokers, "group", "events", 2) == {0: 0, 1: 0}
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()
