"""kill -9 of bridges and a worker behind them: every Kafka message is exactly one row at the end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loader.local.kafka import KafkaServer

pytest.importorskip("confluent_kafka")

ROOT = Path(__file__).resolve().parents[2]
FILE = """
endpoint "kafka" "events" {{
  region      = "eu"
  environment = "test"
  brokers     = ["{brokers}"]
  topic       = "events"
  properties  = {{ "session.timeout.ms" = 1500, "heartbeat.interval.ms" = 300, "max.poll.interval.ms" = 6000 }}
}}
endpoint "pubsub" "out" {{
  region      = "eu"
  environment = "test"
  topic       = "{topic}"
}}
endpoint "file" "copies" {{
  region      = "eu"
  environment = "test"
  path        = "{copies}"
}}
pipeline "main" {{
  source          = "events"
  sinks           = ["out"]
  on_refusal      = "stop"
  commit_interval = "500ms"
  stage "filter" {{
    when = "payload.number >= 0"
  }}
}}
pipeline "copy" {{
  source          = "events"
  sinks           = ["copies"]
  on_refusal      = "stop"
  commit_interval = "500ms"
}}
"""


class _Bridge:
    def __init__(self, file: Path, endpoint: str) -> None:
        environment = {
            **os.environ,
            "PUBSUB_EMULATOR_HOST": endpoint,
            "BRIDGE_REGION": "eu",
            "BRIDGE_ENVIRONMENT": "test",
            "LOADER_HTTP_PORT": "0",
            "PYTHONPATH": str(ROOT),
        }
        self.log = file.with_suffix(f".{time.monotonic_ns()}.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loader", "bridge", str(file)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def until_running(self) -> None:
        deadline = time.monotonic() + 30
        while "running" not in Path(self.log.name).read_text():
            assert time.monotonic() < deadline, Path(self.log.name).read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self.log.close()

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(40)
        self.log.close()
        return code


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
    with KafkaServer({"events": 6}) as kafka:
        file = tmp_path / "bridge.hcl"
        file.write_text(FILE.format(brokers=kafka.brokers, topic=topic.name, copies=copies))
        worker(event_id_attribute="event_id", table_key="kind")
        bridges = [_Bridge(file, topic.server.endpoint) for _ in range(2)]
        stop = threading.Event()
        feeding = threading.Thread(target=_feed, args=(kafka.brokers, count, stop))
        feeding.start()
        try:
            for _ in range(5):
                victim = rng.randrange(2)
                bridges[victim].until_running()
                # Somewhere in the middle of joining, reading, publishing or committing.
                time.sleep(rng.uniform(0.2, 1.5))
                bridges[victim].kill()
                bridges[victim] = _Bridge(file, topic.server.endpoint)
            feeding.join()
            database.until_count("order", count, 90)
            topic.until_settled()
            for bridge in bridges:
                bridge.until_running()
            assert [bridge.stop() for bridge in bridges] == [0, 0]
        finally:
            stop.set()
            feeding.join()
            for bridge in bridges:
                if bridge.process.poll() is None:
                    bridge.kill()
    assert database.one('select count(*) from "order"') == count, "a message is there twice"
    assert database.one('select count(distinct number) from "order"') == count
    assert database.letters() == 0
    assert len(set(copies.read_bytes().split(b"\n")) - {b""}) == count, "a sink lacks a message"
