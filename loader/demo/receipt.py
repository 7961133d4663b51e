"""The receipt: what was published against what is there, each side counted by somebody else."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Receipt:
    """published + redelivered = loaded + duplicates + dead-lettered + discarded."""

    published: int
    """Messages that Pub/Sub confirmed to the publisher, or that Kafka did and the bridge makes of it."""
    repeats: int
    """Of those: sent again under the same event id."""
    loaded: int
    """count(*) over the root tables."""
    duplicates: int
    """Left out by the worker because their event was stored already, by its receipts."""
    dead_lettered: int
    """count(*) of open dead letters."""
    discarded: int
    """Left out by a schema contract; the demo sets none."""

    @property
    def redelivered(self) -> int:
        """Duplicates beyond those that the publisher made: deliveries that Pub/Sub repeated, as it may."""
        return max(0, self.duplicates - self.repeats)

    @property
    def accounted(self) -> int:
        """The right side."""
        return self.loaded + self.duplicates + self.dead_lettered + self.discarded

    @property
    def difference(self) -> int:
        """Right side minus left side: below 0 events are missing, above 0 some are there twice."""
        return self.accounted - self.published - self.redelivered

    @property
    def balanced(self) -> bool:
        """Nothing lost, nothing doubled."""
        return self.difference == 0

    @property
    def verdict(self) -> str:
        """In words."""
        if self.balanced:
            return "It balances: nothing lost, nothing doubled."
        if self.difference < 0:
            return f"It does not balance: {-self.difference:,} published events are not accounted for."
        return f"It does not balance: {self.difference:,} more events are there than were published."

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **asdict(self),
            "redelivered": self.redelivered,
            "difference": self.difference,
            "balanced": self.balanced,
        }
