"""What can be seen in Postgres while the worker loads: rows, schema changes, dead letters, ages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from loader.demo.ages import Ages
from loader.demo.publisher import Published

SHARE = 0.1
"""Of its time that watching may take from the database: with many rows it looks less often."""


@dataclass(frozen=True, slots=True)
class Change:
    """A table that was made (`column` is empty) or a column that was added."""

    table: str
    column: str
    data_type: str
    variant: bool
    first_event: str
    columns: int = 0
    """Of a table that was made: how many it was made with."""


@dataclass(frozen=True, slots=True)
class Dead:
    """A dead letter, as it arrives."""

    event_id: str
    reason: str
    detail: str


@dataclass
class Progress:
    """Everything so far. `loaded` and the counts beside it are by the worker's receipts."""

    rows: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    """Events of each root table."""
    duplicates: int = 0
    discarded: int = 0
    dead_letters: int = 0
    changes: list[Change] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
    ages: dict[str, Ages] = field(default_factory=dict)

    @property
    def loaded(self) -> int:
        """Events loaded into all tables."""
        return sum(self.events.values())

    def waiting(self, published: Published) -> int:
        """Published messages of which the outcome is not known yet.

        By kind: deliveries that Pub/Sub repeats add to the duplicates, and must not hide events that are missing."""
        stored = self.loaded + len(self.dead) + self.discarded
        missing = published.total - published.repeats - stored
        return max(0, missing) + max(0, published.repeats - self.duplicates)

    def all_ages(self) -> Ages:
        """Of all tables together."""
        ages = Ages()
        for one in self.ages.values():
            ages.merge(one)
        return ages


class Watcher:
    """Looks into the dataset. One thread at a time; every look raises psycopg.Error.

    `committed` tells when each load was committed: what a transaction writes cannot tell when it ended."""

    def __init__(self, conn: psycopg.Connection[Any], dataset: str, committed: Mapping[str, float]) -> None:
        self.progress = Progress()
        self._conn = conn
        self._dataset = dataset
        self._committed = committed
        self._entry = 0
        self._letters: set[str] = set()
        self._pending: dict[str, list[str]] = {}
        self._seen_loads: set[str] = set()
        self._there = False
        self._not_before = 0.0

    def look(self, force: bool = False) -> Progress:
        """The progress now; what was known before when the last look was too dear to be repeated yet."""
        started = time.monotonic()
        if not force and started < self._not_before:
            return self.progress
        if self._there or self._made():
            self._read_receipts()
            self._read_changes()
            self._read_letters()
            self._read_ages()
        now = time.monotonic()
        self._not_before = now + (now - started) * (1 / SHARE - 1)
        return self.progress

    def _table(self, name: str) -> sql.Identifier:
        return sql.Identifier(self._dataset, name)

    def _made(self) -> bool:
        """The internal tables are made together, the last of them in the same transaction as the first."""
        name = self._table("_schema_log").as_string(self._conn)
        row = self._conn.execute("select to_regclass(%s)", (name,)).fetchone()
        self._there = row is not None and row[0] is not None
        return self._there

    def _read_receipts(self) -> None:
        progress = self.progress
        query = sql.SQL(
            "select table_name, sum(row_count)::bigint, sum(event_count)::bigint, sum(duplicate_count)::bigint,"
            " sum(discard_count)::bigint, sum(dead_letter_count)::bigint, array_agg(load_id)"
            " from {} group by table_name"
        ).format(self._table("_receipts"))
        for table, rows, events, duplicates, discarded, dead, loads in self._conn.execute(query):
            if not table:
                progress.duplicates, progress.discarded, progress.dead_letters = duplicates, discarded, dead
                continue
            progress.rows[table] = rows
            if events:
                progress.events[table] = events
                known = self._pending.setdefault(table, [])
                known += [load for load in loads if f"{table} {load}" not in self._seen_loads]
                self._seen_loads.update(f"{table} {load}" for load in loads)

    def _read_changes(self) -> None:
        query = sql.SQL(
            "select entry_id, table_name, column_name, data_type, is_variant, new_table, first_event_id"
            " from {} where entry_id > %s order by entry_id"
        ).format(self._table("_schema_log"))
        made: dict[str, tuple[int, str]] = {}
        added: list[Change] = []
        for entry, table, column, data_type, variant, new_table, first in self._conn.execute(query, (self._entry,)):
            self._entry = max(self._entry, entry)
            if new_table and not variant:
                count, asked = made.get(table, (0, ""))
                made[table] = (count + 1, asked or first)
            else:
                added.append(Change(table, column, data_type, variant, first))
        changes = [Change(table, "", "", False, first, count) for table, (count, first) in made.items()]
        self.progress.changes += changes + added

    def _read_letters(self) -> None:
        if self.progress.dead_letters <= len(self._letters):
            return
        query = sql.SQL(
            "select letter_id, _event_id, reason, detail from {} where not letter_id = any(%s) order by created_at"
        ).format(self._table("_dead_letters"))
        for letter, event_id, reason, detail in self._conn.execute(query, (list(self._letters),)):
            self._letters.add(letter)
            self.progress.dead.append(Dead(event_id, reason, detail))

    def _read_ages(self) -> None:
        for table, loads in self._pending.items():
            told = [load for load in loads if load in self._committed]
            if not told:
                continue
            self._pending[table] = [load for load in loads if load not in self._committed]
            ages = self.progress.ages.setdefault(table, Ages())
            query = sql.SQL(
                "select _dlt_load_id, extract(epoch from _published_at)::float8, count(*) from {}"
                " where _dlt_load_id = any(%s) group by 1, 2"
            ).format(self._table(table))
            for load, published, count in self._conn.execute(query, (told,)):
                ages.add(self._committed[load] - published, count)
