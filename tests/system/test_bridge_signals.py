"""The bridge as a process: it drains on SIGTERM, and on SIGHUP restarts what changed and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from loader.local.kafka import KafkaServer
from loader.local.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
ENDPOINTS = """
endpoint "kafka" "events" {{
  region = "eu"
  environment = "test"
  brokers = ["{brokers}"]
  topic = "events"
  properties = {{ "session.timeout.ms" = 1500, "heartbeat.interval.ms" = 300, "max.poll.interval.ms" = 6000 }}
}}
endpoint "file" "a" {{
  region = "eu"
  environment = "test"
  path = "{folder}/a.ndjson"
}}
endpoint "file" "b" {{
  region = "eu"
  environment = "staging"
  path = "{folder}/b.ndjson"
}}
pipeline "a" {{
  source = "events"
  sinks = ["a"]
  on_refusal = "stop"
}}
pipeline "b" {{
  source = "events"
  sinks = ["b"]
  on_refusal = "stop"
  stage "filter" {{
    when = "payload.n >= {least}"
  }}
}}
"""


class _Process:
    def __init__(self, folder: Path, brokers: str) -> None:
        self.folder, self.brokers = folder, brokers
        self.file = folder / "bridge.hcl"
        self.port = free_port()
        self.write(0)
        self.log = folder / "log"
        environment = {
            **os.environ,
            "BRIDGE_REGION": "eu",
            "BRIDGE_ENVIRONMENT": "test",
            "LOADER_HTTP_PORT": str(self.port),
            "PYTHONPATH": str(ROOT),
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "loader", "bridge", str(self.file)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.until(lambda: "running 2 pipelines" in self.log.read_text())

    def write(self, least: object) -> None:
        self.file.write_text(ENDPOINTS.format(brokers=self.brokers, folder=self.folder, least=least))

    def until(self, reached, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def lines(self, name: str) -> list[int]:
        path = self.folder / f"{name}.ndjson"
        return sorted(json.loads(line)["n"] for line in path.read_text().splitlines()) if path.exists() else []

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()


def _produce(brokers: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": brokers})
    for number in numbers:
        producer.produce("events", b'{"n": %d}' % number)
    assert producer.flush(10) == 0


@pytest.fixture
def bridge(tmp_path) -> Iterator[_Process]:
    with KafkaServer({"events": 4}) as kafka:
        process = _Process(tmp_path, kafka.brokers)
        yield process
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait(10)


def test_it_reloads_what_changed_and_refuses_a_bad_file(bridge):
    _produce(bridge.brokers, range(100))
    bridge.until(lambda: len(bridge.lines("a")) == 100 and len(bridge.lines("b")) == 100)
    bridge.write('"')
    bridge.process.send_signal(signal.SIGHUP)
    bridge.until(lambda: "refused and the one before goes on" in bridge.log.read_text())
    _produce(bridge.brokers, range(100, 150))
    bridge.until(lambda: len(bridge.lines("a")) == 150 and len(bridge.lines("b")) == 150)
    bridge.write(1_000)
    bridge.process.send_signal(signal.SIGHUP)
    bridge.until(lambda: "1 of them as before" in bridge.log.read_text())
    _produce(bridge.brokers, range(150, 200))
    _produce(bridge.brokers, range(1_000, 1_010))
    bridge.until(lambda: len(bridge.lines("a")) == 210 and bridge.lines("b")[-10:] == list(range(1_000, 1_010)))
    assert bridge.lines("b") == [*range(150), *range(1_000, 1_010)]
    metrics = bridge.get("/metrics")
    assert 'bridge_messages_out_total{pipeline="a",region="eu",environment="test",criticality="low"} 210' in metrics
    assert bridge.get("/healthz").startswith("ok")
    assert bridge.get("/readyz").startswith("ok")
    bridge.process.terminate()
    assert bridge.process.wait(30) == 0


def test_it_commits_what_it_delivered_when_it_is_told_to_stop(bridge):
    _produce(bridge.brokers, range(300))
    bridge.until(lambda: len(bridge.lines("a")) == 300 and len(bridge.lines("b")) == 300)
    began = time.monotonic()
    bridge.process.terminate()
    assert bridge.process.wait(30) == 0
    assert time.monotonic() - began < 15
    again = _Process(bridge.folder, bridge.brokers)
    try:
        _produce(bridge.brokers, range(300, 301))
        again.until(lambda: 300 in again.lines("a") and 300 in again.lines("b"))
        assert again.lines("a") == list(range(301)), "what was delivered is not delivered again"
    finally:
        again.process.terminate()
        assert again.process.wait(30) == 0
