"""Replays dead letters: each is read by today's rules, learned and loaded as a worker would, and resolved with that.

Whatever happens, an event is loaded once: its identity is the one that it had, and the transaction that stores its row
resolves its letter. Should the process die in between, the next replay finds the row and resolves the letter."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from loader.dead_letter.letter import Letter
from loader.dead_letter.reading import read_letter
from loader.dead_letter.store import LetterStore, StoredLetter
from loader.errors import LoaderError
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.learn.preview import Preview
from loader.message.decode import Decoder
from loader.message.identity import dlt_id
from loader.message.message import Event, Refused
from loader.plan import names
from loader.worker.assembly import Parts, decode_rules
from loader.worker.intake import Intake
from loader.worker.lane import Loaded
from loader.worker.learning import Learning, Task

_PATIENCE = 6
"""Failures of the database in a row after which a replay gives up: an operator waits in front of it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one letter."""

    letter_id: str
    event_id: str
    outcome: str
    """`loaded`, `discarded` (by contract) or `refused`."""
    table: str
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Impatience:
    """Health of the database for a command: after some failures in a row `abort` is set."""

    def __init__(self) -> None:
        self.abort: threading.Event | None = None
        self.last: BaseException | None = None
        self._failures = 0

    def database_failed(self, error: BaseException) -> None:
        self.last = error
        self._failures += 1
        if self._failures >= _PATIENCE and self.abort is not None:
            self.abort.set()

    def database_works(self) -> None:
        self._failures = 0


class LetterIntake(Intake):
    """Reads events from stored letters instead of messages."""

    def __init__(self, decoder: Decoder, **kept: bool) -> None:
        super().__init__(decoder, lambda message, events: None, **kept)
        self.batch: dict[str, StoredLetter] = {}

    def _record(self, event: Event) -> dict[str, Any]:
        return self._read(event, exactly=False)

    def _exact(self, event: Event) -> dict[str, Any]:
        return self._read(event, exactly=True)

    def _read(self, event: Event, *, exactly: bool) -> dict[str, Any]:
        for found in read_letter(self.batch[event.message.ack_id], self.decoder, exactly=exactly):
            if found.identity == event.identity and found.record is not None:
                return found.record
        raise Refused("not found again", f"event {event.identity!r} is not in its letter when that is read again")


class _OneLearning(Learning):
    """Learning that an operator waits for: what only another command can mend is told at once."""

    def _requeue(self, task: Task) -> None:
        if self.alert is not None:
            raise LoaderError(self.alert)
        super()._requeue(task)


@dataclass(slots=True)
class _Fate:
    """What became of the events of one letter."""

    table: str = ""
    stored: int = 0
    discarded: str = ""
    refused: str = ""
    own_letter: bool = False
    """It is refused again under its own letter id, or was never tried: the letter stays open."""
    new_letter: Letter | None = None


class Replay:
    """Replays batches of letters. `parts` must have been built with `health`."""

    def __init__(self, parts: Parts, health: Impatience, store: LetterStore) -> None:
        settings = parts.settings
        health.abort = parts.abort
        self._health = health
        self._store = store
        self._intake = LetterIntake(
            Decoder(decode_rules(settings)), keep_attributes=settings.keep_attributes, keep_raw=settings.keep_raw
        )
        self._lane = parts.lane("replay", self._intake, parts.settled)
        self.lessons: list[Lesson] = []

    def close(self) -> None:
        """Close the connection."""
        self._lane.close()

    def run(self, batches: Iterable[list[StoredLetter]]) -> Iterator[Result]:
        """Replay; one result for each letter. Raises LoaderError when the database refuses altogether."""
        for batch in batches:
            yield from self._replay(batch)

    def _replay(self, batch: list[StoredLetter]) -> Iterator[Result]:
        self._intake.batch = {letter.letter_id: letter for letter in batch}
        fates = {letter.letter_id: _Fate(letter.table_name or "") for letter in batch}
        events: list[Event] = []
        for letter in batch:
            try:
                read = read_letter(letter, self._intake.decoder)
            except Refused as error:
                fate = fates[letter.letter_id]
                fate.refused, fate.own_letter = f"{error.reason}: {error.detail}", True
                self._store.restate(letter.letter_id, error.reason, error.detail, None)
            else:
                fates[letter.letter_id].table = read[0].table
                events += read
        if events:
            self._load(events, fates)
        self._intake.batch = {}
        for letter in batch:
            yield self._settle(letter, fates[letter.letter_id])

    def _load(self, events: list[Event], fates: Mapping[str, _Fate]) -> None:
        learning = _OneLearning(
            self._lane, lambda loaded: _note(loaded, fates), self._lesson, lambda left: self._give_up()
        )
        learning.add(events)
        learning.finish()
        learning.run()

    def _lesson(self, snapshot: Snapshot, lesson: Lesson) -> None:
        if lesson.additions:
            self.lessons.append(lesson)

    def _give_up(self) -> None:
        text = " ".join(str(self._health.last).split())
        raise LoaderError(f"gave up after {_PATIENCE} failures of the database, letters stay open: {text}")

    def _settle(self, letter: StoredLetter, fate: _Fate) -> Result:
        refused = fate.refused
        if fate.new_letter is not None and fate.new_letter.letter_id == letter.letter_id:
            fate.own_letter = True
            new = fate.new_letter
            self._store.restate(letter.letter_id, new.reason, new.detail, new.sqlstate)
        if not fate.own_letter:
            # Mostly done by the load itself. Not where the letter was of a message that nobody understood: its events
            # have identities and digests of their own.
            resolution = "replayed"
            if refused and fate.new_letter is not None:
                resolution = f"read by a replay; what is refused is now letter {fate.new_letter.letter_id}"
            elif fate.discarded and not fate.stored:
                resolution = f"discarded: {fate.discarded}"
            self._store.resolve([letter.letter_id], resolution)
        if refused:
            return Result(letter.letter_id, letter.event_id, "refused", fate.table, refused)
        if fate.discarded and not fate.stored:
            return Result(letter.letter_id, letter.event_id, "discarded", fate.table, fate.discarded)
        return Result(letter.letter_id, letter.event_id, "loaded", fate.table)


def _note(loaded: Loaded, fates: Mapping[str, _Fate]) -> None:
    """Note what one transaction did with the events of letters, which their messages' ack ids name."""
    load = loaded.load
    letters = {(letter.event_id, letter.digest): letter for letter in load.letters}
    discards = {discard.event_id: discard for discard in load.discards}
    for event in [*load.loaded(), *load.duplicates]:
        fates[event.message.ack_id].stored += 1
    for event in load.dead:
        fate = fates[event.message.ack_id]
        letter = letters.get((event.identity, event.digest))
        discard = discards.get(event.identity)
        if letter is not None:
            fate.refused = f"{letter.reason}: {letter.detail}"
            fate.new_letter = letter
        elif discard is not None:
            fate.discarded = discard.reason
        else:
            fate.stored += 1  # no letter was written because its row is there
    for held in load.held:
        for event in held.events:
            fate = fates[event.message.ack_id]
            fate.refused = f"the database refuses it with many others: SQLSTATE {held.sqlstate}: {held.detail}"
            fate.own_letter = True


@dataclass(slots=True)
class Rehearsal:
    """What a replay would do, worked out without writing."""

    preview: Preview
    decoder: Decoder
    dataset: str
    _intake: LetterIntake = field(init=False)

    def __post_init__(self) -> None:
        self._intake = LetterIntake(self.decoder)

    def run(self, conn: psycopg.Connection[Any], batches: Iterable[list[StoredLetter]]) -> Iterator[Result]:
        """One result for each letter; `loaded` means that it would be, unless the database itself refuses the row."""
        for batch in batches:
            yield from self._rehearse(conn, batch)

    def _rehearse(self, conn: psycopg.Connection[Any], batch: list[StoredLetter]) -> Iterator[Result]:
        self._intake.batch = {letter.letter_id: letter for letter in batch}
        refused: dict[str, str] = {}
        tables: dict[str, str] = {}
        by_table: dict[str, list[Event]] = {}
        events: list[Event] = []
        for letter in batch:
            try:
                read = read_letter(letter, self.decoder)
            except Refused as error:
                refused[letter.letter_id] = f"{error.reason}: {error.detail}"
                continue
            tables[letter.letter_id] = read[0].table
            events += read
            for event in read:
                by_table.setdefault(event.table, []).append(event)
        for table, rows in by_table.items():
            for letter_id in self._reused(conn, table, rows):
                refused[letter_id] = "event id reused: another body is stored under this event id"
        discarded: dict[str, str] = {}
        owners = {event.identity: event.message.ack_id for event in events}
        for stopped in self.preview.study(events, self._intake.source, {}):
            kept = discarded if stopped.code == "discarded" else refused
            kept[owners[stopped.origin]] = f"{stopped.code}: {stopped.reason}"
        for letter in batch:
            name = letter.letter_id
            outcome = "refused" if name in refused else "discarded" if name in discarded else "loaded"
            reason = refused.get(name) or discarded.get(name, "")
            yield Result(name, letter.event_id, outcome, tables.get(name) or letter.table_name or "", reason)

    def _reused(self, conn: psycopg.Connection[Any], table: str, events: Sequence[Event]) -> list[str]:
        there = self.preview.ground.snapshot.tables.get(table)
        if there is None or names.EVENT_DIGEST not in there.columns:
            return []
        query = sql.SQL("select _dlt_id, _event_digest from {} where _dlt_id = any(%s)")
        ids = {dlt_id(event.identity): event for event in events}
        stored = conn.execute(query.format(sql.Identifier(self.dataset, table)), (list(ids),)).fetchall()
        return [ids[row[0]].message.ack_id for row in stored if row[1] is not None and row[1] != ids[row[0]].digest]
