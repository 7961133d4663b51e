"""Metrics of the bridge, by pipeline, in the text that Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from loader.bridge.config.model import Pipeline
from loader.bridge.engine.age import BOUNDS
from loader.bridge.engine.flow import Flow
from loader.bridge.engine.reader import Reader
from loader.observe.exposition import CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Watched", "render"]


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    kind: Literal["counter", "gauge"]
    help: str


_METRICS = (
    _Metric("messages_in_total", "counter", "Messages read for the pipeline."),
    _Metric("messages_out_total", "counter", "Messages confirmed by a sink, each sink and copy for itself."),
    _Metric("messages_filtered_total", "counter", "Messages that a stage let go."),
    _Metric("messages_dead_total", "counter", "Messages refused for good by a stage or a sink."),
    _Metric("messages_tombstones_total", "counter", "Messages without a value that were left out."),
    _Metric(
        "messages_repeated_total", "counter", "Messages that its reader gave up unconfirmed when partitions moved."
    ),
    _Metric("decodes_total", "counter", "Payloads decoded; divided by messages in: decodes a message."),
    _Metric("encodes_total", "counter", "Payloads written again because a stage changed them."),
    _Metric("in_flight", "gauge", "Messages read and not yet confirmed."),
    _Metric("in_flight_bytes", "gauge", "Bytes of their payloads, about."),
    _Metric("lag", "gauge", "Messages behind the source's end; none while no partition is assigned."),
    _Metric("partitions", "gauge", "Partitions of Kafka that are assigned to its reader."),
    _Metric("backoff_seconds_total", "counter", "Seconds that its sinks waited after failures."),
    _Metric("commit_age_seconds", "gauge", "Since its reader last had everything confirmed up to somewhere."),
    _Metric("commit_failures_total", "counter", "Commits that Kafka refused, most of them during a rebalance."),
    _Metric("apart", "gauge", "1 while it goes its own way, because it held others up."),
    _Metric("up", "gauge", "0 while its source or a sink is in trouble or it stands still."),
)
_LABELS = ("pipeline", "region", "environment", "criticality")
PREFIX = "bridge_"


@dataclass(frozen=True, slots=True)
class Watched:
    """A running pipeline and who reads for it."""

    pipeline: Pipeline
    region: str
    environment: str
    flow: Flow
    reader: Reader

    def values(self, now: float) -> dict[str, float | None]:
        """By metric; None leaves a metric out."""
        counts, flow, reader = self.flow.counts, self.flow, self.reader
        lag = reader.lag(self.flow.name)
        return {
            "messages_in_total": counts.taken,
            "messages_out_total": counts.sent,
            "messages_filtered_total": counts.filtered,
            "messages_dead_total": counts.dead,
            "messages_tombstones_total": counts.skipped,
            "messages_repeated_total": reader.repeats,
            "decodes_total": counts.decodes,
            "encodes_total": counts.encodes,
            "in_flight": max(0, flow.in_flight),
            "in_flight_bytes": max(0.0, round(flow.in_flight_bytes)),
            "lag": lag,
            "partitions": reader.partitions,
            "backoff_seconds_total": round(flow.backoff_seconds, 3),
            "commit_age_seconds": round(max(0.0, now - reader.committed_at), 3),
            "commit_failures_total": reader.commit_failures,
            "apart": int(flow.name in reader.apart),
            "up": int(flow.trouble is None and reader.fault is None),
        }


def render(watched: Iterable[Watched], lookups: Mapping[str, float], reads: Mapping[str, int]) -> bytes:
    """The exposition. `lookups` are ages by name, `reads` messages read by consumer group."""
    now = time.monotonic()
    watched = list(watched)
    values = [(each, each.values(now)) for each in watched]
    lines: list[str] = []
    for metric in _METRICS:
        _head(lines, metric.name, metric.kind, metric.help)
        for each, found in values:
            value = found[metric.name]
            if value is not None:
                lines.append(f"{PREFIX}{metric.name}{{{_labels(each)}}} {value}")
    _ages(lines, watched)
    _head(lines, "reads_total", "counter", "Messages read from a source, once for all the pipelines that share it.")
    lines += [f'{PREFIX}reads_total{{group="{_label(group)}"}} {count}' for group, count in reads.items()]
    _head(lines, "lookup_age_seconds", "gauge", "Age of a lookup's state.")
    lines += [f'{PREFIX}lookup_age_seconds{{lookup="{_label(name)}"}} {age:.3f}' for name, age in lookups.items()]
    usage = time.process_time()
    lines += ["# HELP process_cpu_seconds_total CPU time, user and system.", "# TYPE process_cpu_seconds_total counter"]
    lines.append(f"process_cpu_seconds_total {usage:.3f}")
    lines.append("")
    return "\n".join(lines).encode("utf-8", "replace")


def _ages(lines: list[str], watched: Iterable[Watched]) -> None:
    name = "publish_age_seconds"
    _head(lines, name, "histogram", "From reading a message to a sink's confirmation.")
    for each in watched:
        labels = _labels(each)
        ages, seen = each.flow.ages, 0
        for count, bound in zip(ages.counts, (*(f"{bound:g}" for bound in BOUNDS), "+Inf"), strict=True):
            seen += count
            lines.append(f'{PREFIX}{name}_bucket{{{labels},le="{bound}"}} {seen}')
        lines += [f"{PREFIX}{name}_sum{{{labels}}} {ages.total:.3f}", f"{PREFIX}{name}_count{{{labels}}} {seen}"]


def _labels(each: Watched) -> str:
    names = (each.pipeline.name, each.region, each.environment, each.pipeline.criticality)
    return ",".join(f'{name}="{_label(text)}"' for name, text in zip(_LABELS, names, strict=True))


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines += [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}"]


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
