"""Which settings are best: each differs in one thing from the others' and meets the same days.

What counts is money and waiting: dollars a month (mean of the days) plus, for each minute of the worst ages (mean of
both bursts', the busy day's and the steady day's), what a minute is said to be worth. Out are settings with which a
preemption makes messages wait on a day without bursts, and those with which a group could grow on what two processes of
a VM hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from loader.bench.simulation.autoscaler import Policy
from loader.bench.simulation.day import Day, Scenario, simulate
from loader.bench.simulation.price import Price
from loader.bench.simulation.traffic import Traffic

CALM_GOAL_SECONDS = 7.0
HELD_MESSAGES = 60_000
"""Of a worker process at the default limits; a VM with two must not make the group grow by that alone."""
_PROCESSES = 2
_AGAIN_SECONDS = 1_800.0
_BUSY = 10.0

CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("as stated", {}),
    ("drain_seconds 30", {"drain_seconds": 30.0}),
    ("drain_seconds 45", {"drain_seconds": 45.0}),
    ("drain_seconds 60", {"drain_seconds": 60.0}),
    ("drain_seconds 120", {"drain_seconds": 120.0}),
    ("drain_seconds 240", {"drain_seconds": 240.0}),
    ("min 1", {"min": 1}),
    ("min 2", {"min": 2}),
    ("min 3", {"min": 3}),
    ("max 6", {"max": 6}),
    ("max 10", {"max": 10}),
    ("max 20", {"max": 20}),
    ("cpu_target 0.5", {"cpu_target": 0.5}),
    ("cpu_target 0.7", {"cpu_target": 0.7}),
    ("cpu_target 0.9", {"cpu_target": 0.9}),
    ("without CPU", {"cpu_target": None}),
    ("scale in 1 in 300 s", {"scale_in_replicas": 1, "scale_in_seconds": 300.0}),
    ("scale in 3 in 300 s", {"scale_in_replicas": 3, "scale_in_seconds": 300.0}),
    ("scale in at once", {"scale_in_replicas": 1_000, "scale_in_seconds": 60.0}),
)


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting and what it did. Ages are the worst of all seeds, in seconds."""

    name: str
    burst: float
    again: float
    busy: float
    steady: float
    calm: float
    dollars: float
    score: float
    refused: str
    """Why it is out; empty when it is not."""


def try_policy(name: str, policy: Policy, scenario: Scenario, price: Price, minute: float, seeds: int) -> Tried:
    """Days with two bursts, with ten times the traffic and a tenth of the burst, and both without any burst."""
    traffic = scenario.traffic
    twice = replace(traffic, again_after=_AGAIN_SECONDS)
    busy = replace(
        traffic, least=traffic.least * _BUSY, most=traffic.most * _BUSY, spike=max(1.0, traffic.spike / _BUSY)
    )
    steady, calm = replace(busy, spike=1.0), replace(traffic, spike=1.0)

    def days(kind: Traffic) -> list[Day]:
        worlds = [replace(scenario, traffic=kind, seed=scenario.seed + each) for each in range(seeds)]
        return [simulate(policy, world, price) for world in worlds]

    twices, busies, steadies, calms = days(twice), days(busy), days(steady), days(calm)
    second = int((traffic.spike_at * 3600 + _AGAIN_SECONDS) // 300)
    burst = max(day.age_max for day in twices)
    again = max(max(day.over_time["age"][second:]) + scenario.window_seconds for day in twices)
    busiest, steadiest, calmest = (max(day.age_max for day in kind) for kind in (busies, steadies, calms))
    dollars = mean(day.dollars_a_month for day in (*twices, *busies, *steadies, *calms))
    score = dollars + mean((burst, again, busiest, steadiest)) / 60 * minute
    refused = ""
    if max(calmest, steadiest) > CALM_GOAL_SECONDS:
        refused = "a preemption is a pause"
    elif policy.assignment <= HELD_MESSAGES * _PROCESSES:
        refused = "two processes hold as much"
    return Tried(name, burst, again, busiest, steadiest, calmest, round(dollars, 2), round(score, 2), refused)


def sweep(
    policy: Policy,
    scenario: Scenario,
    price: Price | None = None,
    minute: float = 1.0,
    seeds: int = 3,
    changes: Sequence[tuple[str, dict[str, Any]]] = CHANGES,
    say: Callable[[str], None] = lambda text: None,
) -> list[Tried]:
    """Try the policy and each change of one setting of it, best first; what is out comes last."""
    price = price or Price()
    tried = []
    for name, change in changes:
        changed = replace(policy, **{key: value for key, value in change.items() if getattr(policy, key) != value})
        if name != changes[0][0] and changed == policy:
            continue
        say(name)
        tried.append(try_policy(name, changed, scenario, price, minute, seeds))
    return sorted(tried, key=lambda each: (bool(each.refused), each.score))
