"""The picture that status shows, as plain data. Times are UTC, ages and spans seconds."""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass, field
from typing import Any

WINDOW_MINUTES = 5
"""Rates and percentiles are over so long."""
HISTORY_MINUTES = 60
SEEN_SECONDS = 60
"""A worker is counted if its row in `_workers` is no older."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table, child tables too."""

    name: str
    rows: int
    """Counted where the table is small; as Postgres estimates it where counting would take minutes."""
    size: int
    """Bytes, indexes included."""
    rows_per_minute: float = 0.0
    age_p50: float | None = None
    """Publish to commit, see ages.py; None when nothing was loaded lately, and for child tables."""
    age_p99: float | None = None
    last_load: str | None = None
    """Load id of the last 24 hours; None when there was none."""
    last_load_at: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """One load, all its tables together."""

    load_id: str
    committed_at: datetime.datetime
    tables: int
    rows: int
    events: int
    duplicates: int
    dead_letters: int
    oldest_age: float | None
    worker: str


@dataclass(frozen=True, slots=True)
class LetterStatus:
    """Open dead letters with one reason."""

    reason: str
    table: str | None
    count: int
    newest_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker process that was seen lately."""

    worker: str
    subscription: str
    version: str
    started_at: datetime.datetime
    seen_at: datetime.datetime
    messages_held: int
    """When it was seen: a load since then has taken them."""
    alert: str | None


@dataclass(frozen=True, slots=True)
class ColumnAdded:
    """An entry of the schema log."""

    added_at: datetime.datetime
    table: str
    column: str
    data_type: str
    is_variant: bool
    new_table: bool
    first_event: str
    worker: str
    version: int


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute of the last hour in which something was loaded."""

    at: datetime.datetime
    rows: int
    oldest_age: float | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in the subscription. Where a figure is None, `note` says why and what is needed."""

    messages: int | None = None
    oldest_seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything, as of one moment of the database."""

    dataset: str
    taken_at: datetime.datetime
    schema_name: str | None
    schema_version: int | None
    schema_changed_at: datetime.datetime | None
    tables: list[TableStatus] = field(default_factory=list)
    loads: list[LoadStatus] = field(default_factory=list)
    letters: list[LetterStatus] = field(default_factory=list)
    workers: list[WorkerStatus] | None = None
    """None when the dataset has no `_workers` yet: no worker of this version has run."""
    changes: list[ColumnAdded] = field(default_factory=list)
    history: list[Minute] = field(default_factory=list)
    backlog: Backlog | None = None

    @property
    def open_letters(self) -> int:
        """Dead letters that wait for somebody."""
        return sum(letter.count for letter in self.letters)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "open_letters": self.open_letters}
