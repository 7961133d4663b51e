"""The bridge as a process: it drains on SIGTERM, and on SIGHUP restarts what changed and nothing else."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bridge_process import Bridge, endpoint, kafka, pipeline

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from loader.local.kafka import KafkaServer
from loader.local.ports import free_port


class _Process(Bridge):
    """Takes `events` to two files; `b` leaves out what is less than a number."""

    def __init__(self, folder: Path, brokers: str) -> None:
        self.folder, self.brokers = folder, brokers
        self.file = folder / "bridge.hcl"
        self.port = free_port()
        self.write("0")
        super().__init__(self.file, LOADER_HTTP_PORT=str(self.port))
        self.until_logged("running 2 pipelines")

    def write(self, least: str) -> None:
        self.file.write_text(
            kafka(self.brokers)
            + endpoint("file", "a", path=f"{self.folder}/a.ndjson")
            + endpoint("file", "b", "staging", path=f"{self.folder}/b.ndjson")
            + pipeline("a", "a")
            + pipeline("b", "b", f"payload.n >= {least}")
        )

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
    with KafkaServer({"events": 4}) as server:
        process = _Process(tmp_path, server.brokers)
        yield process
        process.kill()


def test_it_reloads_what_changed_and_refuses_a_bad_file(bridge):
    _produce(bridge.brokers, range(100))
    bridge.until(lambda: len(bridge.lines("a")) == 100 and len(bridge.lines("b")) == 100)
    bridge.write("=")
    bridge.process.send_signal(signal.SIGHUP)
    bridge.until_logged("refused and the one before goes on")
    _produce(bridge.brokers, range(100, 150))
    bridge.until(lambda: len(bridge.lines("a")) == 150 and len(bridge.lines("b")) == 150)
    bridge.write("1000")
    bridge.process.send_signal(signal.SIGHUP)
    bridge.until_logged("1 of them as before")
    _produce(bridge.brokers, range(150, 200))
    _produce(bridge.brokers, range(1_000, 1_010))
    bridge.until(lambda: len(bridge.lines("a")) == 210 and bridge.lines("b")[-10:] == list(range(1_000, 1_010)))
    assert bridge.lines("b") == [*range(150), *range(1_000, 1_010)]
    metrics = bridge.get("/metrics")
    assert 'bridge_messages_out_total{pipeline="a",region="eu",environment="test",criticality="low"} 210' in metrics
    assert bridge.get("/healthz").startswith("ok")
    assert bridge.get("/readyz").startswith("ok")
    assert bridge.stop() == 0


def test_it_commits_what_it_delivered_when_it_is_told_to_stop(bridge):
    _produce(bridge.brokers, range(300))
    bridge.until(lambda: len(bridge.lines("a")) == 300 and len(bridge.lines("b")) == 300)
    began = time.monotonic()
    assert bridge.stop() == 0
    assert time.monotonic() - began < 15
    again = _Process(bridge.folder, bridge.brokers)
    try:
        _produce(bridge.brokers, range(300, 301))
        again.until(lambda: 300 in again.lines("a") and 300 in again.lines("b"))
        assert again.lines("a") == list(range(301)), "what was delivered is not delivered again"
    finally:
        assert again.stop() == 0
