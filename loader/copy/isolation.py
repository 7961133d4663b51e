"""Isolation: find the events whose rows the database refuses, and no others, by COPY inside savepoints.

The line that COPY's CONTEXT names is a hint only (for a row that is too large it names a later one), so the accused is
always tried alone. Without a good hint the rows are halved until each refused event stands alone. What only the checks
at the end of a transaction refuse (deferred constraints) is searched for by whole events.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence, Set
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
_SAMPLE = 2 * MIN_SUSPICIOUS
_FINE_PARTS = 64
"""Parts of a bundle from which on a search by whole events asks whether it makes sense to go on."""
_TOO_LARGE = "54000"

CHECK_NOW = b"set constraints all immediate"
_CHECK_LATER = b"set constraints all deferred"


@dataclass(slots=True)
class Refused:
    """What one table refuses, or the checks at the end of the transaction."""

    table: str | None
    """None: refused by the checks at the end, whose errors name their tables."""
    tried: set[int]
    """The events whose rows were to be stored."""
    guilty: dict[int, Refusal] = field(default_factory=dict)
    """Event number → the error that its rows raise on their own."""
    refuses_all: Refusal | None = None
    """Most of what was tried was refused: the search was given up."""

    def __bool__(self) -> bool:
        return bool(self.guilty) or self.refuses_all is not None


class CopyFailed(Exception):
    """COPY was refused; `line` is the row at which our side stopped (0 when the server refused)."""

    def __init__(self, error: Refusal, line: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.line = line


class NotIsolated(Exception):
    """Rows are refused together again and again, and yet no event alone (a trigger that limits their number, say)."""

    def __init__(self, error: Refusal) -> None:
        super().__init__(f"refused together, but not alone: {error}")
        self.error = error


Copy = Callable[[Rows, Sequence[int]], None]
"""Copies the rows at these positions; raises CopyFailed."""


class Isolation:
    """Searches the tables of a load within one transaction that the caller rolls back.

    A search stops early where most events are refused, unless the load is a minority of another one: then the
    database took their neighbours, and each event is tried on its own. Rows too large are no reason to stop: they can
    be written in another shape (overflow.py), so that the database is not at fault.
    """

    def __init__(self, conn: psycopg.Connection, copy: Copy) -> None:
        self._conn = conn
        self._copy = copy

    def search(self, load: BundleLoad) -> list[Refused]:
        """What each table refuses. Errors that no row is to blame for are raised as they are."""
        result: list[Refused] = []
        gone: set[int] = set()
        for rows in load.tables():
            positions = [position for position, owner in enumerate(rows.owners) if owner not in gone]
            refused = self._search_table(rows, positions, load.minority)
            if refused:
                result.append(refused)
                gone |= refused.tried if refused.refuses_all is not None else refused.guilty.keys()
        return result

    def alone(self, rows: Rows, sequence: int) -> Refusal | None:
        """The error that the rows of one event raise on their own, or None; nothing is kept."""
        return self.together(rows, {sequence})

    def row_alone(self, rows: Rows, position: int) -> Refusal | None:
        """The error that one row raises on its own, or None; nothing is kept."""
        failed = self._try(rows, [position], keep=False)
        return failed.error if failed else None

    def together(self, rows: Rows, sequences: Set[int]) -> Refusal | None:
        """The error that the rows of these events raise together, or None; nothing is kept."""
        positions = [position for position, owner in enumerate(rows.owners) if owner in sequences]
        failed = self._try(rows, positions, keep=False)
        return failed.error if failed else None

    def _search_table(self, rows: Rows, positions: list[int], thorough: bool) -> Refused:
        refused = Refused(rows.plan.table.name, {rows.owners[position] for position in positions})
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
            self._halve(rows, positions, refused, thorough)
        return refused

    def _halve(self, rows: Rows, positions: list[int], refused: Refused, thorough: bool) -> None:
        """Depth first, left to right: what loads stays in the transaction, so that clashes among rows are found."""
        tried = blamed = 0
        stack = [positions]
        while stack:
            part = stack.pop()
            failed = self._try(rows, part)
            events = list(dict.fromkeys(rows.owners[position] for position in part))
            if failed is None:
                tried += len(events)
                continue
            if len(events) == 1:
                tried += 1
                refused.guilty[events[0]] = failed.error
                blamed += not is_too_large(failed.error)
                if not thorough and blamed >= MIN_SUSPICIOUS and blamed * 2 >= tried:
                    thorough = True
                    if self._refuses_most(rows, stack):
                        refused.refuses_all = failed.error
                        return
                continue
            first = set(events[: len(events) // 2])
            stack.append([position for position in part if rows.owners[position] not in first])
            stack.append([position for position in part if rows.owners[position] in first])

    def _refuses_most(self, rows: Rows, parts: list[list[int]]) -> bool:
        """Whether a sample of the rest is refused as well: bad events often stand side by side."""
        rest = list(dict.fromkeys(rows.owners[position] for part in parts for position in part))
        sample = rest[:: max(1, len(rest) // _SAMPLE)]
        if len(sample) < MIN_SUSPICIOUS:
            return False  # so few that each is tried
        errors = [self.alone(rows, sequence) for sequence in sample]
        return sum(error is not None and not is_too_large(error) for error in errors) * 2 >= len(sample)

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

    # --- checks at the end of a transaction ---------------------------------------------------------------------

    def search_events(self, load: BundleLoad) -> list[Refused]:
        """Events that only the checks at the end of a transaction refuse; empty when all are taken together.

        Breadth first: a row may need others of the bundle, which should be in before it is tried alone.
        """
        everything = load.sequences()
        refused = Refused(None, set(everything))
        places = _places(load)
        parts = deque([everything])
        thorough = load.minority
        while parts:
            part = parts.popleft()
            error = self._try_events(places, part)
            if error is None:
                continue
            if len(part) == 1:
                refused.guilty[part[0]] = error
                continue
            parts += [part[: len(part) // 2], part[len(part) // 2 :]]
            if not thorough and len(part) * _FINE_PARTS <= len(everything):
                thorough = True
                rest = [sequence for part in parts for sequence in part]
                sample = rest[:: max(1, len(rest) // _SAMPLE)]
                if len(rest) * 2 >= len(everything) and len(sample) >= MIN_SUSPICIOUS:
                    failures = [self._try_events(places, [sequence], keep=False) for sequence in sample]
                    if sum(failure is not None for failure in failures) * 2 >= len(sample):
                        refused.refuses_all = error
                        return [refused]
        again = True
        while again:
            again = False
            for sequence in list(refused.guilty):
                if self._try_events(places, [sequence]) is None:
                    del refused.guilty[sequence]
                    again = True
        return [refused] if refused else []

    def _try_events(self, places: Places, sequences: Sequence[int], keep: bool = True) -> Refusal | None:
        tables: dict[str, tuple[Rows, list[int]]] = {}
        for sequence in sequences:
            for rows, positions in places.get(sequence, ()):
                tables.setdefault(rows.plan.table.name, (rows, []))[1].extend(positions)
        try:
            with self._conn.transaction() as savepoint:
                for name in sorted(tables):
                    rows, positions = tables[name]
                    self._copy(rows, positions)
                self._conn.execute(CHECK_NOW)
                self._conn.execute(_CHECK_LATER)
                if not keep:
                    raise psycopg.Rollback(savepoint)
        except CopyFailed as failed:
            if not blames_a_row(failed.error, rows):
                raise failed.error from None
            return failed.error
        except psycopg.Error as error:
            if not blames_a_row(error, None):
                raise
            return error
        return None


Places = dict[int, list[tuple[Rows, list[int]]]]
"""Event number → where its rows are, table by table."""


def _places(load: BundleLoad) -> Places:
    places: Places = {}
    for rows in load.tables():
        for position, owner in enumerate(rows.owners):
            of_event = places.setdefault(owner, [])
            if not of_event or of_event[-1][0] is not rows:
                of_event.append((rows, []))
            of_event[-1][1].append(position)
    return places


def is_too_large(error: Refusal | None) -> bool:
    """Whether a row, or what an index keeps of it, is larger than a page takes."""
    return isinstance(error, psycopg.Error) and error.sqlstate == _TOO_LARGE


def blames_a_row(error: Refusal, rows: Rows | None) -> bool:
    """Whether the error is about a row's content; a duplicate by our own index is not.

    `rows` None: the error came with the checks at the end, to which our own index does not belong.
    """
    judged = verdict(error)
    if judged is Verdict.UNIQUE:
        return rows is None or (
            isinstance(error, psycopg.Error) and error.diag.constraint_name not in rows.plan.table.row_keys
        )
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
