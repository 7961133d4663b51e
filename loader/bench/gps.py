"""What the GPS feed costs: Avro in Kafka to one JSON message a road link in Pub/Sub, by bridges of their own processes.

Broker, registry and Pub/Sub are processes of their own too; CPU is that of the bridge processes alone, clients and all,
from when a tenth of the messages is through until the last ones are. Beside it stands what a bare loop costs in the
same minutes on servers of the same kind: how good a figure is for this machine is told by their ratio."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from loader.bench.bridge import fill
from loader.bench.cpu import peak_bytes, process_seconds
from loader.bench.gps_bare import WARM
from loader.bridge.engine.age import BOUNDS
from loader.bridge.generate.feed import Encoder, Sent, produce, register, schema
from loader.bridge.generate.vehicles import records
from loader.errors import LoaderError
from loader.local.bridge import BridgeProcess, kafka_process, registry_process
from loader.local.pubsub_process import PubsubProcess
from loader.pull import protocol as pb
from loader.pull.channel import EMULATOR_VARIABLE, Stub, open_channel

EXAMPLE = Path(__file__).resolve().parents[1] / "bridge" / "examples" / "gps.hcl"
GOALS = {"records": 900_000, "columns": 1_500_000}
"""Records a minute on one core, read one by one and in columns."""
GOAL_AGE_SECONDS = 0.5
PARTITIONS = 64
"""The broker keeps 5 MiB of each."""
_PROJECT = "projects/bench/topics"
_START = 1_796_054_400_000
_PATIENCE = 600.0
_DIFFERENT = 5_000
_WARM_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class GpsPlan:
    """Parameters of a run; they are part of its record."""

    records: int = 150_000
    repetitions: int = 3
    ways: tuple[str, ...] = ("records", "columns")
    processes: tuple[int, ...] = (1, 2)


def values(count: int) -> Iterator[bytes]:
    """Framed records by a schema of id 1. What is different is made once and goes round: making one takes longer than
    bridging it."""
    encode = Encoder(schema(), 1)
    pool = [encode(each) for each in islice(records(1, 1_000, 1_000, _START), min(count, _DIFFERENT))]
    return islice(cycle(pool), count)


def example(folder: Path, way: str) -> Path:
    """The shipped file, its records read in columns or not."""
    text = EXAMPLE.read_text(encoding="utf-8")
    wanted = 'subject  = "gps-value"'
    if wanted not in text:
        raise LoaderError(f"{EXAMPLE} has no line {wanted}")
    file = folder / f"{way}.hcl"
    columnar = "auto" if way == "columns" else "off"
    file.write_text(text.replace(wanted, f'{wanted}\n    columnar = "{columnar}"'), encoding="utf-8")
    return file


def run_gps(plan: GpsPlan, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure the bare loop and each way with each number of processes in turn, again and again. The record's
    `results`: medians, ratios those of a repetition."""
    found: dict[str, list[dict[str, float]]] = {}
    bare: list[dict[str, float]] = []
    for number in range(plan.repetitions):
        say(f"repetition {number + 1} of {plan.repetitions}")
        bare.append(_bare(plan.records))
        for way in plan.ways:
            for processes in plan.processes:
                run = _once(way, processes, plan.records)
                run["times_bare"] = round(run["records_per_minute_of_cpu"] / bare[-1]["records_per_minute_of_cpu"], 3)
                found.setdefault(f"{way}, {processes} process{'es' * (processes > 1)}", []).append(run)
    return {"bare": _medians(bare), "ways": {name: _medians(runs) for name, runs in found.items()}}


def _medians(runs: list[dict[str, float]]) -> dict[str, Any]:
    found: dict[str, Any] = {key: median(run[key] for run in runs) for key in runs[0]}
    rates = [run["records_per_minute_of_cpu"] for run in runs]
    return {**found, "spread": [min(rates), max(rates)]}


def _bare(count: int) -> dict[str, float]:
    with ExitStack() as stack:
        servers = _servers(stack)
        fill(servers.brokers, "gps", values(count), PARTITIONS)
        command = [sys.executable, "-m", "loader.bench.gps_bare", servers.brokers, servers.endpoint, servers.topics[0]]
        answer = subprocess.run([*command, str(count)], capture_output=True, text=True, check=False, timeout=_PATIENCE)
        if answer.returncode:
            raise LoaderError(f"the bare loop failed: {answer.stderr.strip()[-800:]}")
        found = json.loads(answer.stdout)
        return _rates(found["records"], found["rows"], found["cpu"])


def _rates(records: float, rows: float, cpu: float) -> dict[str, float]:
    return {
        "records_per_minute_of_cpu": round(records / cpu * 60),
        "rows_per_minute_of_cpu": round(rows / cpu * 60),
        "cpu_us_per_record": round(cpu / records * 1e6, 1),
    }


def run_age(way: str, rate: float, seconds: float, burst: float) -> dict[str, float]:
    """How old records are when Pub/Sub has them, at a steady rate; then the memory and the time that it takes to catch
    up after ten times that rate for `burst` seconds."""
    with ExitStack() as stack:
        bridge, brokers = _bridges(stack, way, 1, lambda brokers: None)
        bridge[0].await_ready()
        # By many devices: the broker keeps 5 MiB of a partition, and drops the rest without a word.
        pool = [(b"%d" % number, value, 0) for number, value in enumerate(values(_DIFFERENT))]
        # One producer for both: a new one takes half a second to begin, and then sends what has gathered at once.
        warm, total, before = int(rate * _WARM_SECONDS), int(rate * (_WARM_SECONDS + seconds)), bridge[0].metrics()

        def feed() -> Iterator[tuple[bytes, bytes, int]]:
            nonlocal before
            for number, each in enumerate(islice(cycle(pool), total)):
                if number == warm:
                    before = bridge[0].metrics()
                yield each

        produce(brokers, "gps", feed(), rate, sent := Sent())
        after = _settled(bridge[0])
        found = {
            "rate": round(sent.records / sent.seconds),
            "p50_age_seconds": _quantile(before, after, 0.5),
            "p99_age_seconds": _quantile(before, after, 0.99),
            "peak_bytes_before_burst": peak_bytes(bridge[0].pid) or 0,
        }
        if burst:
            produce(brokers, "gps", islice(cycle(pool), int(rate * 10 * burst)), rate * 10, Sent())
            ended = time.monotonic()
            _settled(bridge[0])
            found["burst_drain_seconds"] = round(time.monotonic() - ended, 2)
            found["peak_bytes_after_burst"] = peak_bytes(bridge[0].pid) or 0
        return found


def _settled(bridge: BridgeProcess) -> dict[str, float]:
    """Its figures once nothing has been in flight and nothing came for half a second."""
    deadline, last, since = time.monotonic() + _PATIENCE, bridge.metrics(), time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.1)
        found = bridge.metrics()
        busy = found["bridge_in_flight"] > 0 or found["bridge_messages_in_total"] != last["bridge_messages_in_total"]
        last = found
        if busy or not found["bridge_messages_in_total"]:
            since = time.monotonic()
        elif time.monotonic() - since > 0.5:
            return found
    raise LoaderError(f"the bridge has not settled after {_PATIENCE:g} s")


def _quantile(before: dict[str, float], after: dict[str, float], part: float) -> float:
    name = "bridge_publish_age_seconds_bucket"
    seen = [(bound, after[f"{name}{{{bound:g}}}"] - before[f"{name}{{{bound:g}}}"]) for bound in BOUNDS]
    total = after[f"{name}{{+Inf}}"] - before[f"{name}{{+Inf}}"]
    return next((bound for bound, count in seen if count >= part * total), float("inf"))


def _once(way: str, processes: int, count: int) -> dict[str, float]:
    with ExitStack() as stack:
        bridges, _ = _bridges(stack, way, processes, lambda brokers: fill(brokers, "gps", values(count), PARTITIONS))
        return _measured(bridges, count)


@dataclass(frozen=True, slots=True)
class _Servers:
    brokers: str
    registry: str
    endpoint: str
    topics: tuple[str, str]
    """For links and for dead letters."""


def _servers(stack: ExitStack) -> _Servers:
    brokers = stack.enter_context(kafka_process({"gps": PARTITIONS}))
    registry = stack.enter_context(registry_process())
    endpoint = stack.enter_context(PubsubProcess()).endpoint
    topics = (f"{_PROJECT}/links", f"{_PROJECT}/dead")
    with open_channel(endpoint) as channel:
        for topic in topics:
            Stub(channel).create_topic(pb.Topic(name=topic))
    register(registry, "gps-value", schema())
    return _Servers(brokers, registry, endpoint, topics)


def _bridges(
    stack: ExitStack, way: str, processes: int, prepare: Callable[[str], object]
) -> tuple[list[BridgeProcess], str]:
    """Bridges on fresh servers, started once `prepare` has been given the broker's address; and that address."""
    servers = _servers(stack)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    prepare(servers.brokers)
    environ = {
        EMULATOR_VARIABLE: servers.endpoint,
        "GPS_BROKERS": servers.brokers,
        "GPS_REGISTRY": servers.registry,
        "GPS_TOPIC": servers.topics[0],
        "GPS_DEAD_TOPIC": servers.topics[1],
        "BRIDGE_REGION": "bench",
        "BRIDGE_ENVIRONMENT": "bench",
    }
    file = example(folder, way)
    return [stack.enter_context(BridgeProcess(file, environ)) for _ in range(processes)], servers.brokers


def _measured(bridges: list[BridgeProcess], count: int) -> dict[str, float]:
    deadline = time.monotonic() + _PATIENCE
    rows = links_of(count)
    first = _reading(bridges)
    while first["rows"] < rows * WARM:
        _wait(deadline, first, rows)
        first = _reading(bridges)
    last = first
    while last["rows"] < rows:
        _wait(deadline, last, rows)
        last = _reading(bridges)
    if last["dead"]:
        raise LoaderError(f"{last['dead']:g} records were dead letters")
    # By confirmed rows: records that were read and wait in a queue have not cost anything yet.
    done = last["rows"] - first["rows"]
    if done < rows / 2:
        raise LoaderError(f"{count} records were through before they could be measured: take more")
    cpu, wall = last["cpu"] - first["cpu"], last["at"] - first["at"]
    peaks = [peak_bytes(bridge.pid) or 0 for bridge in bridges]
    return {
        **_rates(done * count / rows, done, cpu),
        "records_per_minute_wall": round(done * count / rows / wall * 60),
        "peak_bytes_a_process": max(peaks),
    }


def links_of(count: int) -> int:
    """Links of the first `count` records of `values`."""
    pool = [len(each["path"]) for each in islice(records(1, 1_000, 1_000, _START), min(count, _DIFFERENT))]
    return sum(islice(cycle(pool), count))


def _wait(deadline: float, last: dict[str, float], count: int) -> None:
    if time.monotonic() > deadline:
        raise LoaderError(f"{last['rows']:g} of {count} links are through after {_PATIENCE:g} s")
    time.sleep(0.2)


def _reading(bridges: list[BridgeProcess]) -> dict[str, float]:
    total = dict.fromkeys(("records", "rows", "dead", "in_flight", "cpu"), 0.0)
    for bridge in bridges:
        try:
            found = bridge.metrics()
        except LoaderError:
            _ = bridge.pid  # raises with what it said if it has ended
            continue  # it is starting
        total["records"] += found["bridge_messages_in_total"]
        total["rows"] += found["bridge_messages_out_total"]
        total["dead"] += found["bridge_messages_dead_total"]
        total["in_flight"] += found["bridge_in_flight"]
        total["cpu"] += process_seconds(bridge.pid)
    return {**total, "at": time.monotonic()}
