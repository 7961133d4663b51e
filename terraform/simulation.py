"""The README's table of autoscaler settings, from the newest record of `loader bench simulate --sweep --save`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "tests/benchmarks/results"


def record() -> dict[str, Any]:
    """The newest record that holds a sweep. Raises FileNotFoundError when there is none."""
    for path in sorted(RECORDS.glob("simulate-*.json"), reverse=True):
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "sweep" in found["results"]:
            return found
    raise FileNotFoundError(f"no sweep in {RECORDS}: run loader bench simulate --sweep --save")


def page() -> str:
    """The section in Markdown."""
    found = record()
    results, policy, world = found["results"], found["parameters"]["policy"], found["parameters"]["scenario"]
    stated = (
        f"min {policy['min']}, max {policy['max']}, drain_seconds {policy['drain_seconds']:g}, cpu_target "
        f"{policy['cpu_target']:g}, scale in {policy['scale_in_replicas']} in {policy['scale_in_seconds']:g} s"
    )
    lines = [
        "| one setting changed | burst | second burst | busy day | steady day | calm day | $ a month | |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for each in results["sweep"]:
        name = f"**the defaults** ({stated})" if each["name"] == "as stated" else each["name"]
        ages = " | ".join(f"{each[key]:,.0f} s" for key in ("burst", "again", "busy", "steady", "calm"))
        out = f"out: {each['refused']}" if each["refused"] else ""
        lines.append(f"| {name} | {ages} | {each['dollars']:,.2f} | {out} |")
    traffic = world["traffic"]
    lines += [
        "",
        (
            f"Worst age from publish to commit of three seeds. {traffic['least']:g} to {traffic['most']:g} messages a "
            f"second over the day and bursts of {traffic['spike']:g} times that for {traffic['spike_seconds'] / 60:g} "
            "minutes, 30 minutes apart. The busy day has ten times the traffic and a tenth of the burst, the steady "
            "one the same without it, the calm one neither. A VM loads "
            f"{world['worker_rate']:,.0f} a second, boots in {world['boot_seconds']:g} s and is preempted "
            f"{world['preemptions_per_hour']:g} times an hour; the backlog is seen up to {world['metric_late']:g} s "
            f"late. Order: dollars a month plus ${found['parameters']['minute']:g} for each minute of the ages' mean."
        ),
        "",
        "| a day as it is | age p50 | p99 | most | workers | worker-hours | $ a month |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, day in results["days"].items():
        ages = " | ".join(f"{day[key]:,.0f} s" for key in ("age_p50", "age_p99", "age_max"))
        hours = day["spot_hours"] + day["standard_hours"]
        lines.append(f"| {name} | {ages} | {day['workers_most']} | {hours:.1f} | {day['dollars_a_month']:,.2f} |")
    return "\n".join(lines)
