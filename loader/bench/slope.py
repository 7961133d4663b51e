"""The slope of a series, with its standard error: whether something grows, or only swings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

BLOCKS = 40
"""Neighbouring samples of a process depend on one another, which makes an error computed from each of them too small:
the slope of a long series is that of so many means."""


class Slope(NamedTuple):
    """Units a second."""

    value: float
    error: float
    """Standard error; a slope within two of them is no slope."""

    @property
    def flat(self) -> bool:
        """Whether the series may as well be level."""
        return abs(self.value) <= 2 * self.error or self.value == 0

    def verdict(self, bound: float) -> str:
        """`flat`: level within two errors. `small`: a slope, but one below `bound`, which nobody would notice. Else
        `grows` or `falls`."""
        if self.flat:
            return "flat"
        if abs(self.value) <= bound:
            return "small"
        return "grows" if self.value > 0 else "falls"


def slope(times: Sequence[float], values: Sequence[float]) -> Slope:
    """Least squares. Raises ValueError for fewer than three points or no time between them."""
    count = len(times)
    if count < 3 or count != len(values):
        raise ValueError(f"a slope needs three points and more, not {count} times and {len(values)} values")
    middle = sum(times) / count
    level = sum(values) / count
    spread = sum((time - middle) ** 2 for time in times)
    if spread == 0:
        raise ValueError("a slope needs points at different times")
    value = sum((time - middle) * (y - level) for time, y in zip(times, values, strict=True)) / spread
    left = sum((y - level - value * (time - middle)) ** 2 for time, y in zip(times, values, strict=True))
    return Slope(value, math.sqrt(left / (count - 2) / spread))


def slope_of_means(times: Sequence[float], values: Sequence[float], blocks: int = BLOCKS) -> Slope:
    """The slope of the means of `blocks` stretches, where there are two samples and more for each; else as `slope`."""
    if len(times) < 2 * blocks:
        return slope(times, values)
    cuts = [len(times) * number // blocks for number in range(blocks + 1)]
    return slope(
        [fmean(times[start:end]) for start, end in pairwise(cuts)],
        [fmean(values[start:end]) for start, end in pairwise(cuts)],
    )
