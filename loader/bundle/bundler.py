"""Fills windows from a puller. Pulling goes on in the puller's threads while the previous bundle loads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from loader.bundle.window import Bundle, Window
from loader.message.message import Message

_SLICE_SECONDS = 0.2
"""How late a stop may be noticed: a signal does not end a wait, and waking more often costs a quiet worker CPU."""


class Source(Protocol):
    """What a bundler needs of a puller."""

    @property
    def exhausted(self) -> bool: ...

    def take(self, timeout: float = ...) -> list[Message]: ...


class Stop(Protocol):
    """threading.Event, or anything like it."""

    def is_set(self) -> bool: ...


class Bundler:
    """One bundle after another. Messages beyond a bundle's limits are carried to the next."""

    def __init__(self, source: Source, window: Window, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is the window's."""
        self._source = source
        self._window = window
        self._clock = clock
        self._carry: list[Message] = []

    def next(self, stop: Stop, patience: float = 1.0) -> Bundle | None:
        """The next bundle; None when no message came within `patience` seconds, so that an idle loop can tick.

        Once `stop` is set it returns at once with what is gathered (`closed_by` 'stop'), then None."""
        window = self._window
        give_up = self._clock() + patience
        while True:
            if self._carry:
                self._carry = window.add(self._carry)
            now = self._clock()
            closed_by = window.closed_by(now)
            if closed_by is None and len(window) and self._source.exhausted:
                # What waits elsewhere (to be learned, to be tried again) takes up the rest of what may be held.
                closed_by = "flow"
            if closed_by is None and stop.is_set():
                closed_by = "stop"
            if closed_by is not None:
                return window.take(closed_by) if len(window) else None
            until = window.due
            if until is None:
                until = give_up
                if now >= give_up:
                    return None
            self._carry = self._source.take(timeout=min(_SLICE_SECONDS, max(0.001, until - now)))

    def rest(self) -> list[Message]:
        """Messages taken from the source and not yet in a bundle that was returned; they are forgotten here.

        For shutdown: nack them."""
        carry, self._carry = self._carry, []
        if len(self._window):
            carry = self._window.take("stop").messages + carry
        return carry
