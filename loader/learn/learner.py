"""Makes what misfits ask for: one short transaction under the dataset's advisory lock, in which only DDL happens."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from loader.database.catalog import are_unchanged, in_the_way, read_tables
from loader.database.connection import set_local
from loader.learn import internal
from loader.learn.ddl import internal_statements, statements
from loader.learn.draft import Addition, NeedsAdoption
from loader.learn.lesson import Lesson, study
from loader.learn.stored_schema import DEFAULT_NAME, Stored, evolve, known_columns, read_stored, serialise, to_schema
from loader.message.message import Event
from loader.plan import names
from loader.plan.book import Book, PlanRules, Table
from loader.plan.fitting import Source
from loader.settings.contract import SchemaContract

# Other learners hold the lock for 25 ms (a new column) to a second (11,000 columns); a hung one is not waited for.
_ADVISORY_WAIT_MS = 30_000
# A unique index on a table of this size takes about a second; larger ones are `loader adopt`'s, which does not block.
_INDEX_IN_PASSING_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class Snapshot:
    """The dataset at one moment."""

    stored: Stored
    tables: dict[str, Table]

    def book(self, rules: PlanRules) -> Book:
        """A book of its own for one thread."""
        return Book(self.tables, rules, self.stored.version, self.stored.name, self.stored.hash)


class Learner:
    """Reads and evolves the schema of one dataset. Every method takes the connection to work on."""

    def __init__(self, dataset: str, rules: PlanRules, contract: SchemaContract, worker: str) -> None:
        self._dataset = dataset
        self._rules = rules
        self._contract = contract
        self._worker = worker
        self._schema = sql.Identifier(dataset)
        digest = hashlib.blake2b(f"pubsub-postgres-loader/{dataset}".encode(), digest_size=8).digest()
        self._lock_key = int.from_bytes(digest, "big", signed=True)

    def warm_up(self) -> None:
        """Have dlt read its configuration and plugins now (0.2 s, once a process).

        What it throws and catches meanwhile refers to itself, and so keeps the frames of whoever called it until the
        next garbage collection: among them the first bundle, if that is what brings dlt to it.
        """
        internal_statements(to_schema(Stored(DEFAULT_NAME, 0, None)), self._dataset)

    def prepare(self, conn: psycopg.Connection) -> None:
        """Make the dataset and the internal tables where they are missing. Raises psycopg.Error."""
        if self._internal_missing(conn):
            with conn.transaction():
                self._lock(conn)
                self._make_internal(conn)

    def read(self, conn: psycopg.Connection) -> Snapshot:
        """The dataset as it is now: dlt's newest schema and the real tables."""
        stored = read_stored(conn, self._dataset)
        return Snapshot(stored, self._tables(conn, stored))

    def are_unchanged(self, cursor: psycopg.Cursor, tables: Sequence[Table]) -> bool:
        """Whether these are in the dataset as they were read. Once a transaction has written to them, it stays so."""
        return are_unchanged(cursor, self._dataset, tables)

    def study(self, snapshot: Snapshot, events: Sequence[Event], source: Source) -> Lesson:
        """What these events ask for, beyond what the snapshot has."""
        return study(snapshot.tables, self._rules, self._contract, events, source)

    def learn(
        self,
        conn: psycopg.Connection,
        events: Sequence[Event],
        source: Source,
        lock_timeout_ms: int,
    ) -> tuple[Snapshot, Lesson]:
        """Evolve the schema so that the events fit; returns what is there afterwards, and what the contract stopped.

        `lock_timeout_ms` limits each wait for a table's lock, and with it how long this holds up others who insert
        into that table. Raises psycopg.errors.LockNotAvailable when it runs out (nothing is changed then),
        NeedsAdoption, psycopg.Error.
        """
        started = time.monotonic()
        self.prepare(conn)
        before = self.read(conn)
        lesson = self.study(before, events, source)
        if not lesson.additions and not lesson.unkeyed:
            return before, lesson  # another worker learned it already, or nothing can be learned
        with conn.transaction():
            self._lock(conn)
            self._make_internal(conn)
            now = self.read(conn)
            if now.tables != before.tables:
                lesson = self.study(now, events, source)
            set_local(conn, lock_timeout_ms=lock_timeout_ms)
            self._apply(conn, now, lesson)
        lesson.seconds = time.monotonic() - started
        return self.read(conn), lesson

    def add_overflow(self, conn: psycopg.Connection, tables: set[str], lock_timeout_ms: int) -> None:
        """Give tables the overflow column, for rows that are too large for a page.

        Raises psycopg.errors.LockNotAvailable as `learn` does, psycopg.Error.
        """
        with conn.transaction():
            self._lock(conn)
            now = self.read(conn)
            set_local(conn, lock_timeout_ms=lock_timeout_ms)
            additions = [
                Addition(
                    name,
                    names.OVERFLOW,
                    "json",
                    nullable=True,
                    new_table=False,
                    parent=None,
                    variant=False,
                    first_event="",
                    exists=names.OVERFLOW in now.tables[name].columns,
                )
                for name in sorted(tables)
                if name in now.tables
                and (names.OVERFLOW not in now.tables[name].columns or names.OVERFLOW in now.tables[name].foreign)
            ]
            if additions:
                self._apply(conn, now, Lesson(additions))

    def _tables(self, conn: psycopg.Connection, stored: Stored) -> dict[str, Table]:
        known = _known(stored)
        return read_tables(conn, self._dataset, known)

    def _lock(self, conn: psycopg.Connection) -> None:
        set_local(conn, lock_timeout_ms=_ADVISORY_WAIT_MS)
        conn.execute("select pg_advisory_xact_lock(%s)", (self._lock_key,))

    def _internal_missing(self, conn: psycopg.Connection) -> bool:
        wanted = [*internal.TABLES, "_dlt_loads", "_dlt_version"]
        row = conn.execute(
            "select count(*) from pg_catalog.pg_class where relname = any(%s)"
            " and relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)",
            (wanted, self._dataset),
        ).fetchone()
        return row is None or row[0] < len(wanted)

    def _make_internal(self, conn: psycopg.Connection) -> None:
        if not self._internal_missing(conn):
            return
        # CREATE SCHEMA IF NOT EXISTS asks for the right to create even when there is nothing to do.
        there = conn.execute("select 1 from pg_catalog.pg_namespace where nspname = %s", (self._dataset,)).fetchone()
        if there is None:
            conn.execute(sql.SQL("create schema {}").format(self._schema))
        for statement in internal_statements(to_schema(Stored(DEFAULT_NAME, 0, None)), self._dataset):
            conn.execute(statement.encode())
        for statement in internal.TABLES.values():
            conn.execute(sql.SQL(statement).format(schema=self._schema))  # type: ignore[arg-type]

    def _apply(self, conn: psycopg.Connection, now: Snapshot, lesson: Lesson) -> None:
        if lesson.additions:
            self._add(conn, now, lesson)
        for table in sorted(lesson.unkeyed):
            self._index(conn, table)

    def _add(self, conn: psycopg.Connection, now: Snapshot, lesson: Lesson) -> None:
        schema = to_schema(now.stored)
        evolve(schema, lesson.additions)
        missing = [addition for addition in lesson.additions if not addition.exists]
        self._refuse_taken_names(conn, {addition.table for addition in missing} - now.tables.keys())
        added: dict[str, list] = {}
        for addition in missing:
            added.setdefault(addition.table, []).append(schema.tables[addition.table]["columns"][addition.column])
        for statement in statements(schema, self._dataset, added, set(now.tables)):
            conn.execute(statement.encode())
        version = serialise(schema)
        if version.number != now.stored.version or now.stored.text is None:
            conn.execute(
                sql.SQL(internal.STORE_VERSION).format(schema=self._schema),
                (version.number, version.engine, version.name, version.hash, version.text),
            )
        with conn.cursor() as cursor:
            cursor.executemany(
                sql.SQL(internal.LOG_ADDITION).format(schema=self._schema),
                [self._log_entry(addition, version.number) for addition in missing],
            )

    def _refuse_taken_names(self, conn: psycopg.Connection, tables: set[str]) -> None:
        taken = in_the_way(conn, self._dataset, tables) if tables else {}
        for name, what in taken.items():
            raise NeedsAdoption(
                f"{self._dataset}.{name} is {what}: rename or change it, so that events can be stored in a table of "
                "that name"
            )

    def _log_entry(self, addition: Addition, version: int) -> tuple:
        return (
            addition.table,
            addition.column,
            addition.data_type,
            addition.variant,
            addition.new_table,
            addition.first_event,
            self._worker,
            version,
        )

    def _index(self, conn: psycopg.Connection, table: str) -> None:
        name = sql.Identifier(self._dataset, table)
        size = conn.execute("select pg_table_size(%s::regclass)", (name.as_string(conn),)).fetchone()
        if size is not None and size[0] > _INDEX_IN_PASSING_BYTES:
            raise NeedsAdoption(
                f"table {self._dataset}.{table} has no unique index on _dlt_id and holds {size[0]:,} bytes: "
                "run `loader adopt`, which makes one without holding up anybody"
            )
        conn.execute(sql.SQL("create unique index on {} ({})").format(name, sql.Identifier("_dlt_id")))


_known_cache: dict[str, dict[str, frozenset[str]]] = {}


def _known(stored: Stored) -> dict[str, frozenset[str]]:
    """Columns by table in a stored schema; the newest text is remembered, for parsing 11,000 columns takes 50 ms."""
    if stored.text is None:
        return {}
    known = _known_cache.get(stored.text)
    if known is None:
        known = known_columns(to_schema(stored))
        _known_cache.clear()
        _known_cache[stored.text] = known
    return known
