"""The tables `_backfills` and `_backfill_progress`, as the command sees them. Every method raises psycopg.Error."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

_COLUMNS = (
    "backfill_id, request, subscription, aside, since, until, tables, replace, safety_snapshot, estimated_events,"
    " ordered_at, sought_at, position, rows_read, rows_filled, ended_at, outcome"
)
_PROGRESS = """
select coalesce(sum(messages), 0)::bigint, coalesce(sum(events_new), 0)::bigint, coalesce(sum(rows_new), 0)::bigint,
       coalesce(sum(events_there), 0)::bigint, coalesce(sum(events_rewritten), 0)::bigint,
       coalesce(sum(events_skipped), 0)::bigint, coalesce(sum(dead_letters), 0)::bigint,
       coalesce(sum(waiting) filter (where seen_at > now() - interval '10 seconds'), 0)::bigint,
       extract(epoch from now() - max(replayed_at))::float8,
       coalesce(extract(epoch from now() - min(last_seen)), 0)::float8,
       count(distinct worker)
from (select *, max(seen_at) over (partition by worker) as last_seen from {progress} where backfill_id = %s) workers
"""
_ALIVE = "select count(*) from {workers} where subscription = %s and seen_at > now() - interval '45 seconds'"


@dataclass(frozen=True, slots=True)
class Backfill:
    """One row of `_backfills`."""

    backfill_id: str
    request: Mapping[str, Any]
    subscription: str | None
    """The one whose messages the order is about: of its own for a replay aside."""
    aside: bool
    since: datetime.datetime | None
    until: datetime.datetime | None
    tables: list[str] | None
    replace: bool
    safety_snapshot: str | None
    estimated_events: int | None
    ordered_at: datetime.datetime
    sought_at: datetime.datetime | None
    position: str | None
    rows_read: int
    rows_filled: int
    ended_at: datetime.datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """What all workers have done of an order."""

    messages: int
    events_new: int
    rows_new: int
    events_there: int
    events_rewritten: int
    events_skipped: int
    dead_letters: int
    waiting: int
    """Events that wait in workers to be learned or to be tried again."""
    quiet: float | None
    """Seconds since messages of the replay were settled last; None when none were yet."""
    unheard: float
    """Seconds since the worker that has been silent longest told of itself; 0 when none has told anything."""
    workers: int
    """Workers that took part."""

    @property
    def events(self) -> int:
        """Events of the replay of which it is known what became of them."""
        done = self.events_new + self.events_there + self.events_rewritten
        return done + self.events_skipped + self.dead_letters


class BackfillStore:
    """For one dataset; `conn` is in autocommit mode."""

    def __init__(self, conn: psycopg.Connection[Any], dataset: str) -> None:
        self._conn = conn
        self._backfills = sql.Identifier(dataset, "_backfills")
        self._progress = sql.Identifier(dataset, "_backfill_progress")
        self._workers = sql.Identifier(dataset, "_workers")

    @property
    def exists(self) -> bool:
        """False in a dataset that no loader has prepared yet."""
        row = self._conn.execute("select to_regclass(%s)", (self._backfills.as_string(self._conn),)).fetchone()
        return row is not None and row[0] is not None

    def open(self, live: str | None) -> list[Backfill]:
        """Those that have not ended: of the live subscription and aside of it, or (None) from a raw column."""
        query = (
            "select {columns} from {table} where ended_at is null"
            " and (subscription = %(live)s or request->>'live' = %(live)s"
            " or (subscription is null and %(live)s::text is null)) order by ordered_at"
        )
        return self._read(query, {"live": live})

    def get(self, backfill_id: str) -> Backfill:
        """The one with this id."""
        [found] = self._read("select {columns} from {table} where backfill_id = %(id)s", {"id": backfill_id})
        return found

    def insert(self, backfill_id: str, request: Mapping[str, Any], **values: Any) -> None:
        """A new row; `values` are columns. Raises psycopg.errors.UniqueViolation when the subscription has an order."""
        values = {"backfill_id": backfill_id, "request": Jsonb(request), **values}
        query = sql.SQL("insert into {} ({}) values ({})").format(
            self._backfills,
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join([sql.Placeholder()] * len(values)),
        )
        self._conn.execute(query, list(values.values()))

    def sought(self, backfill_id: str) -> None:
        """The seek was answered."""
        query = sql.SQL("update {} set sought_at = now() where backfill_id = %s").format(self._backfills)
        self._conn.execute(query, (backfill_id,))

    def advance(self, backfill_id: str, position: str, read: int, filled: int) -> None:
        """How far a refill has come; to be called in the transaction that fills."""
        query = sql.SQL(
            "update {} set position = %s, rows_read = rows_read + %s, rows_filled = rows_filled + %s"
            " where backfill_id = %s"
        ).format(self._backfills)
        self._conn.execute(query, (position, read, filled, backfill_id))

    def end(self, backfill_id: str, outcome: str) -> None:
        """The order is not in force any more."""
        query = sql.SQL(
            "update {} set ended_at = now(), outcome = %s where backfill_id = %s and ended_at is null"
        ).format(self._backfills)
        self._conn.execute(query, (outcome, backfill_id))

    def progress(self, backfill_id: str) -> Progress:
        """What has been done so far."""
        query = sql.SQL(_PROGRESS).format(progress=self._progress)
        row = self._conn.execute(query, (backfill_id,)).fetchone()
        assert row is not None
        return Progress(*row)

    def alive(self, subscription: str) -> int:
        """Worker processes that were seen on the subscription within 45 seconds."""
        row = self._conn.execute(sql.SQL(_ALIVE).format(workers=self._workers), (subscription,)).fetchone()
        return int(row[0]) if row else 0

    def now(self) -> datetime.datetime:
        """The database's clock."""
        row = self._conn.execute("select now()").fetchone()
        assert row is not None
        found: datetime.datetime = row[0]
        return found

    def _read(self, query: str, values: Mapping[str, Any]) -> list[Backfill]:
        composed = sql.SQL(query).format(columns=sql.SQL(_COLUMNS), table=self._backfills)  # type: ignore[arg-type]
        with self._conn.cursor(row_factory=class_row(Backfill)) as cursor:
            return cursor.execute(composed, values).fetchall()
