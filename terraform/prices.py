"""What a fleet can do and costs a month, from the defaults in variables.tf and the assumptions in prices.toml."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
GIB, TIB = 2**30, 2**40
OUTAGE_HOURS = (0.25, 1, 4, 24)


def workers() -> dict[str, float]:
    """Default numbers of the variable `workers`, by name."""
    text = (FOLDER / "variables.tf").read_text()
    block = text[text.index('variable "workers"') :]
    return {name: float(value) for name, value in re.findall(r"(\w+) += optional\(number, ([0-9.]+)\)", block)}


def assumptions() -> dict[str, dict[str, Any]]:
    """prices.toml."""
    return tomllib.loads((FOLDER / "prices.toml").read_text())


@dataclass(frozen=True, slots=True)
class Fleet:
    """The autoscaler's arithmetic: VMs for a backlog, and how long it takes to drain."""

    min: int
    max: int
    messages_per_second: float
    drain_seconds: float

    @property
    def assignment(self) -> float:
        """Messages of backlog for each VM, the autoscaler's single_instance_assignment."""
        return self.messages_per_second * self.drain_seconds

    def size(self, backlog: float) -> int:
        """VMs that the autoscaler asks for."""
        return min(self.max, max(self.min, math.ceil(backlog / self.assignment)))

    def drain(self, backlog: float, arriving: float) -> float:
        """Seconds until a backlog is gone while messages arrive, the group keeping the size that it began with."""
        spare = self.size(backlog) * self.messages_per_second - arriving
        return backlog / spare if spare > 0 else math.inf


def default_fleet() -> Fleet:
    """The fleet of the defaults."""
    numbers = workers()
    return Fleet(int(numbers["min"]), int(numbers["max"]), numbers["messages_per_second"], numbers["drain_seconds"])


def monthly(events_per_second: float) -> dict[str, float]:
    """Dollars a month for each part, at a steady rate."""
    assumed, fleet = assumptions(), default_fleet()
    work, vm, pubsub, sql = (assumed[name] for name in ("workload", "vm", "pubsub", "cloud_sql"))
    hours = work["hours_per_month"]
    bytes_per_second = events_per_second * work["event_bytes"]
    vms = max(fleet.min, math.ceil(events_per_second / fleet.messages_per_second))
    stored_gib = bytes_per_second * hours * 3600 * work["stored_per_json_byte"] / GIB
    return {
        "VMs": vms * (hours * vm["e2_small_spot_hour"] + vm["disk_gib"] * vm["balanced_disk_gib_month"]),
        "Pub/Sub throughput": bytes_per_second * hours * 3600 * pubsub["passes"] / TIB * pubsub["throughput_tib"],
        "Pub/Sub retention": bytes_per_second * pubsub["retention_days"] * 86400 / GIB * pubsub["retention_gib_month"],
        "Cloud SQL machine": hours * (sql["vcpus"] * sql["vcpu_hour"] + sql["memory_gib"] * sql["memory_gib_hour"]),
        "Cloud SQL growth": stored_gib * (sql["ssd_gib_month"] + sql["backup_gib_month"]),
    }


def page() -> str:
    """The README's section, in Markdown."""
    assumed, fleet = assumptions(), default_fleet()
    work, vm, pubsub, sql = (assumed[name] for name in ("workload", "vm", "pubsub", "cloud_sql"))
    low, high = work["events_per_second"]
    months = [monthly(low), monthly(high)]
    what = {
        "VMs": f"{fleet.min} e2-small, spot at ${vm['e2_small_spot_hour']:.4f} an hour, {vm['disk_gib']} GiB disk each",
        "Pub/Sub throughput": f"${pubsub['throughput_tib']:.0f} a TiB, published and delivered",
        "Pub/Sub retention": f"{pubsub['retention_days']} days of topic, ${pubsub['retention_gib_month']:.2f} a GiB",
        "Cloud SQL machine": f"db-custom-{sql['vcpus']}-{sql['memory_gib'] * 1024}, Enterprise, one zone",
        "Cloud SQL growth": (
            f"each month's events, for every month that they are kept: {work['stored_per_json_byte']:g} bytes a byte "
            f"of JSON, disk ${sql['ssd_gib_month']:.2f} and one backup ${sql['backup_gib_month']:.2f} a GiB"
        ),
    }
    lines = [f"| $ a month | {low} events/s | {high} events/s | |", "|---|---:|---:|---|"]
    lines += [f"| {part} | {months[0][part]:,.0f} | {months[1][part]:,.0f} | {text} |" for part, text in what.items()]
    lines.append(f"| **first month** | **{sum(months[0].values()):,.0f}** | **{sum(months[1].values()):,.0f}** | |")
    standard = vm["e2_small_standard_hour"] / vm["e2_small_spot_hour"]
    lines += [
        "",
        (
            f"Events of {work['event_bytes']} bytes of JSON. A standard VM costs {standard:.1f} times a spot one. With "
            "`min = 0` the VMs cost nothing while nothing is published, and the first message waits 3 to 6 minutes. "
            "Prices are in [prices.toml](prices.toml)."
        ),
        "",
        (
            f"One VM for each {fleet.assignment:,.0f} messages of backlog ({fleet.messages_per_second:,.0f} a second × "
            f"{fleet.drain_seconds:,.0f} s), {fleet.min} to {fleet.max} VMs, so at most "
            f"{fleet.max * fleet.messages_per_second:,.0f} messages a second. After an outage at {high} events/s:"
        ),
        "",
        "| outage | backlog | VMs | drained in |",
        "|---|---:|---:|---:|",
    ]
    for hours in OUTAGE_HOURS:
        backlog = hours * 3600 * high
        seconds = fleet.drain(backlog, high)
        took = f"{seconds / 60:,.0f} min" if seconds >= 90 else f"{seconds:,.0f} s"
        lines.append(f"| {hours:g} h | {backlog:,.0f} | {fleet.size(backlog)} | {took} |")
    lines += ["", "The group needs 3 to 6 minutes to reach that size: the metric is late, then a VM boots and pulls."]
    return "\n".join(lines)
