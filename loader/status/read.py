"""Reads the picture from the database: one read-only transaction, so that its parts agree, with limits of time.

Receipts are found by load id, which begins with the second of the load and has an index; a fleet may write millions
of them a day."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg
from psycopg import sql

from loader.database.connection import set_local
from loader.database.rows import row_counts
from loader.status.ages import Span, percentile
from loader.status.picture import (
    HISTORY_MINUTES,
    SEEN_SECONDS,
    WINDOW_MINUTES,
    ColumnAdded,
    LetterStatus,
    LoadStatus,
    Minute,
    Picture,
    TableStatus,
    WorkerStatus,
)

_STATEMENT_MS = 15_000
_LAST_LOADS_MS = 3_000
_SLACK_SECONDS = 3_600
"""A load's id is older than its commit by the time that it waited for the database, and made by another clock."""
_MOST_LOADS = 10

_TABLES = """
select c.oid::bigint, c.relname::text, pg_total_relation_size(c.oid)
from pg_catalog.pg_class c
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)
  and c.relkind in ('r', 'p') and not c.relispartition and left(c.relname, 1) <> '_'
order by c.relname
"""
_VERSION = (
    "select schema_name, version, inserted_at from {}._dlt_version order by version desc, inserted_at desc limit 1"
)
_LAST_LOADS = """
select table_name, max(load_id), max(committed_at) from {}._receipts
where load_id >= %s and table_name <> '' group by 1
"""
_ROWS = """
select table_name, sum(row_count)::bigint from {}._receipts
where load_id >= %s and committed_at > now() - make_interval(mins => %s) and table_name <> '' group by 1
"""
_AGES = """
select table_name, round(greatest(extract(epoch from committed_at - newest_published_at), 0), 1)::float,
       round(greatest(extract(epoch from committed_at - oldest_published_at), 0), 1)::float, sum(event_count)::bigint
from {}._receipts
where load_id >= %s and committed_at > now() - make_interval(mins => %s) and oldest_published_at is not null
group by 1, 2, 3
"""
_HISTORY = """
select date_trunc('minute', committed_at), sum(row_count)::bigint,
       greatest(max(extract(epoch from committed_at - oldest_published_at)), 0)::float
from {}._receipts
where load_id >= %s and committed_at > now() - make_interval(mins => %s) group by 1 order by 1
"""
_LOADS = """
select load_id, max(committed_at), count(*) filter (where table_name <> ''), sum(row_count)::bigint,
       sum(event_count)::bigint, sum(duplicate_count)::bigint, sum(dead_letter_count)::bigint,
       greatest(max(extract(epoch from committed_at - oldest_published_at)), 0)::float, min(worker)
from (select * from {}._receipts order by load_id desc limit 1000) newest
group by load_id order by load_id desc limit %s
"""
_LETTERS = """
select reason, table_name, count(*), max(created_at) from {}._dead_letters
where resolved_at is null group by 1, 2 order by 3 desc, 1, 2 limit 100
"""
_WORKERS = """
select worker, subscription, loader_version, started_at, seen_at, messages_held, alert from {}._workers
where seen_at > now() - make_interval(secs => %s) order by worker
"""
_CHANGES = """
select added_at, table_name, column_name, data_type, is_variant, new_table, first_event_id, worker, schema_version
from {}._schema_log where {} order by entry_id desc limit %s
"""


def read_picture(conn: psycopg.Connection[Any], dataset: str, *, changes: int = 20) -> Picture:
    """The picture of a dataset as of now. `conn` is in autocommit mode. Raises psycopg.Error, UndefinedTable where the
    dataset is none of the loader's."""
    with conn.transaction():
        # Snapshot and mode of this transaction only: the connection may come from a pooler.
        conn.execute("set transaction isolation level repeatable read, read only")
        set_local(conn, statement_timeout_ms=_STATEMENT_MS)
        now = _one(conn, "select now()")[0]
        name, version, changed_at = conn.execute(_in(dataset, _VERSION)).fetchone() or (None, None, None)
        return Picture(
            dataset,
            now,
            name,
            version,
            changed_at,
            tables=_tables(conn, dataset, now),
            loads=[LoadStatus(*row) for row in conn.execute(_in(dataset, _LOADS), (_MOST_LOADS,))],
            letters=[LetterStatus(*row) for row in conn.execute(_in(dataset, _LETTERS))],
            workers=_workers(conn, dataset),
            changes=_log(conn, dataset, None, changes),
            history=[
                Minute(*row)
                for row in conn.execute(_in(dataset, _HISTORY), (_since(now, HISTORY_MINUTES), HISTORY_MINUTES))
            ],
        )


def read_schema_log(
    conn: psycopg.Connection[Any],
    dataset: str,
    table: str | None = None,
    since: datetime.datetime | None = None,
    limit: int = 50,
) -> list[ColumnAdded]:
    """Columns that were added, the newest first. Raises psycopg.Error."""
    return _log(conn, dataset, table, limit, since)


def load_id_at(moment: datetime.datetime) -> str:
    """Load ids of loads that began later sort after this one."""
    return f"{moment.timestamp():.6f}"


def _tables(conn: psycopg.Connection[Any], dataset: str, now: datetime.datetime) -> list[TableStatus]:
    window = (_since(now, WINDOW_MINUTES), WINDOW_MINUTES)
    rows = dict(conn.execute(_in(dataset, _ROWS), window).fetchall())
    spans: dict[str, list[Span]] = {}
    for table, youngest, oldest, events in conn.execute(_in(dataset, _AGES), window):
        spans.setdefault(table, []).append((youngest, oldest, events))
    last = _last_loads(conn, dataset, now)
    tables = conn.execute(_TABLES, (dataset,)).fetchall()
    counts = row_counts(conn, dataset, [oid for oid, _, _ in tables])
    return [
        TableStatus(
            name,
            counts.get(oid, 0),
            size,
            rows.get(name, 0) / WINDOW_MINUTES,
            percentile(spans.get(name, ()), 0.5),
            percentile(spans.get(name, ()), 0.99),
            *last.get(name, (None, None)),
        )
        for oid, name, size in tables
    ]


def _last_loads(
    conn: psycopg.Connection[Any], dataset: str, now: datetime.datetime
) -> dict[str, tuple[str, datetime.datetime]]:
    """Of the last day; where a fleet writes too many receipts for that, of the last hour."""
    for minutes in (24 * 60, HISTORY_MINUTES):
        try:
            with conn.transaction():
                set_local(conn, statement_timeout_ms=_LAST_LOADS_MS)
                found = conn.execute(_in(dataset, _LAST_LOADS), (_since(now, minutes),)).fetchall()
                set_local(conn, statement_timeout_ms=_STATEMENT_MS)
        except psycopg.errors.QueryCanceled:
            continue
        return {table: (load_id, at) for table, load_id, at in found}
    return {}


def _workers(conn: psycopg.Connection[Any], dataset: str) -> list[WorkerStatus] | None:
    name = sql.Identifier(dataset, "_workers").as_string(conn)
    if _one(conn, "select to_regclass(%s)", (name,))[0] is None:
        return None
    return [WorkerStatus(*row) for row in conn.execute(_in(dataset, _WORKERS), (SEEN_SECONDS,))]


def _log(
    conn: psycopg.Connection[Any],
    dataset: str,
    table: str | None,
    limit: int,
    since: datetime.datetime | None = None,
) -> list[ColumnAdded]:
    conditions, values = [sql.SQL("true")], []
    for condition, value in (("table_name = %s", table), ("added_at >= %s", since)):
        if value is not None:
            conditions.append(sql.SQL(condition))
            values.append(value)
    query = sql.SQL(_CHANGES).format(sql.Identifier(dataset), sql.SQL(" and ").join(conditions))
    return [ColumnAdded(*row) for row in conn.execute(query, [*values, limit])]


def _since(now: datetime.datetime, minutes: int) -> str:
    return load_id_at(now - datetime.timedelta(minutes=minutes, seconds=_SLACK_SECONDS))


def _in(dataset: str, text: str) -> sql.Composed:
    return sql.SQL(text).format(sql.Identifier(dataset))  # type: ignore[arg-type]


def _one(conn: psycopg.Connection[Any], query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    row = conn.execute(query.encode(), values).fetchone()
    assert row is not None
    return row  # type: ignore[no-any-return]
