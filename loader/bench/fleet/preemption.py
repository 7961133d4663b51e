"""When the cloud takes a spot VM back, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Fate:
    """Of one VM."""

    life_seconds: float
    """Fleet seconds from creation to preemption; infinite when it is spared."""
    outright: bool
    """kill -9 without warning; else SIGTERM, and SIGKILL after the grace period."""


SPARED = Fate(math.inf, False)


class Preemptions:
    """Draws fates: the same for the same seed, in the order in which VMs are made."""

    def __init__(self, per_hour: float, outright: float, seed: int) -> None:
        """`per_hour` is of each VM, in fleet time; `outright` the share without warning."""
        self._hazard, self._outright = per_hour / 3600, outright
        self._rng = Random(f"preemptions {seed}")

    def draw(self) -> Fate:
        """The fate of the next VM."""
        life, outright = self._rng.random(), self._rng.random() < self._outright
        return Fate(-math.log(1.0 - life) / self._hazard, outright) if self._hazard else SPARED
