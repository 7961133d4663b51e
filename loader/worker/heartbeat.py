"""The row of `_workers` by which `loader status` sees this process: written by the loading thread, between loads.

It uses the lane's own connection, so a fleet needs no more of them, and costs one small statement each 15 s."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import psycopg
from psycopg import sql

from loader import __version__
from loader.database.sqlstate import is_outage
from loader.worker.lane import Lane

log = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
FIRST_SECONDS = 3.0
"""The first beat opens the connection and may make the tables: not while a fresh worker takes its first messages, which
would be given back should it be stopped at that moment."""

_BEAT = """
insert into {table} (worker, subscription, loader_version, messages_held, alert)
values (%s, %s, %s, %s, %s)
on conflict (worker) do update
set seen_at = now(), messages_held = excluded.messages_held, alert = excluded.alert
"""
# Spot machines come and go under new names; without this the table would grow where nobody prunes.
_FORGET = "delete from {table} where seen_at < now() - interval '7 days'"
_GONE = "delete from {table} where worker = %s"


class Heartbeat:
    """For one thread. `clock` is monotonic seconds."""

    def __init__(
        self, dataset: str, worker: str, subscription: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        table = sql.Identifier(dataset, "_workers")
        self._beat = sql.SQL(_BEAT).format(table=table)
        self._forget = sql.SQL(_FORGET).format(table=table)
        self._gone = sql.SQL(_GONE).format(table=table)
        self._worker = worker
        self._subscription = subscription
        self._clock = clock
        self._due = clock() + FIRST_SECONDS
        self._first = True
        self._visible = False
        self._told = ""

    def beat(self, lane: Lane, messages_held: Callable[[], int], alert: str | None) -> bool:
        """Write the row if it is due; True if it was written. One try: never waits for an outage to end, never raises
        psycopg.Error, for a worker that cannot be seen still loads."""
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + BEAT_SECONDS
        try:
            conn = lane.connection()
            try:
                self._write(conn, messages_held(), alert)
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                lane.learner.prepare(conn)
                self._write(conn, messages_held(), alert)
        except psycopg.Error as error:
            self._visible = False
            self._failed(lane, error)
            return False
        self._visible = True
        lane.health.database_works()
        return True

    def leave(self, lane: Lane) -> None:
        """The worker stops as it was told to: its row goes. One that was killed leaves its row to grow old."""
        if not self._visible:
            return  # it has no row, or the database is out: a stop is not held up for this
        try:
            lane.connection().execute(self._gone, (self._worker,))
        except psycopg.Error as error:
            log.warning("the row of this worker stays in _workers: %s", " ".join(str(error).split()))

    def _write(self, conn: psycopg.Connection, messages_held: int, alert: str | None) -> None:
        conn.execute(self._beat, (self._worker, self._subscription, __version__, messages_held, alert))
        if self._first:
            conn.execute(self._forget)
            self._first = False

    def _failed(self, lane: Lane, error: psycopg.Error) -> None:
        if is_outage(error):
            lane.health.database_failed(error)
            return
        text = " ".join(str(error).split())
        if text != self._told:
            self._told = text
            log.warning("loader status cannot see this worker: %s", text)
