"""Publish-to-commit ages: how many there were of each, to one per cent, in little memory."""

from __future__ import annotations

import math

_STEP = math.log(1.01)
_LEAST = 0.001


class Ages:
    """Quantiles of many ages in seconds, each within one per cent."""

    def __init__(self) -> None:
        self.count = 0
        self._counts: dict[int, int] = {}

    def add(self, seconds: float, count: int = 1) -> None:
        """Adds ages. Below a millisecond they count as one: clocks agree no better."""
        bucket = round(math.log(max(seconds, _LEAST)) / _STEP)
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.count += count

    def merge(self, other: Ages) -> None:
        """Adds those of another."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.count += other.count

    def quantile(self, share: float) -> float | None:
        """The age that `share` of all do not exceed; None when there are none."""
        wanted = max(1, math.ceil(share * self.count))
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return math.exp(bucket * _STEP)
        return None
