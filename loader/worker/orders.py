"""Orders of a backfill, as a worker follows them: read before each load, counted in the load's own transaction.

An order is committed before the seek that it is about, so whoever holds a replayed message reads the order, too."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from loader.backfill.order import Order
from loader.copy.bundle_load import BundleLoad
from loader.database.sqlstate import is_outage
from loader.message.message import Event

if TYPE_CHECKING:
    from loader.worker.lane import Lane

log = logging.getLogger(__name__)

REPORT_SECONDS = 1.0

_READ = """
select backfill_id, (extract(epoch from since) * 1000000)::bigint, (extract(epoch from until) * 1000000)::bigint,
       (extract(epoch from ordered_at) * 1000000)::bigint, (extract(epoch from settled_before) * 1000000)::bigint,
       tables, replace, aside
from {table} where subscription = %s and ended_at is null
"""
_COUNT = """
insert into {table} as p (backfill_id, worker, lane, messages, events_new, rows_new, events_there, events_rewritten,
                          events_skipped, dead_letters, replayed_at)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, now())
on conflict (backfill_id, worker, lane) do update
set messages = p.messages + excluded.messages, events_new = p.events_new + excluded.events_new,
    rows_new = p.rows_new + excluded.rows_new, events_there = p.events_there + excluded.events_there,
    events_rewritten = p.events_rewritten + excluded.events_rewritten,
    events_skipped = p.events_skipped + excluded.events_skipped,
    dead_letters = p.dead_letters + excluded.dead_letters, replayed_at = now(), seen_at = now()
"""
_REPORT = """
insert into {progress} as p (backfill_id, worker, lane, waiting)
select backfill_id, %s, %s, %s from {backfills} where backfill_id = %s and ended_at is null
on conflict (backfill_id, worker, lane) do update set waiting = excluded.waiting, seen_at = now()
"""


class Orders:
    """Of one subscription; shared by the lanes of a worker, each with its own connection."""

    def __init__(
        self, dataset: str, subscription: str, worker: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        backfills, progress = sql.Identifier(dataset, "_backfills"), sql.Identifier(dataset, "_backfill_progress")
        self._read = sql.SQL(_READ).format(table=backfills)
        self._count = sql.SQL(_COUNT).format(table=progress)
        self._report = sql.SQL(_REPORT).format(progress=progress, backfills=backfills)
        self._subscription = subscription
        self._worker = worker
        self._clock = clock
        self._followed: str | None = None
        self._due = 0.0

    def read(self, conn: psycopg.Connection[Any]) -> Order | None:
        """The order in force. Raises psycopg.Error."""
        row = conn.execute(self._read, (self._subscription,)).fetchone()
        if row is None:
            return None
        backfill_id, since, until, ordered_at, settled_before, tables, replace, aside = row
        chosen = None if tables is None else frozenset(tables)
        return Order(backfill_id, since, until, ordered_at, settled_before or 0, chosen, replace, aside)

    def follow(self, order: Order) -> None:
        """Messages of this replay came here: `report` tells of this worker until the order ends."""
        self._followed = order.backfill_id

    def note(
        self, cursor: psycopg.Cursor[Any], order: Order, lane: str, load: BundleLoad | None, skipped: Sequence[Event]
    ) -> None:
        """Count what a load did with the replay's messages, in its transaction. Raises psycopg.Error."""
        messages = {event.message.ack_id for event in skipped if order.replays(event.message.published)}
        left_out = len(messages) and sum(order.replays(event.message.published) for event in skipped)
        new = rows_new = rewritten = there = dead = 0
        if load is not None:
            fresh: set[int] = set()
            for sequence in load.sequences():
                message = load.fitted.events[sequence].message
                if not order.replays(message.published):
                    continue
                messages.add(message.ack_id)
                if load.fitted.row_ids[sequence] in load.cleared:
                    rewritten += 1
                else:
                    fresh.add(sequence)
            new = len(fresh)
            if fresh:
                rows_new = sum(owner in fresh for rows in load.tables() for owner in rows.owners)
            for event in (*load.duplicates, *load.followers.duplicates):
                if order.replays(event.message.published):
                    messages.add(event.message.ack_id)
                    there += 1
            for letter in (*load.letters, *load.followers.letters):
                if order.replays(letter.message.published):
                    messages.add(letter.message.ack_id)
                    dead += 1
        if messages:
            counts = (len(messages), new, rows_new, there, rewritten, left_out, dead)
            cursor.execute(self._count, (order.backfill_id, self._worker, lane, *counts))

    def report(self, lane: Lane, waiting: int) -> None:
        """Tell, about once a second during a replay, that this worker lives and how many events wait in it.

        Never waits for an outage to end and never raises psycopg.Error: who cannot be followed loads all the same."""
        followed, now = self._followed, self._clock()
        if followed is None or now < self._due:
            return
        self._due = now + REPORT_SECONDS
        try:
            told = lane.connection().execute(self._report, (self._worker, lane.name, waiting, followed)).rowcount
        except psycopg.Error as error:
            if is_outage(error):
                lane.health.database_failed(error)
                return
            log.warning("loader backfill cannot follow this worker: %s", " ".join(str(error).split()))
            self._followed = None
            return
        if told == 0:
            self._followed = None
