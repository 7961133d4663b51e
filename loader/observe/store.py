"""Values of metrics as plain data: bounded in memory, sent between processes as JSON, merged by their declarations."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from loader.observe.declaration import BY_NAME, Metric

OTHER = "_other"
MOST_LABEL_VALUES = 500
"""Distinct values of one label (table names above all); what comes later is counted under `_other`."""
MOST_SERIES = 2_000
"""Combinations of labels of one metric; what comes later is counted under `_other` in every label."""

Labels = tuple[str, ...]
Snapshot = dict[str, list[list[Any]]]
"""Metric name → [labels, value]; the value of a histogram is [count of each bucket …, count above the last, sum]."""


class Store:
    """Current values of the declared metrics. Thread-safe. Every method raises KeyError for a name not declared."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        self._known: dict[str, set[str]] = {}

    def add(self, name: str, amount: float, *labels: str) -> None:
        """Count up."""
        metric = BY_NAME[name]
        with self._lock:
            series = self._values.setdefault(name, {})
            key = self._key(metric, series, labels)
            series[key] = series.get(key, 0.0) + amount

    def put(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge, or a counter that somebody else counts."""
        metric = BY_NAME[name]
        with self._lock:
            series = self._values.setdefault(name, {})
            series[self._key(metric, series, labels)] = value

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add one observation to a histogram."""
        counts = [0] * (len(BY_NAME[name].buckets) + 1)
        counts[bisect_left(BY_NAME[name].buckets, value)] = 1
        self.observe_many(name, counts, value, *labels)

    def observe_many(self, name: str, counts: Sequence[int], total: float, *labels: str) -> None:
        """Add observations counted by bucket (not cumulative; one more for those above the last) and their sum."""
        metric = BY_NAME[name]
        with self._lock:
            series = self._histograms.setdefault(name, {})
            self._add_histogram(metric, series, labels, [*counts, total])

    def value(self, name: str, *labels: str) -> float:
        """One value, 0 when nothing was reported; of a histogram the number of its observations."""
        with self._lock:
            if BY_NAME[name].kind == "histogram":
                return sum(self._histograms.get(name, {}).get(labels, [0.0])[:-1])
            return self._values.get(name, {}).get(labels, 0.0)

    def snapshot(self) -> Snapshot:
        """Everything, as data that JSON can carry."""
        with self._lock:
            result: Snapshot = {
                name: [[list(labels), value] for labels, value in series.items()]
                for name, series in self._values.items()
            }
            for name, histograms in self._histograms.items():
                result[name] = [[list(labels), list(values)] for labels, values in histograms.items()]
            return result

    def take_in(self, snapshot: Snapshot, *, lasting_only: bool = False) -> None:
        """Merge another process's values into these. `lasting_only` leaves out gauges: the process has ended."""
        with self._lock:
            for name, rows in snapshot.items():
                metric = BY_NAME.get(name)
                if metric is None or (lasting_only and metric.kind == "gauge"):
                    continue  # unknown names: a process of another version during an upgrade
                for labels, value in rows:
                    self._merge(metric, tuple(labels), value)

    def _merge(self, metric: Metric, labels: Labels, value: Any) -> None:
        if metric.kind == "histogram":
            self._add_histogram(metric, self._histograms.setdefault(metric.name, {}), labels, value)
            return
        series = self._values.setdefault(metric.name, {})
        key = self._key(metric, series, labels)
        old = series.get(key)
        if old is None:
            series[key] = value
        elif metric.merge == "sum":
            series[key] = old + value
        else:
            series[key] = max(old, value) if metric.merge == "max" else min(old, value)

    def _add_histogram(
        self, metric: Metric, series: dict[Labels, list[float]], labels: Labels, values: Sequence[float]
    ) -> None:
        if len(values) != len(metric.buckets) + 2:
            raise ValueError(f"{metric.name} has {len(metric.buckets)} buckets, not {len(values) - 2}")
        key = self._key(metric, series, labels)
        old = series.get(key)
        series[key] = list(values) if old is None else [a + b for a, b in zip(old, values, strict=True)]

    def _key(self, metric: Metric, series: dict[Labels, Any], labels: Labels) -> Labels:
        if len(labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {labels}")
        if labels in series:
            return labels
        labels = tuple(self._bounded(name, value) for name, value in zip(metric.labels, labels, strict=True))
        if labels not in series and len(series) >= MOST_SERIES:
            return (OTHER,) * len(labels)
        return labels

    def _bounded(self, label: str, value: str) -> str:
        known = self._known.setdefault(label, set())
        if value in known or value == OTHER:
            return value
        if len(known) >= MOST_LABEL_VALUES:
            return OTHER
        known.add(value)
        return value


def merged(snapshots: Iterable[Snapshot]) -> Store:
    """One store with the values of several processes."""
    store = Store()
    for snapshot in snapshots:
        store.take_in(snapshot)
    return store
