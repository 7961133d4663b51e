"""Plays the cloud around a fleet: autoscaler, boots, preemptions and faults, until the backlog is gone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random

from loader.bench.fleet.broker import Broker
from loader.bench.fleet.course import Ages, Course
from loader.bench.fleet.faults import Fault, Pending
from loader.bench.fleet.group import Group
from loader.bench.fleet.outage import Outages
from loader.bench.fleet.plan import FleetPlan
from loader.bench.simulation.autoscaler import Autoscaler, Metric
from loader.errors import LoaderError

_TICK = 0.1
_NOTE_SECONDS = 3.0
_STOP_SECONDS = 60.0


class Controller:
    """Real time goes by; the rules see it multiplied by `plan.compress`."""

    def __init__(
        self,
        plan: FleetPlan,
        group: Group,
        broker: Broker,
        unacked: Callable[[], int],
        pending: Pending,
        outages: Outages,
        ages: Ages,
        note: Callable[[str], None],
    ) -> None:
        """`unacked` is the backlog, the leased included; while the database is away it may be that of before."""
        self._plan, self._group, self._broker, self._unacked = plan, group, broker, unacked
        self._pending, self._outages, self._ages, self._note = pending, outages, ages, note
        self._rng = Random(f"controller {plan.seed}")
        self._scaler = Autoscaler(plan.policy())
        self._metric = Metric(Random(f"metric {plan.seed}"), plan.metric_late)
        self.course = Course(0.25)
        self.drain_seconds = 0.0
        """Real seconds until nothing was unacked."""
        self.hours = (0.0, 0.0)
        """Of workers until then: in fleet time, and of processes in real time."""
        self._before = (0.0, plan.messages)
        self._noted = 0.0

    @property
    def happened(self) -> Counter[str]:
        """Faults by kind."""
        return self._pending.happened

    @property
    def left(self) -> int:
        """Faults whose time did not come before the backlog was gone."""
        return len(self._pending)

    def drain(self) -> None:
        """Let the fleet at the backlog. Raises LoaderError when nothing moves for the plan's patience."""
        plan, group = self._plan, self._group
        started = moved = time.monotonic()
        least: int | None = None
        # The smallest group is there before the backlog is; everything else has to be booted.
        group.resize(0.0, 0.0, plan.workers_min, booted=True)
        while True:
            real = time.monotonic() - started
            now = real * plan.compress
            backlog = self._unacked()
            if least is None or backlog < least:
                least, moved = backlog, time.monotonic()
            group.tick(now, real)
            self._metric.put(now, backlog)
            target = self._scaler.decide(now, self._metric.see(now), 0.0)
            self.course.note(real, backlog, target, len(group.serving), self._ages)
            if not backlog and not self._outages.busy:
                break
            group.resize(now, real, target)
            self._break(backlog, now, real)
            self._tell(real, backlog, target)
            if time.monotonic() - moved > plan.patience_seconds:
                raise LoaderError(
                    f"the fleet hangs: {backlog:,} messages have been unacked for {plan.patience_seconds:g} s with "
                    f"{len(group.serving)} workers serving; ended by themselves: {group.unasked or 'none'}"
                )
            time.sleep(_TICK)
        self.drain_seconds, self.hours = real, group.hours(now, real)

    def stop(self) -> None:
        """SIGTERM to all workers, and wait for them. Raises LoaderError when one does not end."""
        started = time.monotonic()
        offset = self.drain_seconds
        self._group.stop_all(offset * self._plan.compress, offset)
        while self._group.running:
            real = offset + time.monotonic() - started
            if real > offset + self._plan.grace_seconds + _STOP_SECONDS:
                raise LoaderError(f"{self._group.running} workers did not end")
            self._group.tick(real * self._plan.compress, real)
            time.sleep(_TICK)

    def _break(self, backlog: int, now: float, real: float) -> None:
        fault = self._pending.due(1.0 - backlog / self._plan.messages)
        if fault is not None and self._happens(fault, now, real):
            self._pending.done(fault)
            self._note(f"{real:5.1f} s: {_WORDS[fault.kind].format(fault.count)}")

    def _happens(self, fault: Fault, now: float, real: float) -> bool:
        """False when it cannot happen yet."""
        if fault.kind == "kill":
            if not self._group.serving:
                return False
            self._group.kill(self._rng.choice(self._group.serving), now, real)
        elif fault.kind in ("restart", "crash"):
            if self._outages.busy:
                return False
            self._outages.begin(fault.kind)
        elif fault.kind == "cut":
            self._broker.cut_streams()
        else:
            self._broker.duplicate(fault.count)
        return True

    def _tell(self, real: float, backlog: int, target: int) -> None:
        if real - self._noted < _NOTE_SECONDS:
            return
        self._noted = real
        then, waited = self._before
        rate = max(0.0, (waited - backlog) / (real - then)) if real > then else 0.0
        self._before = (real, backlog)
        counts = self._group.counts
        self._note(
            f"{real:5.1f} s ({real * self._plan.compress / 60:.0f} min of the fleet): {backlog:,} wait, {rate:,.0f} "
            f"msg/s, {len(self._group.serving)} of {target} workers, {counts['preempted']} preempted, "
            f"{counts['killed']} killed"
        )


_WORDS = {
    "kill": "kill -9 of a worker",
    "restart": "Postgres restarts",
    "crash": "kill -9 of Postgres",
    "cut": "all streams are cut",
    "redeliver": "{:,} messages are delivered twice",
}
