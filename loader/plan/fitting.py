"""Fits the events of a bundle: each is placed, or set aside as a misfit, a duplicate, a reused identity or refused."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, repeat
from operator import le
from typing import Any

from loader.message.identity import dlt_id, dlt_ids
from loader.message.message import Event, Refused
from loader.plan.book import Book
from loader.plan.columnar import Block, lay_out
from loader.plan.fit import Fitter, Rows
from loader.plan.kind import InexactNumber
from loader.plan.policy import Misfit, Policy
from loader.plan.timestamp import from_micros, texts_from_micros

log = logging.getLogger(__name__)

_new = tuple.__new__  # a NamedTuple's own constructor is a Python function

_BATCH = 1_000
"""Events whose records are in memory at a time. More of them are laid out a little faster, and weigh 2 KB each."""
_MANY_FAULTS = 20
"""So many faults, and more than 1 % of the events: then it is not the messages, and nothing is dead-lettered."""


@dataclass(frozen=True, slots=True)
class Source:
    """What fitting may ask about an event beyond its record: how to read its message again."""

    record: Callable[[Event], dict[str, Any]]
    """The record of an event that was set aside without it. Raises Refused."""
    exact: Callable[[Event], dict[str, Any]]
    """The record with every digit of every integer. Raises Refused."""
    attributes: Callable[[Event], str] | None = None
    """JSON text for `_attributes`; None when LOADER_KEEP_ATTRIBUTES is off."""
    raw: Callable[[Event], str] | None = None
    """JSON text for `_raw`; None when LOADER_KEEP_RAW is off."""

    @property
    def kept(self) -> tuple[Callable[[Event], str], ...]:
        """What fills the last of `Book.root_columns()`, in their order."""
        return tuple(keep for keep in (self.attributes, self.raw) if keep is not None)


@dataclass(slots=True)
class Fitted:
    """What fitting made of events. Numbers in `tables[…].owners` are positions in `events`."""

    load_id: str
    events: list[Event] = field(default_factory=list)
    row_ids: list[str] = field(default_factory=list)
    """The root row's `_dlt_id` of each event."""
    roots: list[str] = field(default_factory=list)
    """The root table in which each event's row is; differs from `event.table` once all tables are taken."""
    tables: dict[str, Rows] = field(default_factory=dict)
    misfits: list[Event] = field(default_factory=list)
    duplicates: list[Event] = field(default_factory=list)
    """The same event again within these events."""
    duplicate_of: list[int] = field(default_factory=list)
    """For each of the duplicates, which of the `events` it repeats: it shares that one's fate."""
    reused: list[Event] = field(default_factory=list)
    """Another body under an identity that is among the `events` of its table."""
    reused_of: list[int] = field(default_factory=list)
    """For each of the reused, which of the `events` has its identity."""
    refused: list[tuple[Event, str]] = field(default_factory=list)
    """Events that no learning can place, with the reason."""
    discarded_values: int = 0


def fit_events(
    book: Book, events: Iterable[Event], load_id: str, source: Source, policy: Policy | None = None
) -> Fitted:
    """Fit events, then put the rows in the order of their identities: all workers lock in one order.

    `events` may be a generator: records are let go as soon as they are fitted (a parsed record takes several times
    the memory of its body), so the events that come back have none. Events may come without one as well.
    """
    fitting = _Fitting(book, load_id, source, policy)
    each = iter(events)
    while batch := list(islice(each, _BATCH)):
        fitting.add(batch)
    return fitting.finish()


class _Fitting:
    def __init__(self, book: Book, load_id: str, source: Source, policy: Policy | None) -> None:
        self.fitted = Fitted(load_id)
        self._book = book
        self._source = source
        self._fitter = Fitter(book, policy)
        self.fitted.tables = self._fitter.tables
        self._by_column = not self._fitter.policy.drafts
        self._seen: dict[str, dict[str, int]] = {}
        """By table, as the unique index is: what becomes of an event must not depend on who is in its bundle."""
        self._faults = 0

    def add(self, batch: list[Event]) -> None:
        """Lay out by column what can be, and walk the rest in the order in which it came, table by table."""
        left: Iterable[Event] = batch
        if self._by_column:
            try:
                left = self._lay_out(batch)
            except Exception:
                # A fault of ours: the walk does without, and finds the message that brings it out if it has it too.
                self._by_column = False
                log.exception("events could not be laid out by column; they are walked one by one")
        for event in left:
            self._walk(event)

    def _lay_out(self, batch: list[Event]) -> list[Event]:
        """Place what can be laid out; the events that are left."""
        by_table: dict[str, list[Event]] = {}
        if len({event.table for event in batch}) == 1:
            by_table[batch[0].table] = batch
        else:
            for event in batch:
                by_table.setdefault(event.table, []).append(event)
        outcome = [(table, *self._blocks(table, events)) for table, events in by_table.items()]
        # Only now is anything placed: what fails above has left no trace.
        left: list[Event] = []
        for table, events, blocks, others in outcome:
            left += others
            system = self._system(events) if events else None
            if system is None:
                left += events
            else:
                self._place(table, events, blocks, system)
        return left

    def _blocks(self, table: str, events: list[Event]) -> tuple[list[Event], list[Block], list[Event]]:
        """Of one table: the events that can be placed, the blocks that hold their rows, the other events."""
        plan = self._book.plans.get(table)
        if plan is None:
            return [], [], events
        others: list[Event] = []
        identities = [event.identity for event in events]
        records = [event.record for event in events]
        seen = self._seen.setdefault(table, {})
        if None in records or len(set(identities)) < len(identities) or not seen.keys().isdisjoint(identities):
            counts = Counter(identities)
            fine = [
                event.record is not None and counts[event.identity] == 1 and event.identity not in seen
                for event in events
            ]
            others = [event for event, good in zip(events, fine, strict=True) if not good]
            events = list(compress(events, fine))
            records = list(compress(records, fine))
        laid_out = lay_out(plan, self._book.rules.max_nesting, records)  # type: ignore[arg-type]
        numbers = [number for _, positions in laid_out for number in positions]
        if numbers != list(range(len(events))):
            placed = set(numbers)
            others += [event for number, event in enumerate(events) if number not in placed]
            events = [events[number] for number in numbers]
        return events, [block for block, _ in laid_out], others

    def _place(self, table: str, events: list[Event], blocks: list[Block], system: list[Sequence[Any]]) -> None:
        fitted, first = self.fitted, len(self.fitted.events)
        self._fitter.place(blocks, system, first)
        messages, identities, numbers, tables, _ = zip(*events, strict=True)
        self._seen[table].update(zip(identities, range(first, first + len(events)), strict=True))
        fitted.events += map(
            _new, repeat(Event), zip(messages, identities, numbers, tables, repeat(None), strict=False)
        )
        fitted.row_ids += system[0]
        fitted.roots += [table] * len(events)

    def _system(self, events: list[Event]) -> list[Sequence[Any]] | None:
        """`Book.root_columns()` of all events, column by column; None when one of them cannot be had."""
        messages, identities, numbers, _, _ = zip(*events, strict=True)
        moments = texts_from_micros([message.published for message in messages])
        load_ids = [self.fitted.load_id] * len(events)
        system: list[Sequence[Any]] = [dlt_ids(identities), load_ids, identities, numbers, moments]
        try:
            system += [[keep(event) for event in events] for keep in self._source.kept]
        except (InexactNumber, Refused, ValueError):
            return None  # the walk finds out whose, and what becomes of it
        return system

    def _walk(self, event: Event) -> None:
        """Fit one event, or find what else becomes of it."""
        fitted, source = self.fitted, self._source
        message, identity, digest, table, record = event
        kept = _new(Event, (message, identity, digest, table, None))
        wanted = None
        if table not in self._book.tables:
            table, wanted = self._book.destination(table)
        seen = self._seen.setdefault(table, {})
        first = seen.get(identity)
        if first is not None:
            if first < 0:  # what becomes of the first is not known yet: they stay together
                fitted.misfits.append(kept)
            elif fitted.events[first].digest == digest:
                fitted.duplicates.append(kept)
                fitted.duplicate_of.append(first)
            else:
                fitted.reused.append(kept)
                fitted.reused_of.append(first)
            return
        row_id = dlt_id(identity)
        number = len(fitted.events)
        system: tuple[Any, ...] = (row_id, fitted.load_id, identity, digest, from_micros(message.published))
        try:
            system += tuple(keep(event) for keep in source.kept)
            if record is None:
                record = source.record(event)
            try:
                self._fitter.fit(number, table, record, system, False, wanted)
            except InexactNumber:
                self._fitter.fit(number, table, source.exact(event), system, True, wanted)
        except Misfit:
            seen[identity] = -1
            fitted.misfits.append(kept)
        except Refused as error:
            fitted.refused.append((kept, str(error)))
        except ValueError as error:
            fitted.refused.append((kept, f"cannot be placed: {error}"))
        except Exception as error:
            # A fault of ours that one message brings out must not end the fleet, one worker after the other.
            self._faults += 1
            if self._faults >= _MANY_FAULTS and self._faults > number / 100:
                raise
            fitted.refused.append((kept, f"internal error: {error!r}"))
            log.exception("event %r brought out a fault of the loader; it becomes a dead letter", identity)
        else:
            seen[identity] = number
            fitted.events.append(kept)
            fitted.row_ids.append(row_id)
            fitted.roots.append(table)

    def finish(self) -> Fitted:
        """Everything that was added, in the order in which it is to be written."""
        self.fitted.discarded_values = self._fitter.discarded_values
        _sort(self.fitted)
        return self.fitted


def _sort(fitted: Fitted) -> None:
    """Rows in the order of their events' identities; child rows keep their order within an event."""
    identities = [event.identity for event in fitted.events]
    for rows in fitted.tables.values():
        keys = [identities[owner] for owner in rows.owners]
        if all(map(le, keys, keys[1:])):
            continue  # they come so more often than not, and looking costs a tenth of sorting
        order = sorted(range(len(keys)), key=keys.__getitem__)
        rows.rows = [rows.rows[position] for position in order]
        rows.owners = [rows.owners[position] for position in order]
