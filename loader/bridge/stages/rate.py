"""A rate limit: how long to wait before the next messages may go."""

from __future__ import annotations

import time
from collections.abc import Callable


class Rate:
    """A bucket of tokens, one a message, that fills at `rate` a second up to `burst`."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self.tokens = burst
        self.filled_at = clock()

    def take(self, count: int) -> float:
        """Takes tokens for `count` messages, in advance if need be; seconds to wait for them."""
        now = self.clock()
        self.tokens = min(self.burst, self.tokens + (now - self.filled_at) * self.rate) - count
        self.filled_at = now
        return max(0.0, -self.tokens / self.rate)
