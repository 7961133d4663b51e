"""Isolation: find the events whose rows the database refuses, and no others, by COPY inside savepoints.

The line that COPY's CONTEXT names is a hint only (for a row that is too large it names a later one), so the accused is
always tried alone. Without a good hint the rows are halved until each refused event stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psycopg

from loader.copy.bundle_load import BundleLoad
from loader.database.sqlstate import Verdict, verdict
from loader.plan.fit import Rows

Refusal = psycopg.Error | UnicodeEncodeError

MIN_SUSPICIOUS = 20
SUSPICIOUS_SHARE = 0.01
_HINTS = 2
"""Errors of one table that are followed up by their hint; after that the rows are halved."""


@dataclass(slots=True)
class Refused:
    """What one table refuses."""

    guilty: dict[int, Refusal] = field(default_factory=dict)
    """Event number → the error that its rows raise on their own."""
    refuses_all: Refusal | None = None
    """Most of what was tried was refused: the search was given up."""


class CopyFailed(Exception):
    """COPY was refused; `line` is the row at which our side stopped (0 when the server refused)."""

    def __init__(self, error: Refusal, line: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.line = line


Copy = Callable[[Rows, Sequence[int]], None]
"""Copies the rows at these positions; raises CopyFailed."""


class Isolation:
    """Searches the tables of a load within one transaction that the caller rolls back."""

    def __init__(self, conn: psycopg.Connection, copy: Copy) -> None:
        self._conn = conn
        self._copy = copy

    def search(self, load: BundleLoad) -> dict[str, Refused]:
        """What each table refuses. Errors that no row is to blame for are raised as they are."""
        result: dict[str, Refused] = {}
        gone: set[int] = set()
        for rows in load.tables():
            positions = [position for position, owner in enumerate(rows.owners) if owner not in gone]
            refused = self._search_table(rows, positions)
            if refused.guilty or refused.refuses_all is not None:
                result[rows.plan.table.name] = refused
                gone.update(refused.guilty)
            if refused.refuses_all is not None:
                gone.update(rows.owners)
        return result

    def alone(self, rows: Rows, sequence: int) -> Refusal | None:
        """The error that the rows of one event raise on their own, or None; nothing is kept."""
        positions = [position for position, owner in enumerate(rows.owners) if owner == sequence]
        failed = self._try(rows, positions, keep=False)
        return failed.error if failed else None

    def _search_table(self, rows: Rows, positions: list[int]) -> Refused:
        refused = Refused()
        failed = self._try(rows, positions)
        for _ in range(_HINTS):
            if failed is None:
                return refused
            accused = _accused(failed, rows, positions)
            if accused is None:
                break
            error = self.alone(rows, accused)
            if error is None:
                break  # the hint was wrong
            refused.guilty[accused] = error
            positions = [position for position in positions if rows.owners[position] != accused]
            failed = self._try(rows, positions)
        if failed is not None:
            self._halve(rows, positions, refused)
        return refused

    def _halve(self, rows: Rows, positions: list[int], refused: Refused) -> None:
        """Depth first, left to right: what loads stays in the transaction, so that clashes among rows are found."""
        tried = 0
        stack = [positions]
        while stack:
            part = stack.pop()
            failed = self._try(rows, part)
            if failed is None:
                tried += len({rows.owners[position] for position in part})
                continue
            events = sorted({rows.owners[position] for position in part})
            if len(events) == 1:
                tried += 1
                refused.guilty[events[0]] = failed.error
                if len(refused.guilty) >= MIN_SUSPICIOUS and len(refused.guilty) * 2 >= tried:
                    refused.refuses_all = failed.error
                    return
                continue
            middle = events[len(events) // 2]
            stack.append([position for position in part if rows.owners[position] >= middle])
            stack.append([position for position in part if rows.owners[position] < middle])

    def _try(self, rows: Rows, positions: Sequence[int], keep: bool = True) -> CopyFailed | None:
        if not positions:
            return None
        try:
            with self._conn.transaction() as savepoint:
                self._copy(rows, positions)
                if not keep:
                    raise psycopg.Rollback(savepoint)
        except CopyFailed as failed:
            if not blames_a_row(failed.error, rows):
                raise failed.error from None
            return failed
        return None


def blames_a_row(error: Refusal, rows: Rows) -> bool:
    """Whether the error is about a row's content; a duplicate by our own index is not."""
    judged = verdict(error)
    if judged is Verdict.UNIQUE:
        return isinstance(error, psycopg.Error) and error.diag.constraint_name not in rows.plan.table.row_keys
    return judged is Verdict.ISOLATE


def _accused(failed: CopyFailed, rows: Rows, positions: Sequence[int]) -> int | None:
    line = failed.line or line_of(failed.error, rows.plan.table.name)
    if line is None or not 1 <= line <= len(positions):
        return None
    return rows.owners[positions[line - 1]]


def line_of(error: Refusal, table: str) -> int | None:
    """The line that CONTEXT names for our own table. The text behind it is user data and may imitate it, and its
    wording follows the server's language: no match means no hint."""
    if not isinstance(error, psycopg.Error) or error.diag.context is None:
        return None
    match = re.search(rf"^COPY {re.escape(table)}, line (\d+)", error.diag.context, re.MULTILINE)
    return int(match[1]) if match else None


def column_of(error: Refusal, table: str) -> str | None:
    """The column that the error is about, where it says so."""
    if not isinstance(error, psycopg.Error):
        return None
    if error.diag.column_name:
        return error.diag.column_name
    if error.diag.context is None:
        return None
    match = re.search(rf"^COPY {re.escape(table)}, line \d+, column ([^:\n]+)", error.diag.context, re.MULTILINE)
    return match[1] if match else None
