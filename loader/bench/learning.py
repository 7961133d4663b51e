"""How long learning takes: one new column in a small schema, and in one of thousands of columns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from loader.bench.messages import TABLE_KEY
from loader.bench.target import Target
from loader.message.message import Message

_COLUMNS_A_TABLE = 380
_LOCK_TIMEOUT_MS = 10_000


def learning_seconds(url: str, columns: int, repetitions: int) -> dict[str, float | int]:
    """Median seconds to learn one column in a schema of about `columns` columns; and to learn that schema at once."""
    target = Target(url, f"bench_learn_{columns}")
    try:
        numbers = iter(range(10**9))
        tables = max(1, round(columns / _COLUMNS_A_TABLE))
        keys = min(columns, _COLUMNS_A_TABLE)

        def message(record: dict[str, Any]) -> Message:
            number = next(numbers)
            return Message(f"ack-{number}", f"learn-{number}", json.dumps(record).encode(), {}, 1, 0)

        first = [
            message({TABLE_KEY: f"table_{table}", **{f"column_{key}": key for key in range(keys)}})
            for table in range(tables)
        ]
        whole = _timed(lambda: _learn(target, first))
        one = [
            _timed(lambda new=[message({TABLE_KEY: "table_0", f"late_{number}": 1})]: _learn(target, new))  # type: ignore[misc]
            for number in range(repetitions)
        ]
        snapshot = target.parts.learner.read(target.conn)
        return {
            "columns": sum(len(table.columns) for table in snapshot.tables.values()),
            "tables": len(snapshot.tables),
            "whole_schema_seconds": round(whole, 4),
            "one_column_seconds": round(median(one), 4),
            "one_column_seconds_max": round(max(one), 4),
        }
    finally:
        target.close()


def _learn(target: Target, batch: Sequence[Message]) -> None:
    events = list(target.intake.events(batch))
    snapshot, lesson = target.parts.learner.learn(target.conn, events, target.intake.source, _LOCK_TIMEOUT_MS)
    assert lesson.additions, "the benchmark asked for nothing new"
    target.lane.offer(snapshot)


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
