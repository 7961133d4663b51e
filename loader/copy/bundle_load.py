"""What one transaction is to store: the rows of fitted events, their dead letters and what was discarded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from loader.dead_letter.letter import Letter
from loader.message.message import Event
from loader.plan.book import Table
from loader.plan.fit import Rows
from loader.plan.fitting import Fitted


@dataclass(frozen=True, slots=True)
class Discard:
    """An event, or values of events, left out by contract."""

    event_id: str
    table: str
    reason: str
    body: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """Events that the database refuses together with many others: kept and tried again, see Isolation."""

    events: list[Event]
    sqlstate: str
    detail: str
    majority: bool
    """Most events of the table were refused: then the database is at fault, and they are never dead letters."""


@dataclass(slots=True)
class Followers:
    """Events that share an identity with an event of the same load, by what becomes of them."""

    duplicates: list[Event] = field(default_factory=list)
    dead: list[Event] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    again: list[Event] = field(default_factory=list)


_STORED: list[object] = []


@dataclass(slots=True)
class BundleLoad:
    """Input and, once it is committed, outcome of one load."""

    fitted: Fitted
    letters: list[Letter] = field(default_factory=list)
    discards: list[Discard] = field(default_factory=list)
    discard_count: int = 0
    schema: tuple[str, str | None] = ("loader", None)
    """Name and hash of dlt's schema by which the rows were fitted, for `_dlt_loads`."""
    attempt: int = 0
    """How often these events were held before; 0 for events that come from the subscription."""
    minority: bool = False
    """They were held as a minority among good neighbours: the database is not at fault."""
    duplicates: list[Event] = field(default_factory=list)
    """Events whose rows were there already; once it is committed, also those that came twice in this load."""
    dead: list[Event] = field(default_factory=list)
    """Events that became letters while the load was written."""
    held: list[Held] = field(default_factory=list)
    again: list[Event] = field(default_factory=list)
    """Once it is committed: events under an identity whose first owner is not stored, so that it is theirs now."""
    moments: dict[str, list[int]] = field(default_factory=dict)
    """`published`, as it was when the load was written: receipts, the log and the metrics are made from it."""
    isolated: bool = False
    """Its rows were searched for refused ones."""
    copying: Rows | None = None
    """While it is written: the table whose rows are sent, to which an error belongs."""
    replaced: set[int] = field(default_factory=set)
    """Events of a backfill whose rows are written anew: the ones that are there make way in the same transaction."""
    dataset_tables: Mapping[str, Table] = field(default_factory=dict)
    """The dataset's tables, where `replaced` events may have rows."""
    cleared: set[str] = field(default_factory=set)
    """Once it is written: `_dlt_id` of the events that had rows before."""
    recheck: Callable[[psycopg.Cursor, BundleLoad], None] | None = None
    """Called in the transaction once all rows are in, when nobody can change their tables any more: raises when these
    are not as the rows were fitted to."""
    note: Callable[[psycopg.Cursor, BundleLoad], None] | None = None
    """What else is written in the transaction, at its end: the progress of a backfill."""
    checking: bool = False
    """While it is written: all rows are sent and the constraints that wait for the end are checked."""
    clearing: bool = False
    """While it is written: rows of `replaced` events are being deleted."""
    taken: dict[int, int | None] = field(default_factory=dict)
    """Digests of the stored events that have the identities of some of these, by the numbers of these."""
    patient: bool = True
    """An identity is tried for the next body where the first one is not stored."""
    followers: Followers = field(default_factory=Followers)
    """While it is written: what becomes of events that share an identity with one of the load."""
    _dropped: set[int] = field(default_factory=set)
    _unstored: set[int] = field(default_factory=set)
    """Those of the dropped that have no row in the database either."""
    _held: set[int] = field(default_factory=set)

    @property
    def live(self) -> int:
        """Events whose rows are to be stored."""
        return len(self.fitted.events) - len(self._dropped)

    def drop(self, sequences: Iterable[int], *, stored: bool = False) -> None:
        """Take events out, with all their rows in all tables. `stored`: because their rows are there already."""
        gone = set(sequences) - self._dropped
        if not gone:
            return
        if not stored:
            self._unstored |= gone
        self._dropped |= gone
        for rows in self.fitted.tables.values():
            keep = [position for position, owner in enumerate(rows.owners) if owner not in gone]
            if len(keep) < len(rows.owners):
                rows.rows = [rows.rows[position] for position in keep]
                rows.owners = [rows.owners[position] for position in keep]

    def hold(self, sequences: Sequence[int], sqlstate: str, detail: str, majority: bool) -> None:
        """Take events out to be tried again, and with them those that came twice: none of them is stored anywhere."""
        fitted, held = self.fitted, set(sequences)
        events = [fitted.events[sequence] for sequence in sequences]
        events += [event for event, first in zip(fitted.duplicates, fitted.duplicate_of, strict=True) if first in held]
        self.held.append(Held(events, sqlstate, detail, majority))
        self._held |= held
        self.drop(held)

    def follow(self, letter_of: Callable[[Event], Letter]) -> None:
        """Find out what becomes of the fitted duplicates and reused identities, as things stand now."""
        fitted, found = self.fitted, Followers()
        for event, first in zip(fitted.duplicates, fitted.duplicate_of, strict=True):
            if first not in self._unstored:
                found.duplicates.append(event)
            elif first not in self._held:
                found.dead.append(event)  # the letter of the first is its own, too
        for event, first in zip(fitted.reused, fitted.reused_of, strict=True):
            if first in self.taken and self.taken[first] == event.digest:
                found.duplicates.append(event)
            elif first in self._unstored and first not in self.taken and self.patient:
                found.again.append(event)
            else:
                found.dead.append(event)
                found.letters.append(letter_of(event))
        self.followers = found

    def committed(self) -> None:
        """The transaction is over: what was found out about the followers holds."""
        found, self.followers = self.followers, Followers()
        self.duplicates += found.duplicates
        self.dead += found.dead
        self.letters += found.letters
        self.again += found.again

    def published(self) -> dict[str, list[int]]:
        """Publish times (microseconds) of the events that are stored, by root table."""
        events, roots = self.fitted.events, self.fitted.roots
        distinct = set(roots)
        if len(distinct) == 1:
            moments = [event.message.published for event in self.loaded()]
            return {distinct.pop(): moments} if moments else {}
        published: dict[str, list[int]] = {root: [] for root in distinct}
        if self._dropped:
            for sequence in self.sequences():
                published[roots[sequence]].append(events[sequence].message.published)
        else:
            for root, event in zip(roots, events, strict=True):
                published[root].append(event.message.published)
        return {root: moments for root, moments in published.items() if moments}

    def let_go(self) -> None:
        """The rows are stored: only their number is kept, for they weigh as much as the messages they came from."""
        for rows in self.fitted.tables.values():
            rows.rows = [_STORED] * len(rows.rows)

    def loaded(self) -> list[Event]:
        """The events whose rows are stored."""
        if not self._dropped:
            return self.fitted.events
        return [event for sequence, event in enumerate(self.fitted.events) if sequence not in self._dropped]

    def sequences(self) -> list[int]:
        """Numbers of the events that are still to be stored."""
        return [sequence for sequence in range(len(self.fitted.events)) if sequence not in self._dropped]

    def tables(self) -> list[Rows]:
        """Tables with rows, in the order in which every worker writes them: a root sorts before its child tables."""
        return [self.fitted.tables[name] for name in sorted(self.fitted.tables) if self.fitted.tables[name].rows]
