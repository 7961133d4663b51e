"""The receipt of a run: every message that was published is accounted for, by number and by content."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from loader.bench.fleet.ledger import Compared
from loader.bench.fleet.stored import Letters, Noted


@dataclass(frozen=True, slots=True)
class Line:
    """One demand of the receipt, for people, and whether it is met."""

    demand: str
    found: str
    met: bool


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was published, what is stored, and what the workers noted."""

    published: int
    """Messages that the Pub/Sub server took."""
    messages: int
    """Messages that the generator made."""
    twice: int
    """Of these, second publications of an event."""
    twice_loadable: int
    """Of these, of events that are no poison."""
    rows: int
    """Root rows in all tables."""
    content: Compared
    letters: Letters
    noted: Noted
    gaps: tuple[str, ...] = ()
    """Loads whose rows are not as many as their transactions noted."""
    unasked: tuple[str, ...] = ()
    """Workers that ended though nobody made them."""
    unacked: int = 0
    """Messages that the subscription still has."""
    lines: tuple[Line, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(self._lines()))

    @property
    def balanced(self) -> bool:
        """Every demand is met."""
        return all(line.met for line in self.lines)

    @property
    def duplicates_averted(self) -> int:
        """Deliveries that met their own rows, as the transactions noted: published twice, or delivered again."""
        return self.noted.duplicates

    def _lines(self) -> list[Line]:
        content, letters, noted = self.content, self.letters, self.noted
        accounted = self.rows + letters.open + self.twice
        return [
            Line(
                "published = rows + open dead letters + second publications",
                f"{self.published:,} = {self.rows:,} + {letters.open:,} + {self.twice:,}",
                self.published == self.messages == accounted,
            ),
            Line(
                "each event is one row with the values that were published, in all its tables",
                f"{content.missing:,} missing, {content.doubled:,} doubled, {content.different:,} different,"
                f" {content.unexpected:,} unexpected",
                content.equal,
            ),
            Line(
                "each poison message is one open dead letter with its body",
                f"{letters.missing:,} missing, {letters.doubled:,} doubled, {letters.different:,} different,"
                f" {letters.unexpected:,} unexpected",
                letters.right,
            ),
            Line(
                "rows = events that the loads' transactions noted",
                f"{self.rows:,} = {noted.events:,}",
                self.rows == noted.events,
            ),
            Line(
                "rows of each load in each table = its receipt",
                f"{len(self.gaps):,} gaps in {noted.loads:,} loads",
                not self.gaps,
            ),
            Line(
                "duplicates averted are at least the events published twice",
                f"{noted.duplicates:,} >= {self.twice_loadable:,}",
                noted.duplicates >= self.twice_loadable,
            ),
            Line("nothing is left in the subscription", f"{self.unacked:,} unacked", self.unacked == 0),
            Line("no worker ended by itself", f"{len(self.unasked):,} did", not self.unasked),
        ]

    def complaint(self) -> str:
        """What does not balance, with examples; empty when all does."""
        unmet = [f"{line.demand}: {line.found}" for line in self.lines if not line.met]
        examples = [*self.content.examples, *self.letters.examples, *self.gaps[:5], *self.unasked[:5]]
        return "; ".join(unmet) + (f" (such as {'; '.join(examples[:8])})" if unmet and examples else "")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        return {
            "balanced": self.balanced,
            "duplicates_averted": self.duplicates_averted,
            "complaint": self.complaint(),
            **found,
        }
