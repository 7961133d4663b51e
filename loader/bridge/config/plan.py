"""What an instance runs: which pipelines, which of them share a consumer, the consumer groups, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loader.bridge.config.instance import Instance
from loader.bridge.config.model import Configuration, Endpoint, Pipeline


@dataclass(frozen=True, slots=True)
class Consumer:
    """One reader of a source, for one or several pipelines. Each message is read and decoded once for all of them."""

    group: str
    """Kafka's consumer group. For other sources it only names the reader."""
    source: Endpoint
    pipelines: tuple[Pipeline, ...]
    start: str
    why: str
    """Why these share it, or why one has it for itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one instance runs, and what it leaves to others."""

    consumers: tuple[Consumer, ...]
    left: Mapping[str, str]
    """Pipelines that do not run here, by name, with the reason."""

    def pipelines(self) -> tuple[Pipeline, ...]:
        """Every pipeline that runs."""
        return tuple(pipeline for consumer in self.consumers for pipeline in consumer.pipelines)


def make_plan(configuration: Configuration, instance: Instance) -> Plan:
    """Who runs what on this instance, in the order of the file.

    Pipelines of one source share a consumer if their sinks are in the same environments, so that trouble in one
    environment never holds up another one's offsets. A group's name is made of the file's name for itself, the source
    and those environments, never of the pipelines: one more pipeline does not make everything be read again."""
    left = {}
    grouped: dict[tuple[Any, ...], list[Pipeline]] = {}
    for pipeline in configuration.pipelines.values():
        source = configuration.endpoints[pipeline.source]
        if not pipeline.options.get("enabled", True):
            left[pipeline.name] = "enabled = false"
        elif not instance.runs(source.region, source.environment):
            left[pipeline.name] = f"its source {source.name} is in {source.region}/{source.environment}"
        else:
            grouped.setdefault(_sharing(configuration, pipeline), []).append(pipeline)
    return Plan(tuple(_consumer(configuration, pipelines) for pipelines in grouped.values()), left)


def group_name(configuration: Configuration, pipeline: Pipeline) -> str:
    """The consumer group that a pipeline reads in."""
    source = configuration.endpoints[pipeline.source]
    if own := pipeline.options.get("group"):
        return str(own)
    base = source.options.get("group") or f"{configuration.name}.{source.name}"
    if _alone(configuration, pipeline):
        return f"{base}.{'-'.join(_environments(configuration, pipeline))}.{pipeline.name}"
    return f"{base}.{'-'.join(_environments(configuration, pipeline))}"


def _consumer(configuration: Configuration, pipelines: list[Pipeline]) -> Consumer:
    first = pipelines[0]
    source = configuration.endpoints[first.source]
    environments = " and ".join(_environments(configuration, first))
    if len(pipelines) > 1:
        why = f"same source {source.name}, sinks of all in {environments}"
    else:
        why = _alone(configuration, first) or f"no other pipeline of {source.name} has its sinks in {environments}"
    start = first.options.get("start") or source.options.get("start", "earliest")
    return Consumer(group_name(configuration, first), source, tuple(pipelines), start, why)


def _alone(configuration: Configuration, pipeline: Pipeline) -> str | None:
    """Why a pipeline does not share its consumer; None if it may."""
    source = configuration.endpoints[pipeline.source]
    if source.kind == "file" and source.options.get("path") == "-":
        return None  # there is one standard input
    if not pipeline.shared:
        return "shared = false"
    if pipeline.options.get("group"):
        return "it has a group of its own"
    start = pipeline.options.get("start")
    if start and start != source.options.get("start", "earliest"):
        return f"it starts at {start}"
    return None


def _sharing(configuration: Configuration, pipeline: Pipeline) -> tuple[Any, ...]:
    if _alone(configuration, pipeline):
        return (pipeline.source, pipeline.name)
    return (pipeline.source, *_environments(configuration, pipeline))


def _environments(configuration: Configuration, pipeline: Pipeline) -> tuple[str, ...]:
    found = {configuration.endpoints[sink].environment for sink in pipeline.sinks}
    return tuple(sorted(found))
