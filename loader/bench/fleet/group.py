"""The managed instance group with real processes: VMs that boot, run a worker, and are taken back.

A plain state machine: it is told the time, and starts and signals processes through what it is given."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from loader.bench.fleet.preemption import Fate, Preemptions
from loader.bench.fleet.worker import Process


class State(enum.Enum):
    """Of a VM."""

    BOOTING = "booting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(slots=True, eq=False)
class Vm:
    """One VM. Times named `_at` are fleet seconds, `kill_by` is a real time."""

    number: int
    created_at: float
    boots_at: float
    preempted_at: float
    outright: bool
    state: State = State.BOOTING
    process: Process | None = None
    started: float = 0.0
    kill_by: float = math.inf

    @property
    def serving(self) -> bool:
        """Its worker pulls, and nobody told it to stop."""
        return self.state is State.RUNNING and self.process is not None and self.process.ready


class Group:
    """VMs up to a target size. Those that are stopping do not count, as in Google's group."""

    def __init__(
        self,
        launch: Callable[[int], Process],
        preemptions: Preemptions,
        boot_seconds: float,
        grace_seconds: float,
    ) -> None:
        self._launch, self._preemptions = launch, preemptions
        self._boot, self._grace = boot_seconds, grace_seconds
        self._vms: list[Vm] = []
        self._made = 0
        self.counts: Counter[str] = Counter()
        """created, preempted (with warning), killed (without), scaled_in, killed_after_grace, drained."""
        self.unasked: list[str] = []
        """Workers that ended though nobody made them."""
        self.fleet_seconds = 0.0
        """VM time from creation to the end, of those that have ended."""
        self.real_seconds = 0.0
        """The same of processes, in real time."""

    def __len__(self) -> int:
        return len(self._members())

    @property
    def serving(self) -> list[Vm]:
        """VMs that pull, the oldest first."""
        return [vm for vm in self._vms if vm.serving]

    @property
    def running(self) -> int:
        """VMs that have a process, stopping ones included."""
        return sum(vm.process is not None for vm in self._vms)

    def _members(self) -> list[Vm]:
        return [vm for vm in self._vms if vm.state is not State.STOPPING]

    def resize(self, now: float, real: float, target: int, *, booted: bool = False) -> None:
        """Create what is missing, take the surplus away: those that do not serve yet first, then the youngest."""
        members = self._members()
        while len(members) < target:
            members.append(self._create(now, 0.0 if booted else self._boot))
        for vm in sorted(members, key=lambda vm: (vm.serving, -vm.number))[: len(members) - target]:
            self.counts["scaled_in"] += 1
            self._warn(vm, now, real)

    def _create(self, now: float, boot: float) -> Vm:
        fate: Fate = self._preemptions.draw()
        vm = Vm(self._made, now, now + boot, now + fate.life_seconds, fate.outright)
        self._made += 1
        self.counts["created"] += 1
        self._vms.append(vm)
        return vm

    def tick(self, now: float, real: float) -> None:
        """Start workers whose VM has booted, preempt those whose time has come, and bury those that have ended."""
        for vm in list(self._vms):
            if vm.process is not None and vm.process.poll() is not None:
                self._ended(vm, now, real)
            elif vm.state is not State.STOPPING and now >= vm.preempted_at:
                if vm.outright:
                    self.kill(vm, now, real)
                else:
                    self.counts["preempted"] += 1
                    self._warn(vm, now, real)
            elif vm.state is State.BOOTING and now >= vm.boots_at:
                vm.process, vm.started, vm.state = self._launch(vm.number), real, State.RUNNING
            elif vm.process is not None and real >= vm.kill_by:
                self.counts["killed_after_grace"] += 1
                vm.process.kill()
                self._remove(vm, now, real)

    def kill(self, vm: Vm, now: float, real: float) -> None:
        """kill -9 of a VM's worker; the VM is gone."""
        self.counts["killed"] += 1
        if vm.process is not None:
            vm.process.kill()
        self._remove(vm, now, real)

    def stop_all(self, now: float, real: float) -> None:
        """SIGTERM to all: the run is over."""
        for vm in self._members():
            self._warn(vm, now, real)

    def hours(self, now: float, real: float) -> tuple[float, float]:
        """Hours of all VMs so far, in fleet time from their creation, and of all processes in real time."""
        fleet = self.fleet_seconds + sum(now - vm.created_at for vm in self._vms)
        processes = self.real_seconds + sum(real - vm.started for vm in self._vms if vm.process is not None)
        return fleet / 3600, processes / 3600

    def _warn(self, vm: Vm, now: float, real: float) -> None:
        if vm.process is None:
            self._remove(vm, now, real)
            return
        vm.state, vm.kill_by = State.STOPPING, real + self._grace
        vm.process.terminate()

    def _ended(self, vm: Vm, now: float, real: float) -> None:
        assert vm.process is not None
        code = vm.process.poll()
        if vm.state is State.STOPPING and code == 0:
            self.counts["drained"] += 1
        elif not (vm.state is State.STOPPING and code == -15):
            # -15: told to stop before it had set up its handlers; it held nothing then.
            self.unasked.append(f"worker {vm.number} ended with exit code {code}: {vm.process.said()}")
        self._remove(vm, now, real)

    def _remove(self, vm: Vm, now: float, real: float) -> None:
        self._vms.remove(vm)
        self.fleet_seconds += now - vm.created_at
        if vm.process is not None:
            self.real_seconds += real - vm.started
