"""Events that the database refused together with many others: kept, and tried again later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from loader.copy.bundle_load import Held
from loader.message.message import Event

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 30.0


@dataclass(slots=True)
class Waiting:
    """Held events and when to try them again."""

    held: Held
    attempt: int
    due: float


class HeldEvents:
    """For the loading thread. A minority waits 1, 2, 4 and 8 seconds, a majority for ever, each 30 s at last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: list[Waiting] = []

    def add(self, held: Held, attempt: int) -> None:
        """Keep events that were held for the `attempt`th time."""
        seconds = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(attempt - 1, 10))
        self._waiting.append(Waiting(held, attempt, self._clock() + seconds))

    def due(self) -> Waiting | None:
        """Events whose time has come."""
        now = self._clock()
        for waiting in self._waiting:
            if waiting.due <= now:
                self._waiting.remove(waiting)
                return waiting
        return None

    def __len__(self) -> int:
        return sum(len(waiting.held.events) for waiting in self._waiting)

    @property
    def alert(self) -> str | None:
        """Why events are held; None when none are."""
        if not self._waiting:
            return None
        held = self._waiting[0].held
        return f"{len(self)} events are held: the database refuses them with SQLSTATE {held.sqlstate} ({held.detail})"

    def give_up(self) -> list[Event]:
        """All events, to be given back."""
        events = [event for waiting in self._waiting for event in waiting.held.events]
        self._waiting.clear()
        return events
