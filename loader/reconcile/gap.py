"""A disagreement between two sources."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MOST_LISTED = 1_000
"""Gaps that one comparison names; that there are more is said."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What should be there and is not, or is there and should not be."""

    source: str
    """`receipts`, `offsets`, `expected` or `topic`."""
    subject: str
    """What is short: a load and table, a partition, an id."""
    expected: int
    found: int
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Checked:
    """One comparison that was made, or why it was not."""

    source: str
    compared: str
    gaps: tuple[Gap, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
