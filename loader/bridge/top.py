"""Turns two readings of /metrics into one line a pipeline: counters as rates, gauges as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "bridge_"


class NotABridge(ValueError):
    """These metrics are somebody else's."""


@dataclass(slots=True)
class Reading:
    """One reading: values by pipeline and metric."""

    at: float
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)


def read(text: str, at: float) -> Reading:
    """The bridge's metrics in an exposition; several series of one pipeline (one a sink, say) are added up, but ages
    and lags, of which the greatest counts. Raises NotABridge for somebody else's, ValueError if it is none."""
    from prometheus_client.parser import text_string_to_metric_families

    reading = Reading(at)
    families = list(text_string_to_metric_families(text))
    # One that runs no pipeline says so by metrics without values.
    if not any(family.name.startswith(PREFIX) for family in families):
        raise NotABridge
    for family in families:
        if not family.name.startswith(PREFIX) or family.type not in ("counter", "gauge"):
            continue
        for sample in family.samples:
            pipeline = sample.labels.get("pipeline")
            if pipeline is None or sample.name.endswith("_created"):
                continue
            name = family.name.removeprefix(PREFIX)
            if family.type == "counter":
                reading.counters.add(name)
            values = reading.values.setdefault(pipeline, {})
            if name.endswith(("_age_seconds", "_backoff_seconds")):
                values[name] = max(values.get(name, 0.0), sample.value)
            else:
                values[name] = values.get(name, 0.0) + sample.value
    return reading


def table(before: Reading | None, now: Reading) -> tuple[list[str], list[list[str]]]:
    """Columns and rows. Without an earlier reading counters are totals. A counter that fell began anew."""
    names = sorted({name for values in now.values.values() for name in values})
    seconds = now.at - before.at if before is not None else 0.0
    rates = before is not None and seconds > 0
    columns = ["pipeline", *(_title(name, rates and name in now.counters) for name in names)]
    rows = []
    for pipeline, values in sorted(now.values.items()):
        old: Mapping[str, float] = before.values.get(pipeline, {}) if before is not None else {}
        row = [pipeline]
        for name in names:
            value = values.get(name)
            if value is None:
                row.append("–")
            elif rates and name in now.counters:
                was = old.get(name, 0.0)
                row.append(_shown((value - was if value >= was else value) / seconds))
            else:
                row.append(_shown(value))
        rows.append(row)
    return columns, rows


def _title(name: str, rate: bool) -> str:
    plain = name.removesuffix("_total").removeprefix("messages_").replace("_", " ")
    return f"{plain}/s" if rate else plain


def _shown(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"
