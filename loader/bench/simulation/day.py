"""One day of a fleet, in steps of some seconds: the same answer for the same scenario, policy and seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from loader.bench.simulation.autoscaler import Autoscaler, Metric, Policy
from loader.bench.simulation.backlog import Backlog, quantile
from loader.bench.simulation.group import Group
from loader.bench.simulation.price import Price
from loader.bench.simulation.traffic import DAY, Traffic


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens to a fleet, whatever its settings are. Seconds and hours of the day."""

    traffic: Traffic = field(default_factory=Traffic)
    worker_rate: float = 3_000.0
    """Messages a second that one VM really loads: measured, which Policy.messages_per_second may not be."""
    floor: int = 0
    """Standard VMs besides the group, never taken back."""
    window_seconds: float = 5.0
    boot_seconds: float = 120.0
    """From the decision to the first pull: creation, boot, image."""
    metric_late: float = 120.0
    cpu_late: float = 60.0
    cpu_at_full_rate: float = 1.0
    """What the autoscaler reads of a VM that loads all it can."""
    preemptions_per_hour: float = 0.05
    fleet_preemption_at: float | None = None
    fleet_outage_seconds: float = 600.0
    lease_seconds: float = 60.0
    step: int = 5
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Day:
    """What came of it. Ages are from publish to commit at most: the wait for a worker and a whole window."""

    age_p50: float
    age_p99: float
    age_max: float
    spot_hours: float
    standard_hours: float
    dollars_a_month: float
    workers_most: int
    preempted: int
    arrived: int
    loaded: int
    waiting: int
    redelivered: int
    backlog_most: int
    over_time: dict[str, list[float]]
    """Of each five minutes: the most backlog, the most serving VMs, the greatest wait."""

    def figures(self) -> dict[str, Any]:
        """All but the course over time."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "over_time"}


def simulate(policy: Policy, scenario: Scenario, price: Price | None = None) -> Day:
    """Play a day. Raises ValueError for a policy that the autoscaler would refuse."""
    price = price or Price()
    rng = Random(scenario.seed)
    # Of their own, so that a policy that makes other VMs meets the same lateness.
    backlog_metric = Metric(Random(rng.random()), scenario.metric_late)
    cpu_metric = Metric(Random(rng.random()), scenario.cpu_late)
    group = Group(policy.min, Random(rng.random()), scenario.boot_seconds, scenario.preemptions_per_hour)
    scaler, backlog, step = Autoscaler(policy), Backlog(), scenario.step
    taken_at = None if scenario.fleet_preemption_at is None else scenario.fleet_preemption_at * 3600
    arrived = vm_seconds = most = backlog_most = 0
    pulled_a_second = 0.0
    course: dict[str, list[float]] = {"backlog": [], "workers": [], "age": []}
    oldest_wait = 0
    for number, count in enumerate(scenario.traffic.arrivals(step)):
        now = number * step
        backlog.expire(now)
        group.preempt(now)
        if taken_at is not None and now >= taken_at:
            taken_at = None
            held_each = min(scenario.worker_rate, pulled_a_second / max(1, group.serving(now) + scenario.floor))
            killed = group.take_all(now, scenario.fleet_outage_seconds)
            backlog.lose(int(killed * held_each * scenario.window_seconds), now + scenario.lease_seconds)
        backlog.arrive(now, count)
        arrived += count
        in_group = group.serving(now)
        serving = in_group + scenario.floor
        loaded_before = backlog.loaded
        oldest_wait = backlog.oldest(now)
        backlog.load(now, int(serving * scenario.worker_rate * step))
        pulled_a_second = (backlog.loaded - loaded_before) / step
        # Pub/Sub counts what workers hold until it is acknowledged, a window later.
        undelivered = backlog.waiting + backlog.leased + pulled_a_second * scenario.window_seconds
        backlog_metric.put(now, undelivered)
        busy = pulled_a_second / (serving * scenario.worker_rate) if serving else 0.0
        cpu_metric.put(now, busy * in_group * scenario.cpu_at_full_rate)
        group.resize(now, scaler.decide(now, backlog_metric.see(now), cpu_metric.see(now)))
        vm_seconds += len(group) * step
        most, backlog_most = max(most, serving), max(backlog_most, round(undelivered))
        _note(course, now, undelivered, serving, oldest_wait)
    spot_hours, standard_hours = vm_seconds / 3600, scenario.floor * DAY / 3600
    # What is left at midnight has no age yet, but is not forgotten either.
    ages = [quantile(backlog.ages, share) + scenario.window_seconds for share in (0.5, 0.99)]
    oldest = max(max(backlog.ages, default=0), backlog.oldest(DAY))
    return Day(
        age_p50=ages[0],
        age_p99=ages[1],
        age_max=oldest + scenario.window_seconds,
        spot_hours=round(spot_hours, 2),
        standard_hours=standard_hours,
        dollars_a_month=round(price.month(spot_hours, standard_hours), 2),
        workers_most=most,
        preempted=group.preempted,
        arrived=arrived,
        loaded=backlog.loaded,
        waiting=backlog.waiting + backlog.leased,
        redelivered=backlog.redelivered,
        backlog_most=backlog_most,
        over_time=course,
    )


def _note(course: dict[str, list[float]], now: int, backlog: float, serving: int, age: int) -> None:
    for name, value in (("backlog", float(round(backlog))), ("workers", float(serving)), ("age", float(age))):
        values = course[name]
        if len(values) <= now // 300:
            values.append(value)
        else:
            values[-1] = max(values[-1], value)
