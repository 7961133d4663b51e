"""Where the CPU of a load goes, step by step. Each step is measured on its own, over the same messages, so the sum
differs a little from the whole: it is a guide for optimising, not a result."""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import orjson
import psycopg

from loader.bench.target import Target, uncollected
from loader.copy.statement import Statements
from loader.message.identity import digest, dlt_id
from loader.message.message import Message
from loader.plan import fitting
from loader.plan.fitting import Fitted, fit_events
from loader.plan.timestamp import from_micros

Clock = Callable[[], float]


def copy_prepared(conn: psycopg.Connection, dataset: str, fitted: Fitted) -> int:
    """The ceiling of loading: COPY rows that are ready, and commit; nothing else. Returns the rows."""
    statements = Statements(dataset)
    rows = 0
    with conn.transaction(), conn.cursor() as cursor:
        for name in sorted(fitted.tables):
            table = fitted.tables[name]
            with cursor.copy(statements.copy(table.plan)) as copy:
                write_row = copy.write_row
                for row in table.rows:
                    write_row(row)
            rows += len(table.rows)
    return rows


def fitted_bundle(target: Target, batch: Sequence[Message]) -> Fitted:
    """A bundle's rows, ready for COPY."""
    book = target.lane._current_book(target.conn)
    return fit_events(book, target.intake.events(batch), target.parts._load_ids.next(), target.intake.source)


def steps(target: Target, fresh: Callable[[], list[Message]], repetitions: int) -> dict[str, float]:
    """CPU of each step of a load, µs a message, medians. `fresh` gives messages that no load had yet."""
    found: dict[str, list[float]] = {}
    for _ in range(repetitions):
        batch = fresh()
        with uncollected():
            for name, seconds in _once(target, batch).items():
                found.setdefault(name, []).append(seconds / len(batch) * 1e6)
        gc.collect()
    return {name: round(median(values), 3) for name, values in found.items()}


def _once(target: Target, batch: list[Message]) -> dict[str, float]:
    spent: dict[str, float] = {}
    events: list[Any] = []

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.thread_time()
        result = work()
        spent[name] = time.thread_time() - start
        return result

    loads = orjson.loads
    timed("  parse (orjson)", lambda: [loads(message.data) and None for message in batch])
    timed("  digest", lambda: [digest(message.data) and None for message in batch])
    timed("decode", lambda: events.extend(target.intake.events(batch)))
    timed("  row id", lambda: [dlt_id(message.message_id) and None for message in batch])
    timed("  publish time", lambda: [from_micros(message.published) and None for message in batch])
    book = target.lane._current_book(target.conn)
    fitted = timed(
        "fit and sort", lambda: fit_events(book, events, target.parts._load_ids.next(), target.intake.source)
    )
    timed("  sort", lambda: fitting._sort(fitted))
    statements = Statements(target.dataset)
    conn = target.conn
    with conn.cursor() as cursor:
        conn.execute("begin")

        def send() -> None:
            for name in sorted(fitted.tables):
                table = fitted.tables[name]
                with cursor.copy(statements.copy(table.plan)) as copy:
                    write_row = copy.write_row
                    for row in table.rows:
                        write_row(row)

        timed("COPY encode and send", send)
        timed("commit", lambda: conn.execute("commit"))
    return spent


def profile(target: Target, batch: list[Message], lines: int = 40) -> str:
    """cProfile's table of one load, by own time. It makes calls dearer than they are: read it for what is called."""
    profiler = cProfile.Profile()
    with uncollected():
        profiler.runcall(target.load, batch)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(lines)
    return text.getvalue()
