"""`bench latency`: how old messages are when their rows are committed, at steady rates and for several windows.

Both times are of one machine's clock: Pub/Sub's publish time, and the time that Postgres recorded for the commit of
each row (track_commit_timestamp). The worker's own figures are not asked."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import psycopg
from psycopg import sql

from loader.bench.children import Child
from loader.bench.cpu import process_seconds
from loader.bench.messages import bodies
from loader.bench.pubsub import fresh_subscription, pubsub
from loader.bench.run import worker_environment
from loader.bench.target import prepared_target
from loader.errors import ConfigurationError, LoaderError
from loader.publish import Publisher
from loader.pull.channel import Stub, open_channel

SETTINGS = {"track_commit_timestamp": "on"}
"""Of the Postgres server."""
GOAL_WINDOW_SECONDS = 5.0
GOAL_P99_SECONDS = 7.0
_SHAPE = "flat"
_WARM_SECONDS = 2.0
_TAIL_SECONDS = 1.0
_PATIENCE = 120.0
_DIFFERENT = 5_000

_AGES = """
with commits as (
    select xmin::text::bigint as id, pg_xact_commit_timestamp(xmin) as at
    from (select distinct on (xmin::text) xmin from {table}) each
)
select count(*), percentile_disc(0.5) within group (order by age), percentile_disc(0.99) within group (order by age),
       max(age), count(distinct id)
from (
    select commits.id, extract(epoch from commits.at - rows._published_at)::float8 as age
    from {table} rows join commits on commits.id = rows.xmin::text::bigint
    where rows._published_at >= %s and rows._published_at < %s
) ages
"""


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """Parameters of a run; they are part of its record."""

    rates: tuple[int, ...] = (100, 1_000, 10_000)
    windows: tuple[float, ...] = (0.5, 1.0, 5.0)
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One rate at one window. Ages in seconds, of the messages between the warming up and the tail."""

    window_seconds: float
    rate: int
    published_per_second: float
    """What the publisher really reached."""
    messages: int
    p50_age_seconds: float
    p99_age_seconds: float
    max_age_seconds: float
    commits: int
    worker_cpu_share: float
    """Of a core, over the whole cell."""


def run_latency(url: str, plan: LatencyPlan, note: Callable[[str], None] = lambda text: None) -> list[Cell]:
    """A worker process for each window, each rate in turn. Raises ConfigurationError for a server that records no
    commit times, LoaderError when a message is not loaded."""
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute("show track_commit_timestamp").fetchone()
        if row is None or row[0] != "on":
            raise ConfigurationError("bench latency reads the times of commits: set track_commit_timestamp = on")
        target, _ = prepared_target(url, _SHAPE, 0)
        dataset, (table,) = target.dataset, target.tables()
        target.close()
        cells = []
        with pubsub("memory") as (endpoint, _version):
            for window in plan.windows:
                topic, subscription = fresh_subscription(endpoint)
                environment = worker_environment(url, dataset, subscription, 1, window)
                with Child(["-m", "loader", "run"], environment | {"PUBSUB_EMULATOR_HOST": endpoint}) as child:
                    child.wait_ready()
                    published = 0
                    for rate in plan.rates:
                        note(f"{rate:,} messages a second, a window of {window:g} s, {plan.seconds:g} s")
                        conn.execute(sql.SQL("truncate {}").format(sql.Identifier(dataset, table)))
                        cell, sent = _cell(
                            conn, child, endpoint, topic, sql.Identifier(dataset, table), window, rate, plan, published
                        )
                        published += sent
                        cells.append(cell)
    return cells


def ages(
    conn: psycopg.Connection[Any], table: sql.Identifier, since: datetime.datetime, until: datetime.datetime
) -> tuple[int, float, float, float, int]:
    """Of the rows published in that time: how many, their ages' p50, p99 and greatest in seconds, and their commits.
    Raises LoaderError when there are none."""
    row = conn.execute(sql.SQL(_AGES).format(table=table), (since, until)).fetchone()
    if row is None or not row[0]:
        raise LoaderError(f"no rows were published from {since.isoformat()} to {until.isoformat()}: measure for longer")
    return row[0], row[1], row[2], row[3], row[4]


def _cell(
    conn: psycopg.Connection[Any],
    child: Child,
    endpoint: str,
    topic: str,
    table: sql.Identifier,
    window: float,
    rate: int,
    plan: LatencyPlan,
    before: int,
) -> tuple[Cell, int]:
    pool = cycle(list(bodies(_SHAPE, _DIFFERENT)))
    # The rate goes on for a window afterwards: what comes last waits longer than in a steady stream.
    parts = [round(rate * seconds) for seconds in (_WARM_SECONDS, plan.seconds, window + _TAIL_SECONDS)]
    count = sum(parts)
    bounds: list[datetime.datetime] = []

    def paced() -> Iterator[bytes]:
        for part in parts:
            yield from islice(pool, part)
            bounds.append(datetime.datetime.now(datetime.UTC))

    cpu, wall = process_seconds(child.pid), time.monotonic()
    channel = open_channel(endpoint)
    try:
        publisher = Publisher(Stub(channel), topic, rate=rate)
        publisher.publish(paced())
        sent = publisher.flush()
    finally:
        channel.close()
    child.wait_loaded(before + count, _PATIENCE)
    cpu, wall = process_seconds(child.pid) - cpu, time.monotonic() - wall
    stored = conn.execute(sql.SQL("select count(*) from {}").format(table)).fetchone()
    if stored is None or stored[0] != count:
        raise LoaderError(f"{count:,} messages were published and {stored[0] if stored else 0:,} rows are there")
    messages, p50, p99, most, commits = ages(conn, table, *bounds[:2])
    cell = Cell(
        window,
        rate,
        round(sent.messages / sent.seconds, 1),
        messages,
        round(p50, 3),
        round(p99, 3),
        round(most, 3),
        commits,
        round(cpu / wall, 4),
    )
    return cell, count
