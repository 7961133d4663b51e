"""What the receipts say about a replay: how many messages there are, and how fast the fleet has been. Reading only."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

_MESSAGES = """
select coalesce(sum(event_count), 0)::bigint from {receipts} where newest_published_at >= %s
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

    messages: int | None
    rate: float | None
    """Events a second that this dataset's workers have loaded at their best."""

    @property
    def seconds(self) -> float | None:
        """How long a replay takes."""
        if self.messages is None or not self.rate:
            return None
        return self.messages / self.rate


def estimate(conn: psycopg.Connection[Any], dataset: str, since: datetime.datetime) -> Estimate:
    """Of a replay of all that was published since. Raises psycopg.Error."""
    receipts = sql.Identifier(dataset, "_receipts")
    if not _there(conn, receipts):
        return Estimate(None, None)
    messages = conn.execute(sql.SQL(_MESSAGES).format(receipts=receipts), (since,)).fetchone()
    rate = conn.execute(sql.SQL(_RATE).format(receipts=receipts)).fetchone()
    return Estimate(messages[0] if messages else None, rate[0] if rate else None)


def known_tables(conn: psycopg.Connection[Any], dataset: str) -> set[str]:
    """Tables that the dataset has or had: one that was dropped can be brought back. Raises psycopg.Error."""
    receipts, log = sql.Identifier(dataset, "_receipts"), sql.Identifier(dataset, "_schema_log")
    found: set[str] = set()
    if _there(conn, receipts) and _there(conn, log):
        found = {row[0] for row in conn.execute(sql.SQL(_TABLES).format(receipts=receipts, log=log))}
    there = "select tablename from pg_catalog.pg_tables where schemaname = %s and left(tablename, 1) <> '_'"
    return found | {row[0] for row in conn.execute(there, (dataset,))}


def _there(conn: psycopg.Connection[Any], table: sql.Identifier) -> bool:
    row = conn.execute("select to_regclass(%s)", (table.as_string(conn),)).fetchone()
    return row is not None and row[0] is not None
