"""A course over time as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BARS = " ▁▂▃▄▅▆▇█"


def bars(values: Sequence[float], width: int = 72, height: int = 4) -> list[str]:
    """Columns up to the greatest value, `height` lines; of the values that share a column the greatest counts."""
    if not values:
        return [""] * height
    width = min(width, len(values))
    cuts = [len(values) * each // width for each in range(width + 1)]
    columns = [max(values[start:end]) for start, end in pairwise(cuts)]
    top = max(columns) or 1.0
    eighths = [round(max(0.0, value) / top * height * 8) for value in columns]
    # What is more than nothing is seen.
    eighths = [max(count, 1) if value > 0 else 0 for count, value in zip(eighths, columns, strict=True)]
    return ["".join(_BARS[min(8, max(0, count - row * 8))] for count in eighths) for row in reversed(range(height))]


def chart(title: str, values: Sequence[float], hours: float = 24.0, width: int = 72) -> str:
    """A titled chart with its greatest value and the hours beneath."""
    width = min(width, len(values)) or 1
    ends = f"0 h{f'{hours:g} h':>{max(1, width - 3)}}"
    return "\n".join([f"{title}, at most {max(values, default=0):,.0f}", *bars(values, width), ends])
