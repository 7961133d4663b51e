"""A lane loads events: one connection, one book, one load at a time. The worker has two, one of them learns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import psycopg

from loader.backfill.order import Sift
from loader.copy.bundle_load import BundleLoad, Discard, Held
from loader.copy.committer import Committer
from loader.copy.isolation import NotIsolated, Refusal
from loader.copy.load_id import LoadIds
from loader.copy.overflow import OverflowNeeded
from loader.copy.sentence import state_of, text
from loader.database.catalog import takes_rows_of
from loader.database.sqlstate import Verdict, is_outage, verdict
from loader.dead_letter.letter import Letter, letter_of_event
from loader.learn.learner import Learner, Snapshot
from loader.message.message import Event
from loader.plan import names
from loader.plan.book import Book, PlanRules
from loader.plan.fit import MAX_SLOTS
from loader.plan.fitting import Fitted, Source, fit_events
from loader.plan.policy import Policy
from loader.worker.backoff import Backoff
from loader.worker.batch import Batch, EventBatch
from loader.worker.orders import Orders

log = logging.getLogger(__name__)

T = TypeVar("T")

# What others did to the dataset and no load has met (a table made by hand, a column of the user's own).
REFRESH_SECONDS = 300.0
# A fixed short lock_timeout starves against busy loads; without one a long reader stalls everybody behind it.
FIRST_LOCK_TIMEOUT_MS = 100
LONGEST_LOCK_TIMEOUT_MS = 8_000


_MOST_OWNERS = 20
"""Bodies that the database may refuse under one identity before the others are no longer tried under it."""
_MOST_STUCK = 3
"""Single pieces in a row that the database does not take: then the rest of a batch is put off as it is."""


class Connector(Protocol):
    """Opens connections; loader/database/connection.py has the real one."""

    def connect(self, application_name: str, *, autocommit: bool = False) -> psycopg.Connection: ...


class Abandoned(Exception):
    """The worker must stop before the database took the events: they are nacked, nothing of them is stored."""


class StalePlans(Exception):
    """The tables are no longer as the rows were fitted to: fit again before anything is blamed on a message."""


class TooMuch(Exception):
    """The database does not take a batch in one transaction: too slow, or refused together and not alone."""

    def __init__(self, error: Refusal) -> None:
        super().__init__(str(error))
        self.error = error


class Health(Protocol):
    """Who wants to know how the database does."""

    def database_failed(self, error: BaseException) -> None: ...

    def database_works(self) -> None: ...


@dataclass(slots=True)
class Loaded:
    """Outcome of one load that was committed, or of events of which none was stored: they are `load.held`."""

    load: BundleLoad
    misfits: list[Event] = field(default_factory=list)
    skipped: list[Event] = field(default_factory=list)
    """What a backfill brought back and its order leaves out."""
    fit_seconds: float = 0.0
    """Decoding and fitting."""
    copy_seconds: float = 0.0
    """COPY, isolation and commit."""


class Lane:
    """Everything a thread needs to store events. `abort` ends its patience with an outage."""

    def __init__(
        self,
        connector: Connector,
        learner: Learner,
        committer: Committer,
        rules: PlanRules,
        source: Source,
        health: Health,
        abort: threading.Event,
        application_name: str,
        load_ids: LoadIds,
        policy: Callable[[], Policy] | None = None,
        orders: Orders | None = None,
    ) -> None:
        self.name = application_name
        self.learner = learner
        self.source = source
        self.abort = abort
        self.health = health
        self._connector = connector
        self._committer = committer
        self._rules = rules
        self._load_ids = load_ids
        self._policy = policy
        self._orders = orders
        self._conn: psycopg.Connection | None = None
        self._book: Book | None = None
        self._book_time = 0.0
        self._offered: Snapshot | None = None

    def load(
        self,
        events: Sequence[Event],
        letters: Sequence[Letter] = (),
        discards: Sequence[Discard] = (),
        attempt: int = 0,
        minority: bool = False,
    ) -> list[Loaded]:
        """Store events that were decoded before, as `store` does."""
        return self.store(EventBatch(events, letters, discards, attempt, minority))

    def store(self, batch: Batch) -> list[Loaded]:
        """Store a batch; one Loaded for each transaction (more than one only where it had to be halved).

        Waits for the database as long as it takes. Raises Abandoned when `abort` is set before it is done. A piece
        that cannot be halved and takes too long all the same is held, for the others must not wait for it.
        """
        stored: list[Loaded] = []
        held: list[Loaded] = []
        waiting = [batch]
        backoff = Backoff()
        stuck = owners = 0
        while waiting:
            part = waiting.pop()
            try:
                loaded = self._store_whole(part, owners < _MOST_OWNERS)
                stored.append(loaded)
                if loaded.load.again:
                    owners += 1
                    waiting.append(EventBatch(loaded.load.again))
                stuck = 0
                backoff.reset()
                continue
            except TooMuch as too_much:
                error = too_much.error
            halves = part.halves()
            if halves is not None:
                waiting += reversed(halves)
                continue
            self._failed(error)
            stuck += 1
            # The database itself may be slow today, and what is left as likely to fail: it is held in its present
            # pieces, each of which then makes its way apart.
            late = [part, *reversed(waiting)] if stuck >= _MOST_STUCK else [part]
            del waiting[len(waiting) - len(late) + 1 :]
            for piece in late:
                events = [event._replace(record=None) for event in piece.events()]
                if events:
                    held.append(Loaded(_held(events, error)))
                if piece.letters() or piece.discards:
                    waiting.append(EventBatch((), piece.letters(), piece.discards))
            if waiting and backoff.wait(self.abort):
                raise Abandoned
        return stored + held

    def _store_whole(self, batch: Batch, patient: bool) -> Loaded:
        """Store a batch in one transaction. Raises TooMuch when that cannot be, and Abandoned."""
        backoff = Backoff()
        relearned = False
        widened: set[str] = set()
        while True:
            try:
                return self._store_once(batch, patient)
            except StalePlans:
                continue
            except OverflowNeeded as error:
                if error.tables <= widened:
                    why = psycopg.errors.ProgramLimitExceeded(
                        f"{error}, and nothing can be written to {names.OVERFLOW}"
                    )
                    raise TooMuch(why) from error
                self._add_overflow(error.tables)
                widened |= error.tables
                continue
            except NotIsolated as error:
                raise TooMuch(error.error) from error
            except (psycopg.Error, UnicodeEncodeError) as error:
                if self.abort.is_set():
                    raise Abandoned from error
                judged = verdict(error)
                if judged is Verdict.RELEARN and not relearned:
                    relearned = True
                    self._book = None
                    continue
                if judged is Verdict.HALVE:
                    raise TooMuch(error) from error
                self._failed(error)
                relearned = False
            if backoff.wait(self.abort):
                raise Abandoned

    def patiently(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Do something with a connection, again and again through an outage of the database.

        Raises psycopg.Error for everything else, LockNotAvailable among it, and Abandoned.
        """
        backoff = Backoff()
        while True:
            try:
                result = work(self.connection())
            except psycopg.Error as error:
                if self.abort.is_set():
                    raise Abandoned from error
                if not is_outage(error):
                    raise
                self._failed(error)
            else:
                self.health.database_works()
                return result
            if backoff.wait(self.abort):
                raise Abandoned

    def connection(self) -> psycopg.Connection:
        """The lane's connection, opened anew if it broke."""
        if self._conn is None or self._conn.closed or self._conn.broken:
            self._conn = None
            self._conn = self._connector.connect(self.name, autocommit=True)
        return self._conn

    def offer(self, snapshot: Snapshot) -> None:
        """From another thread: a newer picture of the dataset, taken up before the next load."""
        self._offered = snapshot

    def take_up(self, snapshot: Snapshot) -> None:
        """Use a newer picture of the dataset; plans of unchanged tables are kept."""
        book = snapshot.book(self._rules)
        if self._book is not None and self._book.slots < MAX_SLOTS:
            book.inherit(self._book)
        self._book = book
        self._book_time = time.monotonic()

    def interrupt(self) -> None:
        """From another thread, once `abort` is set: end what the connection is doing."""
        conn = self._conn
        if conn is not None and not conn.closed:
            try:
                conn.cancel_safe(timeout=2.0)
            except psycopg.Error as error:
                log.warning("the running statement could not be cancelled: %s", error)

    def close(self) -> None:
        """Close the connection."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _store_once(self, batch: Batch, patient: bool) -> Loaded:
        conn = self.connection()
        book = self._current_book(conn)
        started = time.monotonic()
        policy = self._policy() if self._policy is not None else None
        order = self._orders.read(conn) if self._orders is not None else None
        sift = Sift(order) if order is not None else None
        events = batch.events() if sift is None else sift.events(batch.events())
        fitted = fit_events(book, events, self._load_ids.next(), self.source, policy)
        fitted_at = time.monotonic()
        load = BundleLoad(
            fitted, list(batch.letters()), list(batch.discards), attempt=batch.attempt, minority=batch.minority
        )
        load.schema = (book.schema_name, book.schema_hash)
        load.discard_count = len(batch.discards) + fitted.discarded_values
        load.recheck = self._recheck_tables
        load.patient = patient
        for event, reason in fitted.refused:
            load.letters.append(
                letter_of_event(event, self.source.exact, "cannot be placed", reason, table=event.table)
            )
            load.dead.append(event)
        if sift is not None:
            self._obey(sift, load)
        if fitted.events or load.letters or load.discards:
            self._committer.commit(conn, load, self._confirm_plans)
        elif sift is not None and sift.skipped:
            self._note_skipped(conn, sift)
        load.let_go()
        self.health.database_works()
        names.trim_caches()
        skipped = sift.skipped if sift is not None else []
        return Loaded(load, fitted.misfits, skipped, fitted_at - started, time.monotonic() - fitted_at)

    def _obey(self, sift: Sift, load: BundleLoad) -> None:
        """A backfill is on: leave out, replace and count as its order says."""
        assert self._orders is not None
        assert self._book is not None
        orders, order = self._orders, sift.order
        load.letters = [letter for letter in load.letters if sift.keeps(letter.message, letter.root)]
        load.replaced = sift.replaced(load.fitted)
        load.dataset_tables = self._book.tables
        load.note = lambda cursor, written: orders.note(cursor, order, self.name, written, sift.skipped)
        if sift.met:
            orders.follow(order)

    def _note_skipped(self, conn: psycopg.Connection, sift: Sift) -> None:
        """Nothing was left to load."""
        assert self._orders is not None
        with conn.transaction(), conn.cursor() as cursor:
            self._orders.note(cursor, sift.order, self.name, None, sift.skipped)

    def _current_book(self, conn: psycopg.Connection) -> Book:
        offered, self._offered = self._offered, None
        if offered is not None and (self._book is None or offered.stored.version >= self._book.version):
            self.take_up(offered)
        if self._book is None or time.monotonic() - self._book_time > REFRESH_SECONDS:
            self.learner.prepare(conn)
            self.take_up(self.learner.read(conn))
        assert self._book is not None
        if self._book.slots >= MAX_SLOTS:
            self._book = self._book.forgetful()
        return self._book

    def _confirm_plans(self, conn: psycopg.Connection) -> None:
        """Before a message is blamed: is it the tables that changed? Raises StalePlans."""
        snapshot = self.learner.read(conn)
        if self._book is None or snapshot.tables != self._book.tables:
            self.take_up(snapshot)
            raise StalePlans

    def _recheck_tables(self, cursor: psycopg.Cursor, load: BundleLoad) -> None:
        """Raises StalePlans when a table that was written to is not what it was when the rows were fitted: after an
        ALTER … TYPE by hand the database would round and shift values without a word, without the unique index it
        would take duplicates. Columns that were added meanwhile do not matter."""
        plans = [rows.plan for rows in load.tables()]
        if self.learner.are_unchanged(cursor, [plan.table for plan in plans]):
            return
        snapshot = self.learner.read(cursor.connection)
        self.take_up(snapshot)
        if not all(takes_rows_of(snapshot.tables.get(plan.table.name), plan) for plan in plans):
            raise StalePlans

    def _add_overflow(self, tables: set[str]) -> None:
        timeout = FIRST_LOCK_TIMEOUT_MS
        backoff = Backoff()
        while True:
            try:
                self.learner.add_overflow(self.connection(), tables, timeout)
            except psycopg.errors.LockNotAvailable:
                timeout = min(timeout * 2, LONGEST_LOCK_TIMEOUT_MS)
            except psycopg.Error as error:
                if not is_outage(error):
                    # A privilege, an owner: only the events that need the column wait until somebody acts.
                    raise TooMuch(error) from error
                self._failed(error)
            else:
                self._book = None
                return
            if backoff.wait(self.abort):
                raise Abandoned

    def _failed(self, error: BaseException) -> None:
        self.health.database_failed(error)
        if self._conn is not None and (self._conn.closed or self._conn.broken):
            self._conn = None


def _held(events: list[Event], error: Refusal) -> BundleLoad:
    """What is said of events of which nothing was stored: tried again later, and never dead letters for it."""
    return BundleLoad(Fitted(""), held=[Held(events, state_of(error), text(error), majority=True)])
