"""One pipeline on paper: frames in, what would be sent out, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from loader.bridge.config.model import Configuration, Pipeline
from loader.bridge.formats.registry import make_format
from loader.bridge.frame import Format, Frame, Payload, Unavailable, Undecodable
from loader.bridge.stages.registry import build
from loader.bridge.stages.stage import RefusedFrame, Stage

Lookups = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that would leave."""

    sink: str
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes | None
    untouched: bool
    """Whether its payload leaves with the bytes it came with."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that would go to the dead letters."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """What one stage did with one message."""

    stage: str
    line: int
    did: str
    why: str


@dataclass(slots=True)
class Result:
    """What became of a message in one pipeline."""

    pipeline: str
    sent: list[Sent] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    decodes: int = 0


class _Context:
    def __init__(self, pipeline: Pipeline, lookups: Lookups) -> None:
        self.pipeline = pipeline.name
        self.sinks: Sequence[str] = pipeline.sinks
        self.lookup = lookups

    def wait(self, seconds: float) -> None:
        """On paper nobody waits."""


class Trial:
    """A pipeline whose stages are built once."""

    def __init__(self, configuration: Configuration, name: str, lookups: Lookups) -> None:
        """Raises ConfigurationError if a format's files cannot be read."""
        self.pipeline = configuration.pipelines[name]
        self.format = make_format(self.pipeline.format, self.pipeline.format_options)
        context = _Context(self.pipeline, lookups)
        self.stages: list[tuple[Stage, int]] = [
            (build(spec, context), spec.place.line) for spec in self.pipeline.stages
        ]

    def run(self, frame: Frame) -> Result:
        """What becomes of one message, step by step."""
        result = Result(self.pipeline.name)
        if frame.payload.value is None and self.pipeline.options.get("tombstones") == "skip":
            result.steps.append(Step("tombstones", self.pipeline.place.line, "dropped", 'tombstones = "skip"'))
            return result
        frames = [frame]
        for stage, line in self.stages:
            frames = [each for one in frames for each in self._step(stage, line, one, result)]
        for each in frames:
            self._send(each, result)
        result.decodes = int(frame.payload.decoded or frame.payload.error is not None)
        return result

    def _step(self, stage: Stage, line: int, frame: Frame, result: Result) -> list[Frame]:
        was = (frame._changed, frame.headers, frame.key)
        try:
            why = stage.why(frame)
        except (Undecodable, RefusedFrame) as error:
            why = str(error)
        except Unavailable as error:
            result.steps.append(Step(stage.name, line, "waits", str(error)))
            result.refused.append(Refused(stage.name, f"waits: {error}"))
            return []
        outcome = stage.apply([frame])
        if outcome.refused:
            did = "refused"
            why = outcome.refused[0][1]
            result.refused += [Refused(f"stage {stage.name}", reason) for _, reason in outcome.refused]
        elif not outcome.frames:
            did = "dropped"
        elif len(outcome.frames) > 1:
            did = f"made {len(outcome.frames)}"
        else:
            now = outcome.frames[0]
            did = "kept" if (now._changed, now.headers, now.key) == was else "changed"
        result.steps.append(Step(stage.name, line, did, why))
        return outcome.frames

    def _send(self, frame: Frame, result: Result) -> None:
        try:
            value = frame.value()
        except Undecodable as error:
            result.refused.append(Refused("sink", str(error)))
            return
        for sink in self.pipeline.sinks:
            if frame.sinks is None or sink in frame.sinks:
                result.sent.append(Sent(sink, frame.key, frame.headers, value, value is frame.payload.value))


def make_frame(given: Mapping[str, Any], format: Format, topic: str) -> Frame:
    """A frame from what a test block or a MESSAGE.json says."""
    payload = Payload(encode_value(given.get("value")), format)
    key = given.get("key")
    headers = [(name, text(value)) for name, value in (given.get("headers") or {}).items()]
    return Frame(
        payload,
        None if key is None else text(key),
        headers,
        given.get("topic") or topic,
        int(given.get("partition") or 0),
        int(given.get("offset") or 0),
        int(given.get("timestamp") or 0),
    )


def encode_value(value: Any) -> bytes | None:
    """A text is its bytes, null a tombstone, anything else JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def text(value: Any) -> bytes | None:
    """A header's or key's bytes."""
    return value.encode() if isinstance(value, str) else None if value is None else str(value).encode()
