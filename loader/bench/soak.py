"""`bench soak`: a worker over many windows. Nothing of it may grow, and at rest it costs next to nothing.

The worker has the settings of production, its metrics are on and are read with each sample, as Prometheus would."""

from __future__ import annotations

import re
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from loader.bench.children import Child
from loader.bench.cpu import open_files, peak_bytes, process_seconds, resident_bytes, thread_count
from loader.bench.messages import padded
from loader.bench.pubsub import backlog, fresh_subscription, pubsub
from loader.bench.run import worker_environment
from loader.bench.slope import slope_of_means
from loader.errors import LoaderError
from loader.local.ports import free_port
from loader.publish import Publisher
from loader.pull.channel import Stub, open_channel

GOAL_QUIET = 0.01
GOAL_PEAK_BYTES = 200_000_000
BOUNDS = {
    "resident_bytes": 16e6,
    "open_files": 1.0,
    "threads": 1.0,
    "connections": 1.0,
    "temporary_bytes": 1e6,
    "written_bytes": 1e6,
}
"""Growth an hour that nobody would notice. 16 MB are two bytes a message at 2,000 messages a second: a worker with that
is ten days from a gigabyte, and is replaced sooner."""
DATASET = "bench_soak"
_SECONDS = 600.0
_WARM = 0.25
"""Share of the samples left out: plans, caches and the allocator fill up at first."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """Parameters of a run; they are part of its record."""

    minutes: float = 5.0
    rate: int = 2_000
    body_bytes: int = 1_000
    window_seconds: float = 5.0
    """As the settings have it."""
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
        port = free_port()
        environment = _environment(url, subscription, endpoint, folder, plan.window_seconds, port)
        with Child(["-m", "loader", "run"], environment) as child:
            child.wait_ready()
            samples, published = _steady(child, url, endpoint, topic, folder, port, plan, note)
            child.wait_loaded(published, _SECONDS)
            note(f"{plan.quiet_seconds:g} seconds of silence")
            child.wait_idle()
            cpu, wall = process_seconds(child.pid), time.monotonic()
            time.sleep(plan.quiet_seconds)
            quiet = (process_seconds(child.pid) - cpu) / (time.monotonic() - wall)
            code = child.stop()
        if code != 0:
            raise LoaderError(f"the worker ended with exit code {code} after SIGTERM")
    found = series(samples)
    return {
        "published": published,
        "published_per_second": round(published / (plan.minutes * 60)),
        "samples": len(samples),
        "series": found,
        "grows": [name for name, one in found.items() if one["verdict"] == "grows"],
        "quiet_cpu_share": round(quiet, 5),
        "backlog_peak_resident_bytes": peak,
    }


def _environment(url: str, subscription: str, endpoint: str, folder: str, window: float, port: int) -> dict[str, str]:
    settings = worker_environment(url, DATASET, subscription, 1, window)
    return settings | {"PUBSUB_EMULATOR_HOST": endpoint, "TMPDIR": folder, "LOADER_HTTP_PORT": str(port)}


def _backlog_peak(url: str, endpoint: str, folder: str, plan: SoakPlan) -> int | None:
    subscription = backlog(endpoint, padded(plan.body_bytes, plan.backlog))
    with Child(["-m", "loader", "run"], _environment(url, subscription, endpoint, folder, 5.0, 0)) as child:
        child.wait_ready()
        child.wait_loaded(plan.backlog, _SECONDS)
        return peak_bytes(child.pid)


def _steady(
    child: Child,
    url: str,
    endpoint: str,
    topic: str,
    folder: str,
    port: int,
    plan: SoakPlan,
    note: Callable[[str], None],
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
    said = 0
    thread.start()
    try:
        with psycopg.connect(url, autocommit=True, application_name="bench") as conn:
            while thread.is_alive():
                thread.join(plan.sample_seconds)
                read_metrics(port)
                seconds = time.monotonic() - started
                samples.append({"time": seconds, **sample(child.pid, folder), "connections": _connections(conn)})
                if seconds // 60 > said:
                    said = int(seconds // 60)
                    note(f"{said} of {plan.minutes:g} minutes, {samples[-1]['resident_bytes'] / 1e6:.0f} MB resident")
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]
    return samples, published[0]


def read_metrics(port: int) -> bytes:
    """The worker's metrics, read as Prometheus reads them. Raises LoaderError when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            found: bytes = answer.read()
    except OSError as error:
        raise LoaderError(f"the worker does not answer with its metrics: {error}") from error
    return found


def sample(pid: int, folder: str) -> dict[str, float]:
    """What a process holds now: memory, descriptors, threads, files below `folder`, and bytes it wrote to disk so far.

    Figures that the system does not tell are left out. Raises LoaderError when the process is not there."""
    found: dict[str, float | None] = {
        "resident_bytes": resident_bytes(pid),
        "open_files": open_files(pid),
        "threads": thread_count(pid),
        "temporary_bytes": _size(folder),
        "written_bytes": _written(pid),
    }
    return {name: value for name, value in found.items() if value is not None}


def _connections(conn: psycopg.Connection) -> int:
    row = conn.execute("select count(*) from pg_stat_activity where application_name like 'loader %'").fetchone()
    return int(row[0]) if row else 0


def _written(pid: int) -> int | None:
    try:
        match = re.search(r"^write_bytes: (\d+)$", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def _size(folder: str) -> int:
    total = 0
    for path in Path(folder).rglob("*"):
        try:
            total += path.lstat().st_size if not path.is_dir() else 0
        except OSError:
            continue  # gone between the listing and the look: that is what temporary files do
    return total


def series(
    samples: Sequence[Mapping[str, float]], bounds: Mapping[str, float] = BOUNDS
) -> dict[str, dict[str, float | bool | str]]:
    """Of each figure: first, last, least, most, and once the worker is warm its slope with error and verdict.

    `bounds` are the growths an hour that do not matter. Raises LoaderError for too few samples."""
    kept = samples[int(len(samples) * _WARM) :]
    if len(kept) < 3:
        raise LoaderError(f"{len(samples)} samples are too few for a slope: measure for longer")
    times = [sample["time"] for sample in kept]
    result: dict[str, dict[str, float | bool | str]] = {}
    for name in kept[0]:
        if name == "time":
            continue
        values = [sample[name] for sample in kept]
        found = slope_of_means(times, values)
        verdict = found.verdict(bounds[name] / 3600)
        result[name] = {
            "first": values[0],
            "last": values[-1],
            "least": min(values),
            "most": max(values),
            "slope_per_hour": round(found.value * 3600, 3),
            "slope_error_per_hour": round(found.error * 3600, 3),
            "bound_per_hour": bounds[name],
            "verdict": verdict,
            "flat": verdict in ("flat", "small"),
        }
    return result
