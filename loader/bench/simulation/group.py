"""The VMs of a managed instance group: created, booting, serving, taken back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Vm:
    """One VM: when it serves, and when the cloud takes it back."""

    ready: float
    preempted: float


class Group:
    """VMs of one group. `preemptions_per_hour` is of each VM; 0 for standard ones."""

    def __init__(self, size: int, rng: Random, boot_seconds: float, preemptions_per_hour: float) -> None:
        self._rng, self._boot, self._hazard = rng, boot_seconds, preemptions_per_hour / 3600
        self.preempted = 0
        self._none_before = 0.0
        self._vms = [self._make(0.0, 0.0) for _ in range(size)]

    def _make(self, now: float, boot: float) -> Vm:
        life = self._rng.expovariate(self._hazard) if self._hazard else math.inf
        return Vm(now + boot, now + life)

    def __len__(self) -> int:
        return len(self._vms)

    def serving(self, now: float) -> int:
        """VMs that pull."""
        return sum(vm.ready <= now for vm in self._vms)

    def preempt(self, now: float) -> None:
        """Those whose time has come go. They drain first: SIGTERM comes 30 s before."""
        kept = [vm for vm in self._vms if vm.preempted > now]
        self.preempted += len(self._vms) - len(kept)
        self._vms = kept

    def take_all(self, now: float, outage_seconds: float) -> int:
        """Every VM is gone at once and there is no capacity for a while; how many of them served."""
        served = self.serving(now)
        self.preempted += len(self._vms)
        self._vms = []
        self._none_before = now + outage_seconds
        return served

    def resize(self, now: float, target: int) -> None:
        """Create what is missing (if there is capacity), remove the surplus: those that do not serve yet first."""
        if len(self._vms) > target:
            self._vms = sorted(self._vms, key=lambda vm: vm.ready)[:target]
        if now >= self._none_before:
            while len(self._vms) < target:
                self._vms.append(self._make(now, self._boot))
