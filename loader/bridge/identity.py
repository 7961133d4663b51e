"""The `event_id` of a message: the same each time it is published, so that the loader stores it once.

`<cluster id>/<topic>/<partition>/<offset>`, then `/<pipeline>` when more than one pipeline of the file can reach the
same sink (each of them is to give a row of its own), then `/<i>` for each fan-out (multiply, flatten). A line of a file
has `file/<path>/<digest of the line>/<its number>` instead (see sources/file.py). An endpoint's `epoch` stands in
front, for a topic that was deleted and made again and counts its offsets from 0 once more, and for a file whose lines
are to be other events even where they are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loader.bridge.config.model import Endpoint, Pipeline

_TARGETS = {"kafka": ("brokers", "topic"), "pubsub": ("topic",), "http": ("url", "method"), "file": ("path",)}


def prefix(epoch: str, cluster: str, topic: str, partition: int | str) -> str:
    """Everything before the offset."""
    start = f"{epoch}/" if epoch else ""
    return f"{start}{cluster}/{topic}/{partition}/"


def suffix(pipeline: str | None, index: Iterable[int] = ()) -> str:
    """Everything after the offset. `pipeline` is None when no other one reaches the sink."""
    return "".join([f"/{pipeline}" if pipeline else "", *(f"/{number}" for number in index)])


def target(endpoint: Endpoint) -> tuple[Any, ...]:
    """What a sink is, whatever it is called: two endpoints of one topic are the same sink."""
    values = tuple(_plain(endpoint.options.get(name)) for name in _TARGETS[endpoint.kind])
    return (endpoint.kind, *values) if any(values) else (endpoint.kind, endpoint.name)


def shared_targets(pipelines: Iterable[Pipeline], endpoints: Mapping[str, Endpoint]) -> frozenset[tuple[Any, ...]]:
    """Sinks that more than one pipeline of the whole file can reach, those of other regions too: which part of the
    file an instance runs must not change identities."""
    reached: dict[tuple[Any, ...], set[str]] = {}
    for pipeline in pipelines:
        for name in pipeline.sinks:
            reached.setdefault(target(endpoints[name]), set()).add(pipeline.name)
    return frozenset(each for each, names in reached.items() if len(names) > 1)


def _plain(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value
