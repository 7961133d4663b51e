"""Faults at set shares of the backlog, so that a run of any length meets all of them."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from random import Random

from loader.bench.fleet.plan import FleetPlan

FIRST, LAST = 0.05, 0.9
"""Shares of the backlog between which faults happen: afterwards there is enough left to be lost."""
_BURSTS = 10


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """What happens once this share of the backlog is acked."""

    share: float
    kind: str
    """`restart` or `crash` of Postgres, `cut` of all streams, `kill` of a worker, `redeliver`."""
    count: int = 1
    """Deliveries that are doubled, with `redeliver`."""


def schedule(plan: FleetPlan, *, restarts: bool, breaks: bool) -> list[Fault]:
    """The faults of a run in order. `restarts`: whether Postgres is ours; `breaks`: whether Pub/Sub can be told to."""
    rng = Random(f"faults {plan.seed}")
    found = [Fault(share, "kill") for share in _shares(rng, plan.kills)]
    found += [
        Fault(share, "crash" if number % 2 else "restart")
        for number, share in enumerate(_shares(rng, plan.restarts))
        if restarts
    ]
    if breaks:
        found += [Fault(share, "cut") for share in _shares(rng, plan.cuts)]
        bursts = min(_BURSTS, plan.doubled_deliveries)
        found += [
            Fault(share, "redeliver", plan.doubled_deliveries * (number + 1) // bursts - done)
            for number, share in enumerate(_shares(rng, bursts))
            for done in [plan.doubled_deliveries * number // bursts]
        ]
    return sorted(found)


def _shares(rng: Random, count: int) -> list[float]:
    """Each in a stretch of its own, so that they do not come all at once."""
    return sorted(FIRST + (LAST - FIRST) * (number + rng.random()) / count for number in range(count))


class Pending:
    """The faults that have not happened yet."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = deque(sorted(faults))
        self.happened: Counter[str] = Counter()

    def due(self, share: float) -> Fault | None:
        """The next one, if its time has come."""
        return self._faults[0] if self._faults and self._faults[0].share <= share else None

    def done(self, fault: Fault) -> None:
        """It happened."""
        self._faults.remove(fault)
        self.happened[fault.kind] += fault.count

    def __len__(self) -> int:
        return len(self._faults)
