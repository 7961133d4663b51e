"""How a run went over time: backlog, serving workers, and the age of what was loaded."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment."""

    seconds: float
    """Real ones since the fleet was let at the backlog."""
    backlog: int
    """Unacked messages."""
    target: int
    """Of the autoscaler."""
    workers: int
    """That serve."""
    age: float
    """Publish to commit, in real seconds: of the oldest event in the loads since the sample before."""


class Course:
    """Samples at even distances."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next = 0.0
        self.samples: list[Sample] = []
        self.serving_seconds = 0.0
        """Real seconds of serving workers, summed up."""
        self._last = 0.0

    def note(self, seconds: float, backlog: int, target: int, workers: int, ages: Ages) -> None:
        """What is seen at a tick; kept when it is time for a sample."""
        self.serving_seconds += (seconds - self._last) * workers
        self._last = seconds
        if seconds >= self._next:
            self._next = seconds + self._every
            before = self.samples[-1].age if self.samples else 0.0
            self.samples.append(Sample(seconds, backlog, target, workers, ages.take(before)))

    def as_dict(self, most: int = 200) -> dict[str, list[float]]:
        """A list for each figure, for JSON: every so many samples, so that there are at most so many, and the last."""
        kept: dict[str, list[float]] = {}
        step = -(-len(self.samples) // most) or 1
        for sample in reversed(self.samples[::-1][::step]):
            values: dict[str, Any] = asdict(sample)
            for name, value in values.items():
                kept.setdefault(name, []).append(round(value, 2))
        return kept


class Ages:
    """Ages that the workers tell, from their threads. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._most: float | None = None

    def hear(self, at: float, age: float) -> None:
        """A load was committed."""
        with self._lock:
            self._most = age if self._most is None else max(self._most, age)

    def take(self, otherwise: float) -> float:
        """The greatest since it was last asked; `otherwise` when nothing was loaded."""
        with self._lock:
            most, self._most = self._most, None
        return otherwise if most is None else most
