"""What waits in a subscription: counts by time of arrival, the oldest first, and how old they were when loaded."""

from __future__ import annotations

import math
from collections import Counter, deque


class Backlog:
    """Messages that wait, those that a killed worker held (hidden until their lease ends), and ages of the loaded."""

    def __init__(self) -> None:
        self._cohorts: deque[tuple[int, int]] = deque()
        self._leased: list[tuple[float, list[tuple[int, int]]]] = []
        self.waiting = 0
        self.leased = 0
        self.loaded = 0
        self.redelivered = 0
        self.ages: Counter[int] = Counter()
        """Messages by seconds from arrival to being taken."""

    def arrive(self, now: int, count: int) -> None:
        """Messages are published."""
        if count:
            self._cohorts.append((now, count))
            self.waiting += count

    def load(self, now: int, most: int) -> int:
        """Load up to `most`, the oldest first; how many there were."""
        taken = self._take(most)
        for arrived, count in taken:
            self.ages[now - arrived] += count
        total = sum(count for _, count in taken)
        self.loaded += total
        return total

    def oldest(self, now: int) -> int:
        """Seconds that the oldest has waited, hidden ones included; 0 when none waits."""
        arrivals = [cohorts[0][0] for _, cohorts in self._leased]
        if self._cohorts:
            arrivals.append(self._cohorts[0][0])
        return now - min(arrivals) if arrivals else 0

    def lose(self, held: int, until: float) -> None:
        """A worker is killed with this many pulled: nobody gets them before their lease ends."""
        taken = self._take(held)
        if taken:
            self._leased.append((until, taken))
            self.leased += sum(count for _, count in taken)

    def expire(self, now: float) -> None:
        """Leases that have ended: their messages wait again, in front."""
        if not self._leased:
            return
        for _, cohorts in [each for each in self._leased if each[0] <= now]:
            count = sum(number for _, number in cohorts)
            self._cohorts.extendleft(reversed(cohorts))
            self.waiting += count
            self.leased -= count
            self.redelivered += count
        self._leased = [each for each in self._leased if each[0] > now]

    def _take(self, most: int) -> list[tuple[int, int]]:
        taken = []
        while most > 0 and self._cohorts:
            arrived, count = self._cohorts[0]
            if count > most:
                self._cohorts[0] = (arrived, count - most)
                count = most
            else:
                self._cohorts.popleft()
            taken.append((arrived, count))
            self.waiting -= count
            most -= count
        return taken


def quantile(ages: Counter[int], share: float) -> int:
    """The age that `share` of the messages do not exceed; 0 when there are none."""
    wanted = max(1, math.ceil(share * ages.total() - 1e-9))
    seen = 0
    for age in sorted(ages):
        seen += ages[age]
        if seen >= wanted:
            return age
    return 0
