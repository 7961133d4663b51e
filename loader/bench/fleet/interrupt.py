"""Ctrl-C and SIGTERM: an exception at a moment when nothing can be lost, and only one.

Raised in the middle of starting a process, it would leave one behind that nobody knows of; raised while all is being
ended, it would leave the rest."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """A context manager for the main thread; within it the first signal raises KeyboardInterrupt, later ones do not."""

    def __init__(self) -> None:
        self._held = 0
        self._asked = self._raised = False

    def __enter__(self) -> Interrupt:
        self._former = {number: signal.signal(number, self._on_signal) for number in _NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """A signal that comes within waits for the end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self._raise()

    def _on_signal(self, *_: object) -> None:
        self._asked = True
        self._raise()

    def _raise(self) -> None:
        if self._asked and not self._held and not self._raised:
            self._raised = True
            raise KeyboardInterrupt
