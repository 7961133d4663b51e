"""How near a worker end to end comes to the two things that it cannot do without: pulling, and COPY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

from loader.bench.measure import Cost, measure, summary
from loader.bench.messages import messages
from loader.bench.steps import copy_prepared, fitted_bundle
from loader.bench.target import Target, uncollected

GOAL = 0.6
"""Share of the slower ceiling, by the messages a second of one worker."""
_BUNDLE = 20_000
_BUNDLES = 4
_FIRST = 500_000_000


def starts() -> Iterator[int]:
    """Numbers of messages that nothing else of a benchmark loads, a bundle apart."""
    return count(_FIRST, _BUNDLE)


class CopyAlone:
    """COPY of rows that are ready, in bundles as a worker's, into the worker's own tables."""

    def __init__(
        self, target: Target, shape: str, server_pid: int | None, starts: Iterator[int], messages: int
    ) -> None:
        """`starts` gives the first number of each bundle, none of them twice for one target; `messages` is the worker's
        backlog, whose bundles are not larger than it."""
        self._target, self._shape, self._server_pid, self._starts = target, shape, server_pid, starts
        self._bundle = min(_BUNDLE, messages // _BUNDLES)
        self.costs: list[Cost] = []

    def run(self) -> None:
        """Measure once. What it loads stays in the tables; the rows are made outside the measured time."""
        for _ in range(_BUNDLES):
            batch = messages(self._shape, self._bundle, next(self._starts))
            with uncollected():
                fitted = fitted_bundle(self._target, batch)
                work = partial(copy_prepared, self._target.conn, self._target.dataset, fitted)
                self.costs.append(measure(work, self._bundle, self._server_pid))

    def summary(self) -> dict[str, Any]:
        """Medians over the bundles."""
        return dict(summary(self.costs))


def shares(ours: Mapping[str, Any], pull: Mapping[str, Any], copy: Mapping[str, Any]) -> dict[str, Any]:
    """What part of the ceilings a worker reaches.

    `wall`: its messages a second, of those of the slower ceiling: pulling and acknowledging alone, or COPY of rows that
    are ready. Both servers share the machine's cores with it, as they do with the ceilings. `cpu`: the dearer ceiling's
    CPU a message, of the worker's. `cpu_of_both`: what both ceilings cost together, which no worker can do without.
    """
    ceilings = {"pull_and_ack_only": pull, "copy_of_prepared_rows": copy}
    slower = min(ceilings, key=lambda name: ceilings[name]["messages_per_second_wall"])
    cpu = ours["cpu_us_per_message"]
    costs = [one["cpu_us_per_message"] for one in ceilings.values()]
    return {
        "slower": slower,
        "wall": round(ours["messages_per_second_wall"] / ceilings[slower]["messages_per_second_wall"], 3),
        "cpu": round(max(costs) / cpu, 3),
        "cpu_of_both": round(sum(costs) / cpu, 3),
    }
