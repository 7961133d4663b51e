"""The bridge takes where it serves, how long it may take to stop and where it logs from the loader's settings."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from bridge_process import Bridge, endpoint, kafka, pipeline

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from loader.bridge.config.instance import Instance
from loader.bridge.config.load import parse_configuration
from loader.bridge.engine import run as engine
from loader.local.kafka import KafkaServer
from loader.local.ports import free_port

HOST = "127.0.0.2" if sys.platform == "linux" else "localhost"
"""Another one than the default, where there is another loopback address."""


def _stuck(brokers: str, dead: int) -> str:
    """A file whose sink nobody listens at."""
    sink = endpoint("http", "dead", url=f"http://127.0.0.1:{dead}/x")
    return kafka(brokers) + sink + pipeline("stuck", "dead")


class _Served(Bridge):
    port: int


@pytest.fixture
def bridge(tmp_path) -> Iterator[_Served]:
    with KafkaServer({"events": 2}) as server:
        producer = Producer({"bootstrap.servers": server.brokers})
        for number in range(50):
            producer.produce("events", b"%d" % number)
        assert producer.flush(10) == 0
        file, port = tmp_path / "bridge.hcl", free_port()
        file.write_text(_stuck(server.brokers, free_port()))
        # As the machines of the fleet have them.
        process = _Served(
            file,
            LOADER_HTTP_HOST=HOST,
            LOADER_HTTP_PORT=str(port),
            LOADER_SHUTDOWN_SECONDS="5",
            LOADER_LOG_TO="stdout",
        )
        process.port = port
        yield process
        process.kill()


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_serves_logs_and_stops_as_the_fleet_sets_it(bridge):
    def reached(path: str, status: int, part: str) -> bool:
        try:
            found, text = _get(HOST, bridge.port, path)
        except OSError:
            return False
        return found == status and part in text

    for path, status, part in (("/healthz", 200, "ok"), ("/readyz", 503, "stuck"), ("/metrics", 200, "in_flight")):
        # An outage of a sink is no reason to make the machine anew: alive, and not ready.
        bridge.until(partial(reached, path, status, part))
    assert _get(HOST, bridge.port, "/healthz")[0] == 200
    if HOST == "127.0.0.2":
        with pytest.raises(OSError, match="refused"):
            _get("127.0.0.1", bridge.port, "/healthz")
    began = time.monotonic()
    assert bridge.stop() == 0
    # Its sink is dead: it waits as long as it may, and no longer. The default would be 20 s.
    assert time.monotonic() - began < 12
    lines = [json.loads(line) for line in bridge.log.read_text().splitlines()]
    assert any("stopped; what was not delivered" in line["message"] for line in lines)


@pytest.mark.parametrize(("target", "seconds"), [("cloud", "7"), ("stdout", "25")])
def test_log_target_and_times_are_those_of_the_settings(monkeypatch, target, seconds):
    settings = {
        "LOADER_LOG_TO": target,
        "LOADER_SHUTDOWN_SECONDS": seconds,
        "LOADER_HTTP_HOST": "0.0.0.0",
        "LOADER_HTTP_PORT": "8123",
        "LOADER_HTTP_TOKEN": "t0ken-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    told: dict[str, Any] = {}

    def configure(level, to, secrets):
        told.update(to=to, hidden=secrets.text("with t0ken-1"))
        return lambda: None

    def started(configuration, instance, reload, settings, token):
        told.update(host=settings.http_host, port=settings.http_port, seconds=settings.shutdown_seconds, token=token)
        return 0

    monkeypatch.setattr(engine, "configure", configure)
    monkeypatch.setattr(engine, "_run", started)
    configuration = parse_configuration(_stuck("127.0.0.1:1", 1))
    assert engine.run(configuration, Instance("eu", "test", "a test"), reload=lambda: configuration) == 0
    assert told == {
        "to": target,
        "hidden": "with t0ken-1".replace("t0ken-1", "***"),
        "host": "0.0.0.0",
        "port": 8123,
        "seconds": float(seconds),
        "token": "t0ken-1",
    }
