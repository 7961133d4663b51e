"""What a lane is given to store: messages that are decoded on the way, or events that were decoded before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from loader.copy.bundle_load import Discard
from loader.dead_letter.letter import Letter
from loader.message.message import Event, Message
from loader.worker.intake import Intake


class Batch(Protocol):
    """Read anew for each attempt, so that an outage costs no memory."""

    discards: Sequence[Discard]
    attempt: int
    minority: bool

    def events(self) -> Iterable[Event]:
        """The events, without those that cannot be understood."""

    def letters(self) -> Sequence[Letter]:
        """Letters of what could not be understood; complete once `events` has been read to its end."""

    def halves(self) -> tuple[Batch, Batch] | None:
        """Two batches with half of the work each; None for a single piece."""


class MessageBatch:
    """Messages of a bundle."""

    discards: Sequence[Discard] = ()
    attempt = 0
    minority = False

    def __init__(self, intake: Intake, messages: Sequence[Message]) -> None:
        self._intake = intake
        self._messages = messages

    def events(self) -> Iterable[Event]:
        return self._intake.events(self._messages)

    def letters(self) -> Sequence[Letter]:
        return self._intake.letters

    def halves(self) -> tuple[Batch, Batch] | None:
        middle = len(self._messages) // 2
        if middle == 0:
            # One message may hold thousands of events; their records are read again when they are asked for.
            return EventBatch([event._replace(record=None) for event in self.events()]).halves()
        first, second = self._messages[:middle], self._messages[middle:]
        return MessageBatch(self._intake, first), MessageBatch(self._intake, second)


class EventBatch:
    """Events that were decoded before: learned, held or replayed ones."""

    def __init__(
        self,
        events: Sequence[Event],
        letters: Sequence[Letter] = (),
        discards: Sequence[Discard] = (),
        attempt: int = 0,
        minority: bool = False,
    ) -> None:
        self._events = events
        self._letters = letters
        self.discards = discards
        self.attempt = attempt
        self.minority = minority

    def events(self) -> Iterable[Event]:
        return self._events

    def letters(self) -> Sequence[Letter]:
        return self._letters

    def halves(self) -> tuple[Batch, Batch] | None:
        middle = len(self._events) // 2
        if not self._events or not (middle or self._letters or self.discards):
            return None
        return (
            EventBatch(self._events[:middle], self._letters, self.discards, self.attempt, self.minority),
            EventBatch(self._events[middle:], (), (), self.attempt, self.minority),
        )
