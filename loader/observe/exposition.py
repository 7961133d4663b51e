"""The text that Prometheus reads (https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from loader.observe.declaration import METRICS, Metric
from loader.observe.store import Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(snapshot: Snapshot) -> bytes:
    """Every declared metric, in the order of the declarations."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    return generate_latest(registry)


class _Collector(Collector):
    """A snapshot as prometheus_client sees it: values are merged from several processes before."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[Family]:
        return []

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            yield _family(metric, self._snapshot.get(metric.name, []))


def _family(metric: Metric, rows: Sequence[list[Any]]) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
        for labels, (*counts, total) in rows:
            histogram.add_metric(_text(labels), list(zip(bounds, accumulate(counts), strict=True)), total)
        return histogram
    if not rows and not metric.labels:
        rows = [[[], 0.0]]  # a counter that is there from the start shows its first increase to rate()
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(_text(labels), value)
    return family


def _text(labels: Sequence[str]) -> list[str]:
    """Labels that can be written: a lone surrogate in a table's name must not cost all metrics."""
    return [label.encode("utf-8", "replace").decode() for label in labels]
