"""Panels of a Grafana dashboard as plain data, laid out row by row on Grafana's grid of 24 columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` are (PromQL, legend)."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    """`timeseries`, `stat` or `table`."""
    help: str = ""
    bad_above: float | None = None
    """Red from this value on."""
    bad_below: float | None = None
    """Red below this value."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the dashboard: the values of a label of a metric."""

    name: str
    metric: str


def dashboard(
    uid: str, title: str, text: str, variables: Sequence[Variable], rows: Sequence[tuple[str, Sequence[Panel]]]
) -> dict[str, Any]:
    """The dashboard as Grafana (10 and later) imports it; the data source is chosen above it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for name, row in rows:
        panels.append(_placed(len(panels) + 1, "row", name, 0, top, _WIDTH, 1))
        top += 1
        height = 4 if all(panel.kind == "stat" for panel in row) else 8
        width = _WIDTH // len(row)
        for index, panel in enumerate(row):
            placed = _placed(len(panels) + 1, panel.kind, panel.title, index * width, top, width, height)
            panels.append({**placed, **_content(panel)})
        top += height
    return {
        "uid": uid,
        "title": title,
        "description": text,
        "tags": ["pubsub-postgres-loader"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), *map(_variable, variables)]},
        "panels": panels,
    }


def _placed(number: int, kind: str, title: str, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    place = {"x": x, "y": y, "w": width, "h": height}
    return {"id": number, "type": kind, "title": title, "gridPos": place, **({"panels": []} if kind == "row" else {})}


def _content(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    return {
        "description": panel.help,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
                **({"instant": True, "format": "table"} if panel.kind == "table" else {}),
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.name})"
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        # Also what has no such label, for a fleet that is scraped without it.
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
