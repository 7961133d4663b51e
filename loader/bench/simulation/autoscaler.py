"""The autoscaler of a managed instance group by Google's documented rules.

https://cloud.google.com/compute/docs/autoscaler: the size for a per-group metric is ceil(metric / assignment), for CPU
ceil(sum of the VMs' use / target); the greatest of the signals wins, within min and max; a group shrinks to no less
than the greatest size wanted in the stabilization period (10 minutes, or the initialization period if that is longer);
with scale-in controls by no more than so many VMs in a trailing window. How often it looks is not documented: here at
each call. A VM's CPU counts from when it serves; Google leaves it out for the whole initialization period, which only
makes the second signal slower.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

STABILIZATION_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What Terraform sets, by the names of the variable `workers`; the defaults are its defaults."""

    min: int = 2
    max: int = 10
    messages_per_second: float = 3_000.0
    drain_seconds: float = 60.0
    cpu_target: float | None = 0.7
    """None: the backlog is the only signal."""
    scale_in_replicas: int = 1
    scale_in_seconds: float = 300.0
    initialization_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not 0 <= self.min <= self.max or self.max < 1:
            raise ValueError(f"min {self.min} and max {self.max}: 0 <= min <= max and max >= 1 are needed")
        if self.assignment <= 0:
            raise ValueError(f"messages_per_second × drain_seconds is {self.assignment:g}: it must be above 0")

    @property
    def assignment(self) -> float:
        """Messages of backlog for each VM: single_instance_assignment."""
        return self.messages_per_second * self.drain_seconds


def wanted(policy: Policy, backlog: float, cpu_sum: float) -> int:
    """VMs for what is seen: a backlog in messages, and the use of all serving VMs together (1.0 is one VM, busy)."""
    size = math.ceil(backlog / policy.assignment)
    if policy.cpu_target is not None:
        # Without the slack, 1.4 / 0.7 would be three VMs.
        size = max(size, math.ceil(cpu_sum / policy.cpu_target - 1e-9))
    return min(policy.max, max(policy.min, size))


class Peak:
    """The greatest value of the last so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: deque[tuple[float, int]] = deque()

    def add(self, now: float, value: int) -> int:
        """Adds a value; the greatest of those younger than the window, this one included."""
        kept = self._kept
        while kept and kept[-1][1] <= value:
            kept.pop()
        kept.append((now, value))
        return self.value(now)

    def value(self, now: float) -> int:
        """The greatest of those younger than the window; 0 when there is none."""
        kept = self._kept
        while kept and kept[0][0] <= now - self._seconds:
            kept.popleft()
        return kept[0][1] if kept else 0


class Autoscaler:
    """Remembers what it wanted and what it set."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.target = policy.min
        self._wanted = Peak(max(STABILIZATION_SECONDS, policy.initialization_seconds))
        self._targets = Peak(policy.scale_in_seconds)

    def decide(self, now: float, backlog: float, cpu_sum: float) -> int:
        """The group's target size from now on."""
        stable = self._wanted.add(now, wanted(self.policy, backlog, cpu_sum))
        peak = self._targets.add(now, self.target)  # it was the size until now
        if stable < self.target:
            stable = min(self.target, max(stable, peak - self.policy.scale_in_replicas))
        self.target = stable
        return stable


class Metric:
    """A metric that is sampled at intervals and seen later, by a time that differs from sample to sample."""

    def __init__(self, rng: Random, latest: float, interval: float = 60.0) -> None:
        self._rng, self._latest, self._interval = rng, latest, interval
        self._next = 0.0
        self._on_the_way: list[tuple[float, float, float]] = []
        self._seen = (-math.inf, 0.0)

    def put(self, now: float, value: float) -> None:
        """Take a sample if it is time for one."""
        if now >= self._next:
            self._next = now - now % self._interval + self._interval
            self._on_the_way.append((now + self._rng.uniform(0.0, self._latest), now, value))

    def see(self, now: float) -> float:
        """The youngest sample that has arrived, 0 before the first. One that was overtaken is not seen any more."""
        arrived = [(taken, value) for at, taken, value in self._on_the_way if at <= now]
        if arrived:
            self._on_the_way = [each for each in self._on_the_way if each[0] > now]
            self._seen = max(self._seen, max(arrived))
        return self._seen[1]


def sizes(policy: Policy, backlogs: Iterable[float], step: float = 60.0) -> list[int]:
    """Target sizes for backlogs that are seen one each `step` seconds, without CPU."""
    scaler = Autoscaler(policy)
    return [scaler.decide(number * step, backlog, 0.0) for number, backlog in enumerate(backlogs)]
