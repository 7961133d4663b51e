"""`bench run`: a worker process end to end, beside the baseline worker, beside pulling alone and COPY alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import psycopg

from loader.bench.ceiling import CopyAlone, shares, starts
from loader.bench.children import Drained, drain
from loader.bench.messages import TABLE_KEY, bodies
from loader.bench.pubsub import backlog, pubsub
from loader.bench.stock import BUNDLE, StockPipeline
from loader.bench.target import Target, prepared_target
from loader.errors import LoaderError

GOAL_MICROS = {"memory": 15.0, "official": 25.0}
GOAL_RATIO = 7.0
GOAL_RATE = 30_000
FEWEST = 100_000
"""Messages from which on a rate says something: five bundles."""
_STREAMS = {"memory": 1, "official": 8}  # the emulator paces each stream at about 2,000 messages a second
_CEILINGS = ("pull_and_ack_only", "copy_of_prepared_rows")
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Parameters of a run; they are part of its record."""

    shape: str = "flat"
    messages: int = 300_000
    stock_messages: int = 20_000
    repetitions: int = 3
    prefill: int = 1_000_000
    servers: tuple[str, ...] = ("memory",)
    window_seconds: float = 5.0
    stock: bool = True


class _Backlogs:
    """Backlogs of bodies that no subscription had yet."""

    def __init__(self, shape: str, endpoint: str) -> None:
        self._shape, self._endpoint, self._next = shape, endpoint, 10_000_000

    def fresh(self, count: int) -> str:
        self._next += count
        return backlog(self._endpoint, bodies(self._shape, count, self._next - count))


def run_end_to_end(
    url: str, server_pid: int | None, plan: RunPlan, note: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measure on each Pub/Sub server. The record's `results`."""
    note(f"preparing tables of {plan.prefill:,} rows")
    target, _ = prepared_target(url, plan.shape, plan.prefill)
    dataset = f"bench_stock_{plan.shape}"
    if plan.stock:
        stock = StockPipeline(url, dataset)
        stock.prepare(list(bodies(plan.shape, 1_000)), plan.prefill)
        stock.close()
    fresh = starts()
    try:
        return {kind: _measure(url, server_pid, kind, plan, target, fresh, dataset, note) for kind in plan.servers}
    finally:
        target.close()


def _measure(
    url: str,
    server_pid: int | None,
    kind: str,
    plan: RunPlan,
    target: Target,
    fresh: Iterator[int],
    stock_dataset: str,
    note: Callable[[str], None],
) -> dict[str, Any]:
    ours: list[Drained] = []
    theirs: list[Drained] = []
    pulls: list[Drained] = []
    copies = CopyAlone(target, plan.shape, server_pid, fresh, plan.messages)
    streams = _STREAMS[kind]
    with pubsub(kind) as (endpoint, version):
        backlogs = _Backlogs(plan.shape, endpoint)
        host = {"PUBSUB_EMULATOR_HOST": endpoint}
        for number in range(plan.repetitions):
            note(f"{kind}: repetition {number + 1} of {plan.repetitions}")
            subscription = backlogs.fresh(plan.messages)
            before = _events(url, target.dataset)
            ours.append(
                drain(
                    ["-m", "loader", "run"],
                    worker_environment(url, target.dataset, subscription, streams, plan.window_seconds) | host,
                    plan.messages,
                    _SECONDS,
                    server_pid,
                )
            )
            loaded = _events(url, target.dataset) - before
            if loaded != plan.messages:
                raise LoaderError(f"{plan.messages:,} messages were published and {loaded:,} events loaded")
            subscription = backlogs.fresh(plan.messages)
            pulls.append(
                drain(["-m", "loader.bench.pulling", subscription, str(streams)], host, plan.messages, _SECONDS, None)
            )
            copies.run()
            if plan.stock:
                subscription = backlogs.fresh(plan.stock_messages)
                arguments = [subscription, url, stock_dataset, str(plan.window_seconds), str(BUNDLE)]
                theirs.append(
                    drain(
                        ["-m", "loader.bench.convenience", *arguments], host, plan.stock_messages, _SECONDS, server_pid
                    )
                )
    result: dict[str, Any] = {
        "pubsub": version,
        "streams": streams,
        "loader": summary(ours),
        "pull_and_ack_only": summary(pulls),
        "copy_of_prepared_rows": copies.summary(),
    }
    result["share_of_ceilings"] = shares(*(result[name] for name in ("loader", *_CEILINGS)))
    if theirs:
        result["baseline"] = summary(theirs)
        result["times_less_cpu_than_baseline"] = round(
            result["baseline"]["cpu_us_per_message"] / result["loader"]["cpu_us_per_message"], 2
        )
    return result


def worker_environment(
    url: str, dataset: str, subscription: str, streams: int, window_seconds: float
) -> dict[str, str]:
    """Settings of a worker under measurement; all others are the defaults."""
    return {
        "LOADER_SUBSCRIPTION": subscription,
        "LOADER_DATABASE_URL": url,
        "LOADER_DATASET": dataset,
        "LOADER_TABLE_KEY": TABLE_KEY,
        "LOADER_STREAMS": str(streams),
        "LOADER_WINDOW_SECONDS": str(window_seconds),
        "LOADER_HTTP_PORT": "0",
    }


def _events(url: str, dataset: str) -> int:
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute(
            psycopg.sql.SQL("select coalesce(sum(event_count), 0) from {}._receipts").format(
                psycopg.sql.Identifier(dataset)
            )
        ).fetchone()
    return int(row[0]) if row else 0


def summary(drained: Sequence[Drained]) -> dict[str, Any]:
    """Medians over repetitions."""
    cpu = median(one.cpu_micros for one in drained)
    servers = [one.server / one.messages * 1e6 for one in drained if one.server is not None]
    peaks = [one.peak for one in drained if one.peak is not None]
    return {
        "repetitions": len(drained),
        "messages": drained[0].messages,
        "cpu_us_per_message": round(cpu, 2),
        "cpu_us_min": round(min(one.cpu_micros for one in drained), 2),
        "cpu_us_max": round(max(one.cpu_micros for one in drained), 2),
        "messages_per_second_one_core": round(1e6 / cpu) if cpu else None,
        "messages_per_second_wall": round(median(one.rate for one in drained)),
        "postgres_cpu_us_per_message": round(median(servers), 2) if servers else None,
        "peak_resident_mb": round(max(peaks) / 1e6, 1) if peaks else None,
    }
