"""A day of traffic: a curve between night and noon, and a spike or two."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages a second over a day. `spike_at` is in hours, the spike multiplies what the curve gives; `again_after`
    is from the start of the spike to that of a second one, in seconds, 0 for none."""

    least: float = 200.0
    most: float = 500.0
    peak_hour: float = 14.0
    spike: float = 50.0
    spike_at: float = 18.0
    spike_seconds: float = 600.0
    again_after: float = 0.0

    def rate(self, second: float) -> float:
        """Messages a second at a second of the day."""
        turn = math.cos((second / 3600 - self.peak_hour) / 24 * 2 * math.pi)
        rate = (self.least + self.most) / 2 + (self.most - self.least) / 2 * turn
        since = second - self.spike_at * 3600
        again = since - self.again_after if self.again_after else -1
        spiking = 0 <= since < self.spike_seconds or 0 <= again < self.spike_seconds
        return rate * self.spike if spiking else rate

    def arrivals(self, step: int, seconds: int = DAY) -> Iterator[int]:
        """Whole messages of each step; what rounding leaves over comes with the next."""
        rest = 0.0
        for start in range(0, seconds, step):
            rest += self.rate(start) * step
            whole = int(rest)
            rest -= whole
            yield whole
