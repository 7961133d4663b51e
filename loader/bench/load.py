"""`bench load`: raw JSON bytes to committed rows, ours beside stock dlt and beside COPY of prepared rows."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from loader.bench.learning import learning_seconds
from loader.bench.measure import Cost, measure, summary
from loader.bench.messages import bodies, messages
from loader.bench.steps import copy_prepared, fitted_bundle, profile, steps
from loader.bench.stock import BUNDLE, StockPipeline
from loader.bench.target import Target, prepared_target, uncollected
from loader.message.message import Message

GOAL_ROWS_PER_SECOND = 80_000
GOAL_RATIO = 6.0


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Parameters of a run; they are part of its record."""

    shapes: tuple[str, ...] = ("flat", "nested", "lists", "mixed")
    bundle: int = 20_000
    repetitions: int = 5
    prefill: int = 1_000_000
    learning_columns: tuple[int, ...] = (20, 11_000)
    stock: bool = True


def run_load(
    url: str, server_pid: int | None, plan: LoadPlan, note: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measure each shape, then learning. The record's `results`."""
    shapes = {}
    for shape in plan.shapes:
        note(f"{shape}: preparing tables of {plan.prefill:,} rows")
        shapes[shape] = _measure_shape(url, server_pid, shape, plan, note)
    learning = []
    for columns in plan.learning_columns:
        note(f"learning: a schema of {columns:,} columns")
        learning.append(learning_seconds(url, columns, max(3, plan.repetitions)))
    return {"shapes": shapes, "learning": learning}


class _Fresh:
    """Messages that were never loaded before, made outside the measured time."""

    def __init__(self, shape: str, start: int) -> None:
        self._shape = shape
        self._next = start

    def messages(self, count: int) -> list[Message]:
        self._next += count
        return messages(self._shape, count, self._next - count)

    def bodies(self, count: int) -> list[bytes]:
        self._next += count
        return list(bodies(self._shape, count, self._next - count))


def _measure_shape(
    url: str, server_pid: int | None, shape: str, plan: LoadPlan, note: Callable[[str], None]
) -> dict[str, Any]:
    target, numbers = prepared_target(url, shape, plan.prefill)
    fresh = _Fresh(shape, next(numbers))
    stock = StockPipeline(url, f"bench_stock_{shape}") if plan.stock else None
    try:
        if stock is not None:
            stock.prepare(fresh.bodies(1_000), plan.prefill)
        target.load(fresh.messages(plan.bundle))  # warm: plans are filled, caches are warm
        ours: list[Cost] = []
        theirs: list[Cost] = []
        ceiling: list[Cost] = []
        for number in range(plan.repetitions):
            note(f"{shape}: repetition {number + 1} of {plan.repetitions}")
            ours.append(_ours(target, fresh, plan.bundle, server_pid))
            ceiling.append(_ceiling(target, fresh, plan.bundle, server_pid))
            if stock is not None:
                theirs.append(_stock(stock, fresh, server_pid, ours[-1]))
        result: dict[str, Any] = {"loader": summary(ours), "copy_of_prepared_rows": summary(ceiling)}
        cpu = result["loader"]["cpu_us_per_message"]
        if theirs:
            result["stock_dlt"] = summary(theirs)
            result["times_less_cpu_than_stock"] = round(result["stock_dlt"]["cpu_us_per_message"] / cpu, 2)
        result["share_of_ceiling"] = round(
            result["loader"]["messages_per_second_wall"] / result["copy_of_prepared_rows"]["messages_per_second_wall"],
            3,
        )
        result["body_bytes"] = len(fresh.bodies(1)[0])
        result["steps_us_per_message"] = steps(target, lambda: fresh.messages(plan.bundle), plan.repetitions)
        return result
    finally:
        if stock is not None:
            stock.close()
        target.close()


def _ours(target: Target, fresh: _Fresh, count: int, server_pid: int | None) -> Cost:
    batch = fresh.messages(count)

    def work() -> int:
        before = target.rows
        target.load(batch)
        return target.rows - before

    with uncollected():
        return measure(work, count, server_pid)


def _ceiling(target: Target, fresh: _Fresh, count: int, server_pid: int | None) -> Cost:
    with uncollected():
        fitted = fitted_bundle(target, fresh.messages(count))
        return measure(lambda: copy_prepared(target.conn, target.dataset, fitted), count, server_pid)


def _stock(stock: StockPipeline, fresh: _Fresh, server_pid: int | None, like: Cost) -> Cost:
    batch = fresh.bodies(BUNDLE)
    gc.collect()

    def work() -> int:
        stock.run(batch)
        return round(BUNDLE * like.rows / like.messages)

    return measure(work, BUNDLE, server_pid)


def run_profile(url: str, shape: str, bundle: int, prefill: int) -> Iterator[str]:
    """cProfile of one load, as text."""
    target, numbers = prepared_target(url, shape, prefill)
    try:
        fresh = _Fresh(shape, next(numbers))
        target.load(fresh.messages(bundle))
        yield profile(target, fresh.messages(bundle))
    finally:
        target.close()
