"""Keeps a mirror from sending back what came by it. Made by `mirror` blocks, not written in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.frame import Frame
from loader.bridge.stages.stage import Option, Outcome, StageContext


class Trail:
    """A header lists the endpoints that a message has been to; it is sent to none of them again."""

    name: ClassVar[str] = "trail"
    summary: ClassVar[str] = "Drops messages that have been to the sink already, and notes where the others have been."
    options: ClassVar[Sequence[Option]] = (
        Option("header", "string", "Header that carries the trail.", required=True),
        Option("here", "string", "Name of the source.", required=True),
        Option("there", "string", "Name of the sink.", required=True),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.header = options["header"]
        self.here = options["here"].encode()
        self.there = options["there"].encode()

    def apply(self, frames: list[Frame]) -> Outcome:
        outcome = Outcome()
        for frame in frames:
            been = self._been(frame)
            if self.there in been:
                outcome.filtered += 1
                continue
            if self.here not in been:
                been.append(self.here)
            # The sink stands in it as well: the way back must know it without knowing this file.
            trail = b",".join([*been, self.there])
            frame.headers = [pair for pair in frame.headers if pair[0] != self.header] + [(self.header, trail)]
            outcome.frames.append(frame)
        return outcome

    def _been(self, frame: Frame) -> list[bytes]:
        return [name for key, value in frame.headers if key == self.header and value for name in value.split(b",")]

    def why(self, frame: Frame) -> str:
        """Where the message has been."""
        been = b", ".join(self._been(frame)).decode("utf-8", "replace") or "nowhere"
        return f"it has been to {been}; it goes to {self.there.decode()}"


STAGE = Trail
