"""kill -9 of bridges and a worker behind them: every Kafka message is exactly one row at the end."""

from __future__ import annotations

import random
import threading
import time

import pytest
from bridge_process import Bridge, endpoint, kafka, pipeline

from loader.local.kafka import KafkaServer

pytest.importorskip("confluent_kafka")


def _feed(brokers: str, count: int, stop: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
    for number in range(count):
        producer.produce("events", b'{"kind": "order", "number": %d}' % number, partition=number % 6)
        if number % 50 == 49:
            producer.poll(0)
            stop.wait(0.08)
    assert producer.flush(20) == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_bridges_deliver_everything_and_the_tables_hold_it_once(topic, database, worker, tmp_path):
    count, rng = 9_000, random.Random(7)
    copies = tmp_path / "copies.ndjson"
    with KafkaServer({"events": 6}) as server:
        file = tmp_path / "bridge.hcl"
        file.write_text(
            kafka(server.brokers)
            + endpoint("pubsub", "out", topic=topic.name)
            + endpoint("file", "copies", path=str(copies))
            + pipeline("main", "out", "payload.number >= 0", commit_interval="500ms")
            + pipeline("copy", "copies", commit_interval="500ms")
        )
        worker(event_id_attribute="event_id", table_key="kind")
        bridges = [Bridge(file, PUBSUB_EMULATOR_HOST=topic.server.endpoint) for _ in range(2)]
        stop = threading.Event()
        feeding = threading.Thread(target=_feed, args=(server.brokers, count, stop))
        feeding.start()
        try:
            for _ in range(5):
                victim = rng.randrange(2)
                bridges[victim].until_logged("running")
                # Somewhere in the middle of joining, reading, publishing or committing.
                time.sleep(rng.uniform(0.2, 1.5))
                bridges[victim].kill()
                bridges[victim] = Bridge(file, PUBSUB_EMULATOR_HOST=topic.server.endpoint)
            feeding.join()
            database.until_count("order", count, 90)
            topic.until_settled()
            for bridge in bridges:
                bridge.until_logged("running")
            assert [bridge.stop() for bridge in bridges] == [0, 0]
        finally:
            stop.set()
            feeding.join()
            for bridge in bridges:
                bridge.kill()
    assert database.one('select count(*) from "order"') == count, "a message is there twice"
    assert database.one('select count(distinct number) from "order"') == count
    assert database.letters() == 0
    assert len(set(copies.read_bytes().split(b"\n")) - {b""}) == count, "a sink lacks a message"
