"""What messages would change: the DDL that learning them would run, and who asks for what. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg
from psycopg import sql

from loader.learn import internal
from loader.learn.ddl import internal_statements, statements
from loader.learn.draft import Addition
from loader.learn.learner import Snapshot
from loader.learn.lesson import copy_tables, study
from loader.learn.stored_schema import DEFAULT_NAME, Stored, evolve, to_schema
from loader.message.message import Event
from loader.plan import names
from loader.plan.book import Column, PlanRules, Table
from loader.plan.fitting import Source
from loader.plan.kind import BY_DATA_TYPE
from loader.settings.contract import SchemaContract

NO_LOCK = "none on other tables"
BRIEF_LOCK = "ACCESS EXCLUSIVE on the table, briefly: the catalog changes, no row is rewritten"
INDEX_LOCK = "SHARE on the table while the index is built; `loader adopt` builds it without holding up anybody"
DLT_TABLES = ("_dlt_loads", "_dlt_version")


@dataclass(frozen=True, slots=True)
class Asked:
    """A column that is asked for, and by whom first."""

    column: str
    data_type: str
    variant: bool
    first: str
    """Origin of the first event that needs it, such as `events.jsonl:12`; empty for the loader's own columns."""


@dataclass(frozen=True, slots=True)
class Change:
    """One table that would be made or altered, or one of the loader's own parts that would be made."""

    kind: str
    """`schema`, `internal`, `create`, `alter` or `index`."""
    name: str
    statements: tuple[str, ...]
    lock: str
    asked: tuple[Asked, ...] = ()

    @property
    def first(self) -> str:
        """Origin of the first event that needs it; empty when no event asks for it."""
        return next((asked.first for asked in self.asked if asked.first), "")


@dataclass(frozen=True, slots=True)
class Stopped:
    """An event that would not be loaded."""

    origin: str
    table: str
    code: str
    reason: str


@dataclass(slots=True)
class Ground:
    """What a preview starts from: the dataset, and which of its own parts are missing."""

    snapshot: Snapshot
    schema_missing: bool
    missing: frozenset[str]
    """Internal tables and indexes that are not there."""


def empty_ground() -> Ground:
    """A dataset that does not exist yet."""
    missing = frozenset([*internal.TABLES, *DLT_TABLES])
    return Ground(Snapshot(Stored(DEFAULT_NAME, 0, None), {}), True, missing)


def read_ground(conn: psycopg.Connection, dataset: str, read: Callable[[psycopg.Connection], Snapshot]) -> Ground:
    """The dataset as it is (`read` is Learner.read). Raises psycopg.Error."""
    schema = conn.execute("select oid from pg_catalog.pg_namespace where nspname = %s", (dataset,)).fetchone()
    wanted = [*internal.TABLES, *DLT_TABLES]
    there = conn.execute(
        "select relname::text from pg_catalog.pg_class where relname = any(%s) and relnamespace = %s",
        (wanted, schema[0] if schema else 0),
    ).fetchall()
    return Ground(read(conn), schema is None, frozenset(wanted) - {row[0] for row in there})


@dataclass(slots=True)
class Preview:
    """Studies events bundle by bundle, as a worker would learn them, and remembers what they ask for."""

    ground: Ground
    dataset: str
    rules: PlanRules
    contract: SchemaContract
    additions: list[Addition] = field(default_factory=list)
    unkeyed: set[str] = field(default_factory=set)
    _tables: dict[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tables = copy_tables(self.ground.snapshot.tables)

    def study(self, events: Sequence[Event], source: Source, origins: Mapping[str, str]) -> list[Stopped]:
        """Take in one bundle; returns the events that would not be loaded. `origins`: identity → where it is from."""
        lesson = study(self._tables, self.rules, self.contract, events, source)
        for addition in lesson.additions:
            origin = origins.get(addition.first_event, addition.first_event)
            self.additions.append(replace(addition, first_event=origin))
            self._take_over(addition)
        for name in lesson.unkeyed:
            self._tables[name].row_keys = frozenset({"drafted"})
        self.unkeyed |= lesson.unkeyed
        stopped = []
        for reasons, code in (
            (lesson.frozen, "frozen by contract"),
            (lesson.refused, "cannot be placed"),
            (lesson.discarded, "discarded"),
        ):
            for position, reason in reasons.items():
                event = events[position]
                stopped.append(Stopped(origins.get(event.identity, event.identity), event.table, code, reason))
        return stopped

    @property
    def tables(self) -> dict[str, Table]:
        """The tables as they would be after what was studied."""
        return self._tables

    def changes(self) -> list[Change]:
        """Everything that would be run, in the order in which it would be."""
        return [*self._internal(), *self._indexes(), *self._evolution()]

    def _take_over(self, addition: Addition) -> None:
        table = self._tables.get(addition.table)
        if table is None:
            table = self._tables[addition.table] = Table(addition.table, row_keys=frozenset({"drafted"}))
        table.foreign -= {addition.column}
        if not addition.exists:
            table.columns[addition.column] = Column(addition.column, BY_DATA_TYPE[addition.data_type])

    def _internal(self) -> list[Change]:
        changes = []
        if self.ground.schema_missing:
            text = sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.dataset)).as_string(None)
            changes.append(Change("schema", self.dataset, (text,), NO_LOCK))
        if not self.ground.missing:
            return changes
        by_dlt = internal_statements(to_schema(Stored(DEFAULT_NAME, 0, None)), self.dataset)
        for name in DLT_TABLES:
            if name in self.ground.missing:
                texts = tuple(_tidy(text) for text in by_dlt if f'"{name}"' in text)
                changes.append(Change("internal", name, texts, NO_LOCK))
        for name, text in internal.TABLES.items():
            if name in self.ground.missing:
                composed = sql.SQL(text).format(schema=sql.Identifier(self.dataset))  # type: ignore[arg-type]
                changes.append(Change("internal", name, (_tidy(composed.as_string(None)),), NO_LOCK))
        return changes

    def _indexes(self) -> list[Change]:
        changes = []
        for name in sorted(self.unkeyed):
            table = sql.Identifier(self.dataset, name)
            text = sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(table, sql.Identifier(names.DLT_ID))
            changes.append(Change("index", name, (text.as_string(None),), INDEX_LOCK))
        return changes

    def _evolution(self) -> list[Change]:
        missing = [addition for addition in self.additions if not addition.exists]
        if not missing:
            return []
        real = self.ground.snapshot.tables
        schema = to_schema(self.ground.snapshot.stored)
        evolve(schema, self.additions)
        by_table: dict[str, list[Addition]] = {}
        for addition in missing:
            by_table.setdefault(addition.table, []).append(addition)
        changes = []
        for name in sorted(by_table):
            hints = schema.tables[name]["columns"]
            columns = [hints[addition.column] for addition in by_table[name]]
            texts = tuple(_tidy(text) for text in statements(schema, self.dataset, {name: columns}, set(real)))
            asked = tuple(Asked(a.column, a.data_type, a.variant, a.first_event) for a in by_table[name])
            kind, lock = ("alter", BRIEF_LOCK) if name in real else ("create", NO_LOCK)
            changes.append(Change(kind, name, texts, lock, asked))
        return changes


def _tidy(text: str) -> str:
    return text.strip().rstrip(";")
