"""How old messages are when a sink confirms them, counted from the moment they were read."""

from __future__ import annotations

import time
from bisect import bisect_left

from loader.bridge.engine.bucket import Share

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the classes, in seconds; one more class is for what is older."""


class Ticket(Share):
    """A share on its way through stages and sinks, with the time at which its messages were read."""

    __slots__ = ("_share", "_since")

    def __init__(self, share: Share) -> None:
        self._share = share
        self._since = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds."""
        return time.monotonic() - self._since

    @property
    def done(self) -> bool:
        return self._share.done

    def give(self, count: int) -> None:
        self._share.give(count)

    def confirm(self, count: int) -> None:
        self._share.confirm(count)


class Ages:
    """A histogram. Written by a pipeline under its lock."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, age: float, count: int) -> None:
        """So many messages of this age, in seconds."""
        self.counts[bisect_left(BOUNDS, age)] += count
        self.total += age * count

    def quantile(self, part: float) -> float:
        """Upper bound of the class in which this part of all messages is reached; 0 without messages."""
        wanted, seen = part * sum(self.counts), 0
        for count, bound in zip(self.counts, (*BOUNDS, float("inf")), strict=True):
            seen += count
            if count and seen >= wanted:
                return bound
        return 0.0
