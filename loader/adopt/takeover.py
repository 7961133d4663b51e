"""The takeover: one table after the other, what takes time first and without locks, then one short transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg

from loader.adopt.index import Connector, Progress, build
from loader.adopt.inventory import RootTable, read_roots
from loader.errors import LoaderError
from loader.learn.learner import Learner
from loader.message.message import Event, Message, Refused
from loader.plan.book import Book, PlanRules
from loader.plan.fitting import Source
from loader.settings.contract import SchemaContract

NAME = "loader adopt"
"""Stands in the schema log for the event that asked for the columns."""
_FIRST_LOCK_TIMEOUT_MS = 100
_LONGEST_LOCK_TIMEOUT_MS = 8_000
_LOCK_TRIES = 40
_MESSAGE = Message("", NAME, b"{}", {}, 0, 0)


class Takeover:
    """Takes over a dataset. Whatever was done stays done, so that it can be interrupted and run again."""

    def __init__(self, connector: Connector, dataset: str, rules: PlanRules) -> None:
        self._connector = connector
        self._dataset = dataset
        self._needed = Book({}, rules).root_columns()
        # The contract is about what messages bring; the loader's own columns are not asked about.
        self._learner = Learner(dataset, rules, SchemaContract(), NAME)

    def inventory(self, conn: psycopg.Connection[Any]) -> list[RootTable]:
        """The root tables as they are now."""
        return read_roots(conn, self._dataset, self._needed)

    def prepare(self, conn: psycopg.Connection[Any]) -> None:
        """Make the internal tables where they are missing."""
        self._learner.prepare(conn)

    def take(
        self, conn: psycopg.Connection[Any], table: RootTable, watch: Callable[[Progress], None], pause: float = 1.0
    ) -> None:
        """Give one table its index and its columns. Raises LoaderError naming what stands in the way.

        The columns are nullable and without a default, so Postgres adds them without touching a row; each try waits
        for the table's lock a little longer than the one before, and lets others through in between.
        """
        if not table.keyed:
            build(self._connector, self._dataset, table, watch)
        # As if an event without any field came: learning adds what every root table needs, and records it.
        event = Event(_MESSAGE, NAME, 0, table.name, {})
        timeout = _FIRST_LOCK_TIMEOUT_MS
        for _ in range(_LOCK_TRIES):
            try:
                self._learner.learn(conn, [event], Source(_empty, _empty), timeout)
                return
            except psycopg.errors.LockNotAvailable:
                watch(Progress(table.name, "waiting for the table's lock", 0, 0))
                timeout = min(timeout * 2, _LONGEST_LOCK_TIMEOUT_MS)
                time.sleep(min(pause, timeout / 1000))
        raise LoaderError(
            f"{self._dataset}.{table.name} was locked by others all the time: see pg_locks for who holds it, "
            "end that transaction, and run this again"
        )


def _empty(event: Event) -> dict[str, Any]:
    raise Refused("not found again", f"event {event.identity!r} has no record")
