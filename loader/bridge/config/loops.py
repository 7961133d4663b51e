"""Finds rings of pipelines: a message that goes round in one is copied for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loader.bridge.config.model import Configuration, Endpoint, Pipeline

Node = tuple[Any, ...]


def find_loops(configuration: Configuration) -> Iterator[list[Pipeline]]:
    """Each ring once, as the pipelines that make it. A ring with a mirror in it ends by itself and is left out."""
    edges: list[tuple[Node, Node, Pipeline]] = []
    for pipeline in configuration.pipelines.values():
        if any(spec.kind == "trail" for spec in pipeline.stages) or pipeline.source not in configuration.endpoints:
            continue
        source = reading(configuration.endpoints[pipeline.source])
        targets = [*pipeline.sinks, *([pipeline.dead_letter] if pipeline.dead_letter else [])]
        edges += [
            (source, node, pipeline)
            for target in targets
            if target in configuration.endpoints
            for node in writing(configuration.endpoints[target])
        ]
    following: dict[Node, list[tuple[Node, Pipeline]]] = {}
    for source, target, pipeline in edges:
        following.setdefault(source, []).append((target, pipeline))
    told: set[frozenset[str]] = set()
    for source, target, pipeline in edges:
        ring = _way(following, target, source)
        if ring is None:
            continue
        pipelines = [pipeline, *ring]
        names = frozenset(each.name for each in pipelines)
        if names not in told:
            told.add(names)
            yield pipelines


def reading(endpoint: Endpoint) -> Node:
    """What a pipeline reads from: equal for two endpoints that are the same topic, subscription or file."""
    options = endpoint.options
    if endpoint.kind == "kafka":
        return ("kafka", frozenset(options.get("brokers") or ()), options.get("topic"))
    if endpoint.kind == "pubsub":
        return ("subscription", options.get("subscription"))
    return (endpoint.kind, options.get("path") or options.get("url"), options.get("path") == "-")


def writing(endpoint: Endpoint) -> list[Node]:
    """What a pipeline that writes to the endpoint feeds."""
    options = endpoint.options
    if endpoint.kind == "pubsub":
        # That a subscription belongs to a topic is known only if one endpoint names both.
        return [("subscription", options["subscription"])] if options.get("subscription") else []
    if endpoint.kind == "file" and options.get("path") == "-":
        return []  # standard output is not standard input
    return [reading(endpoint)]


def _way(following: dict[Node, list[tuple[Node, Pipeline]]], start: Node, goal: Node) -> list[Pipeline] | None:
    """The pipelines on the shortest way from a node to another; none if they are the same, None if there is no way."""
    ways: dict[Node, list[Pipeline]] = {start: []}
    waiting = [start]
    for node in waiting:
        if node == goal:
            return ways[node]
        for target, pipeline in following.get(node, ()):
            if target not in ways:
                ways[target] = [*ways[node], pipeline]
                waiting.append(target)
    return None
