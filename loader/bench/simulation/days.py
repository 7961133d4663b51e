"""The same day in four forms, so that what each trouble adds is seen."""

from __future__ import annotations

from dataclasses import replace

from loader.bench.simulation.autoscaler import Policy
from loader.bench.simulation.day import Day, Scenario, simulate
from loader.bench.simulation.price import Price


def days(policy: Policy, scenario: Scenario, price: Price) -> dict[str, Day]:
    """By name; the first is the one to draw. Without a fleet-wide preemption there are two."""
    kept = replace(scenario, fleet_preemption_at=None)
    calm = replace(kept, traffic=replace(scenario.traffic, spike=1.0))
    found = {"with its spike": simulate(policy, kept, price), "without the spike": simulate(policy, calm, price)}
    if scenario.fleet_preemption_at is not None:
        taken = replace(calm, fleet_preemption_at=scenario.fleet_preemption_at)
        found["all spot VMs taken"] = simulate(policy, taken, price)
        found["all taken, one standard VM more"] = simulate(policy, replace(taken, floor=scenario.floor + 1), price)
    return found
