"""What an HCL file says, as plain data. Every block knows where it stands, for errors that name file and line.

Blocks are equal when they say the same, wherever they stand: a reload restarts what changed, not what moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EndpointKind = Literal["kafka", "pubsub", "http", "file"]
Criticality = Literal["high", "low"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the file."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`endpoint KIND NAME { … }`: a named place that messages come from or go to."""

    kind: EndpointKind
    name: str
    region: str
    environment: str
    options: Mapping[str, Any]
    """The block's other attributes, checked and with defaults filled in by the kind's declaration (endpoints.py).
    Values may be or hold references to variables and secrets: `reference.resolve(options)` when it starts."""
    place: Place = field(compare=False)
    epoch: str = ""
    """Stands in front of identities, for a topic that was deleted and made again."""


@dataclass(frozen=True, slots=True)
class StageSpec:
    """`stage KIND { … }`: one step of a pipeline, its options as the stage declares them."""

    kind: str
    options: Mapping[str, Any]
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`pipeline NAME { … }`: from one source through stages to one or several sinks."""

    name: str
    source: str
    """Name of an endpoint."""
    sinks: tuple[str, ...]
    """Names of endpoints. A stage may route a frame to some of them; without one, each frame goes to all."""
    stages: tuple[StageSpec, ...]
    format: str
    """Name of the payload format: raw, json, protobuf, avro."""
    format_options: Mapping[str, Any]
    dead_letter: str | None
    """Endpoint for messages that a stage or sink refuses for good; None: logged, counted and committed is refused
    by the check unless `on_refusal = "stop"`."""
    criticality: Criticality
    shared: bool
    """May share its consumer with other pipelines of the same source and sink environment."""
    options: Mapping[str, Any]
    """Everything else, each with a considered default: max_in_flight, commit_seconds, ordering_key, tombstones …"""
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """`lookup NAME { … }`: keyed state, fetched from `http`, `sql` or `file` and refreshed."""

    name: str
    kind: Literal["http", "sql", "file"]
    refresh_seconds: float
    options: Mapping[str, Any]
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class TestBlock:
    """`test NAME { pipeline, input, expect }`: run by `loader bridge test`."""

    __test__ = False  # pytest collects what is called Test…

    name: str
    pipeline: str
    inputs: tuple[Mapping[str, Any], ...]
    expected: tuple[Mapping[str, Any], ...]
    lookups: Mapping[str, Mapping[str, Any]]
    """State that a lookup is taken to have."""
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A whole file. `mirror` and `replicate` blocks are pipelines by now."""

    file: str
    name: str
    """Stands in front of consumer groups, `bridge { name = … }`."""
    endpoints: Mapping[str, Endpoint]
    pipelines: Mapping[str, Pipeline]
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    tests: tuple[TestBlock, ...] = ()
