"""An order: which messages of a subscription are a replay, which of them are left out, and whether rows are rewritten.

Plain data and plain rules. Moments are publish times in microseconds since the epoch, as messages have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loader.message.message import Event, Message
from loader.plan.fitting import Fitted


@dataclass(frozen=True, slots=True)
class Order:
    """One row of `_backfills` that is in force."""

    backfill_id: str
    since: int | None
    """None for a snapshot: everything that it brings back."""
    until: int | None
    ordered_at: int
    """What was published before is the replay's, what came later is new."""
    settled_before: int
    """All that was published before had been acked when the order was given: leaving it out loses nothing."""
    tables: frozenset[str] | None
    replace: bool
    aside: bool
    """Another subscription loads what is new."""

    def replays(self, published: int) -> bool:
        """Whether a message belongs to the replay."""
        return published < self.ordered_at and (self.since is None or published >= self.since)

    def skips(self, published: int, table: str | None) -> bool:
        """Whether an event (or a message that nobody understood: `table` None) is acked without being loaded.

        On the live subscription nothing is skipped but what had been acked before: a message from before `since` comes
        because it was never acked, or because a seek takes a minute to be true everywhere."""
        if not self.replays(published):
            return self.aside
        if not self.aside and published >= self.settled_before:
            return False
        if self.until is not None and published >= self.until:
            return True
        return self.tables is not None and table is not None and table not in self.tables

    def replaces(self, event: Event) -> bool:
        """Whether the event's rows are written anew where they are there."""
        published = event.message.published
        if not self.replace or not self.replays(published) or (self.until is not None and published >= self.until):
            return False
        return self.tables is None or event.table in self.tables


@dataclass(slots=True)
class Sift:
    """Lets the events of one load through, and keeps apart what the order leaves out."""

    order: Order
    skipped: list[Event] = field(default_factory=list)
    met: bool = False
    """Messages of the replay were among them."""

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events that are to be loaded."""
        order = self.order
        for event in events:
            published = event.message.published
            if not self.met and order.replays(published):
                self.met = True
            if order.skips(published, event.table):
                self.skipped.append(event._replace(record=None))
            else:
                yield event

    def keeps(self, message: Message, table: str | None) -> bool:
        """Whether a letter is wanted of this message."""
        if self.order.replays(message.published):
            self.met = True
        return not self.order.skips(message.published, table)

    def replaced(self, fitted: Fitted) -> set[int]:
        """Positions of the events whose rows are written anew."""
        if not self.order.replace:
            return set()
        return {position for position, event in enumerate(fitted.events) if self.order.replaces(event)}
