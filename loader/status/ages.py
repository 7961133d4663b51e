"""Percentiles of publish-to-commit ages from receipts, which know the youngest and the oldest event of each load."""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[float, float, int]
"""Youngest age, oldest age (seconds), events of a load."""

_STEPS = 40


def percentile(spans: Sequence[Span], share: float) -> float | None:
    """The age that `share` of the events do not exceed, None without events.

    The events of one load are taken to be spread evenly between its youngest and its oldest, which are at most a
    window apart while the fleet keeps up: the answer is off by less than that. It never leaves the range of the ages.
    """
    total = sum(count for _, _, count in spans)
    if total <= 0:
        return None
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    wanted = share * total
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(spans, middle) >= wanted:
            high = middle
        else:
            low = middle
    return high


def _at_most(spans: Sequence[Span], age: float) -> float:
    below = 0.0
    for youngest, oldest, count in spans:
        if age >= oldest:
            below += count
        elif age > youngest:
            below += count * (age - youngest) / (oldest - youngest)
    return below
