"""Converts payloads to another format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.formats.registry import make_format
from loader.bridge.frame import Frame
from loader.bridge.stages.stage import Option, Outcome, StageContext


class Convert:
    """Sets the format that the payload leaves in."""

    name: ClassVar[str] = "convert"
    summary: ClassVar[str] = "Writes payloads in another format. A tombstone stays one."
    options: ClassVar[Sequence[Option]] = (
        Option("to", "one of json|protobuf", "Format that messages leave in.", required=True),
        Option("descriptor_set", "string", "For protobuf: file made by `protoc --descriptor_set_out`."),
        Option("message", "string", "For protobuf: full name of the message."),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.format = make_format(options["to"], options)

    def apply(self, frames: list[Frame]) -> Outcome:
        # Written by the sink, once: a payload that cannot be written so is refused there, for good as well.
        for frame in frames:
            frame.format = self.format
        return Outcome(frames)

    def why(self, frame: Frame) -> str:
        """The formats."""
        return f"writes it as {self.format.name}"


STAGE = Convert
