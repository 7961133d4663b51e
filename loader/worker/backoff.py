"""Exponential backoff with jitter, cut short when the worker stops."""

from __future__ import annotations

import random
import threading


class Backoff:
    """Waits longer each time, up to a limit; `reset` after a success."""

    def __init__(self, first_seconds: float = 0.2, longest_seconds: float = 15.0) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._next = first_seconds

    def reset(self) -> None:
        """Begin again with the shortest wait."""
        self._next = self._first

    def wait(self, stop: threading.Event) -> bool:
        """Wait; True if `stop` was set before or meanwhile."""
        seconds = self._next * random.uniform(0.7, 1.3)
        self._next = min(self._next * 2, self._longest)
        return stop.wait(seconds)
