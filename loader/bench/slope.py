"""The slope of a series, with its standard error: whether something grows, or only swings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Slope(NamedTuple):
    """Units a second."""

    value: float
    error: float
    """Standard error; a slope within two of them is no slope."""

    @property
    def flat(self) -> bool:
        """Whether the series may as well be level."""
        return abs(self.value) <= 2 * self.error or self.value == 0


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
