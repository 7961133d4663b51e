"""What the receipts say about a replay: how many events there are, and how fast the fleet has been. Reading only."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

_EVENTS = """
select coalesce(sum(event_count), 0)::bigint from {receipts} where newest_published_at >= %s
"""
# What earlier backfills loaded again has receipts of both times.
_AGAIN = """
select coalesce(sum(p.events_new + p.events_rewritten), 0)::bigint
from {progress} p join {backfills} b using (backfill_id) where b.ordered_at >= %s and not b.aside
"""
# The best minute of a day: while it catches up, a fleet runs at its limit.
_RATE = """
select max(events)::float8 / 60 from (
    select sum(event_count + duplicate_count) as events from {receipts}
    where committed_at > now() - interval '1 day' group by date_trunc('minute', committed_at)) minutes
"""
_TABLES = """
select table_name from {receipts} where table_name <> '' and newest_published_at is not null
union select table_name from {log}
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """About so much; None where nothing is known."""

    events: int | None
    rate: float | None
    """Events a second that this dataset's workers have loaded at their best."""

    @property
    def seconds(self) -> float | None:
        """How long a replay takes."""
        if self.events is None or not self.rate:
            return None
        return self.events / self.rate


def estimate(conn: psycopg.Connection[Any], dataset: str, since: datetime.datetime) -> Estimate:
    """Of a replay of all that was published since. Raises psycopg.Error."""
    receipts = sql.Identifier(dataset, "_receipts")
    if not _there(conn, receipts):
        return Estimate(None, None)
    events = _number(conn, sql.SQL(_EVENTS).format(receipts=receipts), since)
    progress, backfills = sql.Identifier(dataset, "_backfill_progress"), sql.Identifier(dataset, "_backfills")
    if _there(conn, progress):
        events -= _number(conn, sql.SQL(_AGAIN).format(progress=progress, backfills=backfills), since)
    rate = conn.execute(sql.SQL(_RATE).format(receipts=receipts)).fetchone()
    return Estimate(max(0, events), rate[0] if rate else None)


def known_tables(conn: psycopg.Connection[Any], dataset: str) -> set[str]:
    """Tables that the dataset has or had: one that was dropped can be brought back. Raises psycopg.Error."""
    receipts, log = sql.Identifier(dataset, "_receipts"), sql.Identifier(dataset, "_schema_log")
    found: set[str] = set()
    if _there(conn, receipts) and _there(conn, log):
        found = {row[0] for row in conn.execute(sql.SQL(_TABLES).format(receipts=receipts, log=log))}
    there = "select tablename from pg_catalog.pg_tables where schemaname = %s and left(tablename, 1) <> '_'"
    return found | {row[0] for row in conn.execute(there, (dataset,))}


def _number(conn: psycopg.Connection[Any], query: sql.Composed, since: datetime.datetime) -> int:
    row = conn.execute(query, (since,)).fetchone()
    return int(row[0]) if row else 0


def _there(conn: psycopg.Connection[Any], table: sql.Identifier) -> bool:
    row = conn.execute("select to_regclass(%s)", (table.as_string(conn),)).fetchone()
    return row is not None and row[0] is not None
