"""`bench soak`: a worker over many windows. Nothing of it may grow, and at rest it costs next to nothing."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from loader.bench.children import Child
from loader.bench.cpu import open_files, peak_bytes, process_seconds, resident_bytes, thread_count
from loader.bench.messages import padded
from loader.bench.pubsub import backlog, fresh_subscription, pubsub
from loader.bench.run import worker_environment
from loader.bench.slope import slope
from loader.errors import LoaderError
from loader.publish import Publisher
from loader.pull.channel import Stub, open_channel

GOAL_QUIET = 0.01
GOAL_PEAK_BYTES = 200_000_000
DATASET = "bench_soak"
_SECONDS = 600.0
_WARM = 0.25
"""Share of the samples left out: plans, caches and the allocator fill up at first."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """Parameters of a run; they are part of its record."""

    minutes: float = 5.0
    rate: int = 1_000
    body_bytes: int = 1_000
    window_seconds: float = 2.0
    sample_seconds: float = 2.0
    quiet_seconds: float = 30.0
    backlog: int = 100_000


def run_soak(url: str, plan: SoakPlan, note: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """A backlog at the default limits, then a steady rate, then silence. The record's `results`."""
    with pubsub("memory") as (endpoint, _), tempfile.TemporaryDirectory(prefix="loader-bench-soak-") as folder:
        note(f"a backlog of {plan.backlog:,} messages of {plan.body_bytes:,} bytes")
        peak = _backlog_peak(url, endpoint, folder, plan)
        note(f"{plan.minutes:g} minutes at {plan.rate:,} messages a second")
        topic, subscription = fresh_subscription(endpoint)
        environment = _environment(url, subscription, endpoint, folder, plan.window_seconds)
        with Child(["-m", "loader", "run"], environment) as child:
            child.wait_ready()
            samples, published = _steady(child, url, endpoint, topic, folder, plan)
            child.wait_loaded(published, _SECONDS)
            note(f"{plan.quiet_seconds:g} seconds of silence")
            child.wait_idle()
            cpu, wall = process_seconds(child.pid), time.monotonic()
            time.sleep(plan.quiet_seconds)
            quiet = (process_seconds(child.pid) - cpu) / (time.monotonic() - wall)
            code = child.stop()
        if code != 0:
            raise LoaderError(f"the worker ended with exit code {code} after SIGTERM")
    return {
        "published": published,
        "samples": len(samples),
        "series": _series(samples),
        "quiet_cpu_share": round(quiet, 5),
        "backlog_peak_resident_bytes": peak,
    }


def _environment(url: str, subscription: str, endpoint: str, folder: str, window: float) -> dict[str, str]:
    settings = worker_environment(url, DATASET, subscription, 1, window)
    return settings | {"PUBSUB_EMULATOR_HOST": endpoint, "TMPDIR": folder}


def _backlog_peak(url: str, endpoint: str, folder: str, plan: SoakPlan) -> int | None:
    subscription = backlog(endpoint, padded(plan.body_bytes, plan.backlog))
    with Child(["-m", "loader", "run"], _environment(url, subscription, endpoint, folder, 5.0)) as child:
        child.wait_ready()
        child.wait_loaded(plan.backlog, _SECONDS)
        return peak_bytes(child.pid)


def _steady(
    child: Child, url: str, endpoint: str, topic: str, folder: str, plan: SoakPlan
) -> tuple[list[dict[str, float]], int]:
    stop = threading.Event()
    published = [0]
    failed: list[BaseException] = []

    def bodies() -> Iterator[bytes]:
        until = time.monotonic() + plan.minutes * 60
        start = plan.backlog
        while time.monotonic() < until and not stop.is_set():
            yield from padded(plan.body_bytes, plan.rate, start)
            start += plan.rate

    def publish() -> None:
        channel = open_channel(endpoint)
        try:
            publisher = Publisher(Stub(channel), topic, rate=plan.rate)
            publisher.publish(bodies())
            published[0] = publisher.flush().messages
        except BaseException as error:
            failed.append(error)
        finally:
            channel.close()

    thread = threading.Thread(target=publish, name="publish")
    samples: list[dict[str, float]] = []
    started = time.monotonic()
    thread.start()
    try:
        with psycopg.connect(url, autocommit=True, application_name="bench") as conn:
            while thread.is_alive():
                thread.join(plan.sample_seconds)
                samples.append({"time": time.monotonic() - started, **_sample(child.pid, conn, folder)})
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]
    return samples, published[0]


def _sample(pid: int, conn: psycopg.Connection, folder: str) -> dict[str, float]:
    row = conn.execute("select count(*) from pg_stat_activity where application_name like 'loader %'").fetchone()
    found: dict[str, float | None] = {
        "resident_bytes": resident_bytes(pid),
        "open_files": open_files(pid),
        "threads": thread_count(pid),
        "connections": row[0] if row else 0,
        "temporary_bytes": _size(folder),
    }
    return {name: value for name, value in found.items() if value is not None}


def _size(folder: str) -> int:
    total = 0
    for path in Path(folder).rglob("*"):
        try:
            total += path.lstat().st_size if not path.is_dir() else 0
        except OSError:
            continue  # gone between the listing and the look: that is what temporary files do
    return total


def _series(samples: list[dict[str, float]]) -> dict[str, dict[str, float | bool]]:
    """Of each figure: first, last, least, most, and its slope once the worker is warm."""
    kept = samples[int(len(samples) * _WARM) :]
    if len(kept) < 3:
        raise LoaderError(f"{len(samples)} samples are too few for a slope: measure for longer")
    times = [sample["time"] for sample in kept]
    result: dict[str, dict[str, float | bool]] = {}
    for name in kept[0]:
        if name == "time":
            continue
        values = [sample[name] for sample in kept]
        found = slope(times, values)
        result[name] = {
            "first": values[0],
            "last": values[-1],
            "least": min(values),
            "most": max(values),
            "slope_per_hour": round(found.value * 3600, 3),
            "slope_error_per_hour": round(found.error * 3600, 3),
            "flat": found.flat,
        }
    return result
