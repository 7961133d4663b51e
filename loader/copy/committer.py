"""Writes one load: every row of every table, dead letters, receipt and the `_dlt_loads` row commit together or not.

The algorithm (SQL in statement.py):
 1. begin; COPY each table in name order, rows in identity order; are the tables still as the rows were fitted to?
    letters, discards, receipts, `_dlt_loads`; commit.
 2. 23505 on our own index: roll back; ask which root rows are there; those are duplicates (the digest agrees) or
    dead letters 'event id reused'; again from 1. Child rows whose root row is gone are removed first.
 3. An error that blames a row: roll back; find the refused events (isolation.py); they become dead letters with all
    their child rows, or are held when there are suspiciously many; again from 1.
 4. Events that a backfill replaces have their rows deleted at the start of 1 (replacement.py), and are never taken for
    duplicates in 2: whoever wrote their rows meanwhile, those make way at the next try.
 5. Anything else is raised: the caller backs off, relearns or halves (sqlstate.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg

from loader.copy.bundle_load import BundleLoad
from loader.copy.isolation import CHECK_NOW, CopyFailed, Isolation, NotIsolated, blames_a_row
from loader.copy.overflow import acquit, move_large_rows
from loader.copy.replacement import Replacement
from loader.copy.sentence import pass_sentence
from loader.copy.statement import Statements
from loader.database.sqlstate import Verdict, verdict
from loader.dead_letter.letter import Letter, letter_id, letter_of_event
from loader.message.identity import dlt_id
from loader.message.message import Event
from loader.plan.fit import Rows
from loader.plan.kind import json_text
from loader.plan.timestamp import from_micros

log = logging.getLogger(__name__)

_DEADLOCKS = 20
_KEPT_BODIES = 100
_FRUITLESS = 2
"""Searches for bad rows that may find none before the load is given back."""

Exact = Callable[[Event], dict[str, Any]]


class Committer:
    """Commits loads to one dataset. Keeps no state but the guess whether duplicates are about."""

    def __init__(self, dataset: str, worker: str, exact: Exact) -> None:
        self._statements = Statements(dataset)
        self._replacement = Replacement(dataset)
        self._worker = worker
        self._exact = exact
        self._expect_duplicates = 0

    def commit(
        self, conn: psycopg.Connection, load: BundleLoad, confirm: Callable[[psycopg.Connection], None] | None = None
    ) -> None:
        """Store the load; afterwards it says what was stored, what was there already, what died and what is held.

        `confirm` is called before any row is blamed: it raises when the tables are not as the rows were fitted to.
        Raises psycopg.Error (step 5), OverflowNeeded, NotIsolated; nothing is stored then.
        """
        deadlocks = searches = clashes = 0
        isolate = False
        self._skip_letters_of_stored_events(conn, load)
        if load.replaced:
            self._drop_reused(conn, load)
        if self._expect_duplicates:
            self._expect_duplicates -= 1
            self._drop_present(conn, load)
        while True:
            load.copying, load.checking, load.clearing = None, False, False
            try:
                if isolate:
                    isolate = False
                    if not self._isolate(conn, load):
                        searches += 1
                load.follow(partial(reused_letter, exact=self._exact))
                with conn.transaction():
                    self._write(conn, load)
                load.committed()
                return
            except (psycopg.Error, UnicodeEncodeError) as error:
                rows = load.copying
                judged = verdict(error)
                if load.clearing and judged is Verdict.ISOLATE:
                    # A foreign key or a trigger does not let rows go, and no retry changes that: they stay as they are,
                    # and their events are there already.
                    reason = " ".join(str(error).split())
                    log.warning("The rows of %d replayed events are kept as they are: %s", len(load.replaced), reason)
                    load.replaced = set()
                elif judged is Verdict.UNIQUE and rows is not None and not blames_a_row(error, rows):
                    if not self._make_way(conn, load, rows):
                        if not load.replaced or clashes >= _DEADLOCKS:
                            raise
                        clashes += 1
                elif (rows is not None or load.checking) and blames_a_row(error, rows):
                    if searches >= _FRUITLESS:
                        raise NotIsolated(error) from error
                    if confirm is not None:
                        confirm(conn)
                    # An event that is stored is a duplicate, whatever the database thinks of its row today.
                    isolate = not self._drop_present(conn, load)
                elif judged is Verdict.AGAIN and deadlocks < _DEADLOCKS:
                    deadlocks += 1
                else:
                    raise

    def _write(self, conn: psycopg.Connection, load: BundleLoad) -> None:
        fitted = load.fitted
        with conn.cursor() as cursor:
            load.cleared = self._replacement.clear(cursor, load)
            for rows in load.tables():
                load.copying = rows
                self._copy(cursor, rows, None)
            load.copying = None
            if fitted.tables:
                # Deferred constraints speak now, while it is still known that rows are to blame and not a letter.
                load.checking = True
                cursor.execute(CHECK_NOW)
                load.checking = False
                if load.recheck is not None:
                    load.recheck(cursor, load)
            letters = load.letters + load.followers.letters
            if letters:
                cursor.executemany(
                    self._statements.letter, [self._letter_row(letter, fitted.load_id) for letter in letters]
                )
            if load.discards:
                self._discard(cursor, load)
            self._resolve_letters(cursor, load)
            cursor.executemany(self._statements.receipt, self._receipts(load))
            cursor.execute(self._statements.load, (fitted.load_id, *load.schema))
            if load.note is not None:
                load.note(cursor, load)

    def _copy(self, cursor: psycopg.Cursor, rows: Rows, positions: Sequence[int] | None) -> None:
        """COPY all rows of a table, or those at `positions`. Raises CopyFailed only in the second form."""
        written = 0
        try:
            with cursor.copy(self._statements.copy(rows.plan)) as copy:
                write_row = copy.write_row
                if positions is None:
                    for row in rows.rows:
                        write_row(row)
                else:
                    for position in positions:
                        written += 1
                        write_row(rows.rows[position])
                    written = 0
        except (psycopg.Error, UnicodeEncodeError) as error:
            if positions is None:
                raise
            raise CopyFailed(error, written) from error

    # --- duplicates ---------------------------------------------------------------------------------------------

    def _make_way(self, conn: psycopg.Connection, load: BundleLoad, rows: Rows) -> bool:
        """Resolve a clash on our own index; False when nothing explains it."""
        self._expect_duplicates = 10
        if self._drop_present(conn, load):
            return True
        if not rows.plan.path[1:]:
            return False
        # The root rows are not there, their children are: somebody deleted the roots. The ids are these events' own.
        ids = [row[0] for row in rows.rows]
        with conn.transaction():
            deleted = conn.execute(self._statements.delete_orphans(rows.plan.table.name), (ids,)).rowcount
        return deleted > 0

    def _drop_present(self, conn: psycopg.Connection, load: BundleLoad) -> int:
        """Take out the events whose root rows are in the tables; returns how many."""
        fitted = load.fitted
        by_table: dict[str, list[int]] = {}
        for sequence in load.sequences():
            if sequence not in load.replaced:
                by_table.setdefault(fitted.roots[sequence], []).append(sequence)
        duplicates: list[int] = []
        reused: list[int] = []
        for table, sequences in by_table.items():
            there = self._present(conn, table, [fitted.row_ids[sequence] for sequence in sequences])
            if not there:
                continue
            for sequence in sequences:
                if fitted.row_ids[sequence] not in there:
                    continue
                event = fitted.events[sequence]
                stored = there[fitted.row_ids[sequence]]
                if stored is None or stored == event.digest:
                    duplicates.append(sequence)
                    load.duplicates.append(event)
                else:
                    reused.append(sequence)
                    load.taken[sequence] = stored
                    load.dead.append(event)
                    load.letters.append(reused_letter(event, self._exact))
        load.drop(duplicates, stored=True)
        load.drop(reused)
        return len(duplicates) + len(reused)

    def _drop_reused(self, conn: psycopg.Connection, load: BundleLoad) -> None:
        """Take out the replaced events whose identity is another event's: that one keeps its rows."""
        fitted = load.fitted
        by_table: dict[str, list[int]] = {}
        for sequence in sorted(load.replaced):
            by_table.setdefault(fitted.roots[sequence], []).append(sequence)
        for table, sequences in by_table.items():
            there = self._present(conn, table, [fitted.row_ids[sequence] for sequence in sequences])
            for sequence in sequences:
                event = fitted.events[sequence]
                stored = there.get(fitted.row_ids[sequence], event.digest)
                if stored not in (None, event.digest):
                    load.taken[sequence] = stored
                    load.drop([sequence])
                    load.dead.append(event)
                    load.letters.append(reused_letter(event, self._exact))

    def _present(self, conn: psycopg.Connection, table: str, row_ids: list[str]) -> dict[str, int | None]:
        with conn.transaction():
            return dict(conn.execute(self._statements.present(table), (row_ids,)).fetchall())

    def _skip_letters_of_stored_events(self, conn: psycopg.Connection, load: BundleLoad) -> None:
        """An event that was loaded before and could not be loaded today is stored all the same: no letter."""
        by_root: dict[str, list[Letter]] = {}
        for letter in load.letters:
            if letter.root is not None:
                by_root.setdefault(letter.root, []).append(letter)
        for root, letters in by_root.items():
            try:
                there = self._present(conn, root, [dlt_id(letter.event_id) for letter in letters])
            except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
                continue  # no such table: nothing of it is stored
            stored = {id(letter) for letter in letters if there.get(dlt_id(letter.event_id)) == letter.digest}
            load.letters = [letter for letter in load.letters if id(letter) not in stored]

    # --- bad rows -----------------------------------------------------------------------------------------------

    def _isolate(self, conn: psycopg.Connection, load: BundleLoad) -> bool:
        """Find bad rows: move what is too large to the overflow column, take other events out; False when all is well.

        Raises OverflowNeeded."""
        load.isolated = True

        def copy(rows: Rows, positions: Sequence[int]) -> None:
            load.copying = rows
            self._copy(cursor, rows, positions)

        search = Isolation(conn, copy)
        with conn.transaction(force_rollback=True), conn.cursor() as cursor:
            self._replacement.clear(cursor, load)
            if move_large_rows(load, search):
                return True
            found = search.search(load)
            reshaped = acquit(load, found, search)
        if not found:
            with conn.transaction(force_rollback=True), conn.cursor() as cursor:
                self._replacement.clear(cursor, load)
                found = search.search_events(load)
        found = [refused for refused in found if refused]
        for refused in found:
            pass_sentence(load, refused, self._exact)
        # Nothing: every row is taken alone and together with its neighbours, so the error may have passed.
        return bool(found) or reshaped

    # --- bookkeeping --------------------------------------------------------------------------------------------

    def _letter_row(self, letter: Letter, load_id: str) -> tuple[Any, ...]:
        message = letter.message
        attributes = json_text({_clean(k): _clean(v) for k, v in message.attributes.items()}, True)
        return (
            letter.letter_id,
            letter.event_id,
            letter.digest,
            letter.reason,
            letter.detail,
            letter.sqlstate,
            letter.table,
            letter.column,
            message.message_id,
            from_micros(message.published),
            message.attempt,
            _clean(message.ordering_key),
            attributes,
            letter.body_encoding,
            letter.body,
            letter.is_record,
            load_id,
            self._worker,
        )

    def _resolve_letters(self, cursor: psycopg.Cursor, load: BundleLoad) -> None:
        """Letters of events that are stored now are resolved by this very transaction."""
        row = cursor.execute(self._statements.open_letters).fetchone()
        if row is None or not row[0]:
            return
        events = load.loaded() + load.duplicates + load.followers.duplicates
        keys = ([event.identity for event in events], [event.digest for event in events])
        found: dict[str, str] = dict(cursor.execute(self._statements.open_of, keys).fetchall())
        if not found:
            return
        # Another table may have refused the same body under the same identity: its letter stays open.
        identities = set(found.values())
        ours: set[str] = set()
        for event in events:
            if event.identity in identities:
                ours.add(letter_id(event.identity, event.digest, event.table))
                # By the key of the message too, which may not have been understood before.
                ours.add(letter_id(event.identity, event.digest))
        cursor.execute(self._statements.resolve, (f"loaded by {load.fitted.load_id}", list(ours & found.keys())))

    def _discard(self, cursor: psycopg.Cursor, load: BundleLoad) -> None:
        row = cursor.execute(self._statements.kept_discards).fetchone()
        room = max(0, _KEPT_BODIES - (row[0] if row else 0))
        kept = load.discards[:room]
        if kept:
            cursor.executemany(
                self._statements.discard,
                [(item.event_id, item.table, item.reason, item.body, load.fitted.load_id) for item in kept],
            )

    def _receipts(self, load: BundleLoad) -> list[tuple[Any, ...]]:
        """One receipt a table with rows; what has no table stands under the empty name."""
        fitted = load.fitted
        load.moments = load.published()
        result: list[tuple[Any, ...]] = []
        for rows in load.tables():
            name = rows.plan.table.name
            moments = load.moments.get(name, [])
            oldest, newest = (from_micros(min(moments)), from_micros(max(moments))) if moments else (None, None)
            result.append((fitted.load_id, name, len(rows.rows), len(moments), 0, 0, 0, oldest, newest, self._worker))
        duplicates = len(load.duplicates) + len(load.followers.duplicates)
        letters = len(load.letters) + len(load.followers.letters)
        if duplicates or letters or load.discard_count:
            result.append((fitted.load_id, "", 0, 0, duplicates, letters, load.discard_count, None, None, self._worker))
        return result


def reused_letter(event: Event, exact: Exact) -> Letter:
    """The letter of an event whose identity belongs to another event."""
    return letter_of_event(
        event,
        exact,
        reason="event id reused",
        detail=f"the event id {event.identity!r} was used for another body before; the publisher must not reuse it",
        table=event.table,
    )


def _clean(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
