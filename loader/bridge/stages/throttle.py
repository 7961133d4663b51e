"""Slows a pipeline down to a rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.frame import Frame
from loader.bridge.stages.rate import Rate
from loader.bridge.stages.stage import Option, Outcome, StageContext


class Throttle:
    """Lets messages pass at a rate; what waits is held in the source."""

    name: ClassVar[str] = "throttle"
    summary: ClassVar[str] = "Lets at most so many messages a second pass, of this pipeline on this instance."
    options: ClassVar[Sequence[Option]] = (
        Option("rate", "rate", "Messages a second.", required=True),
        Option("burst", "rate", "Messages that may pass at once after a pause; unset: those of one second."),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.limit = Rate(options["rate"], options.get("burst") or max(1.0, options["rate"]))
        self.context = context

    def apply(self, frames: list[Frame]) -> Outcome:
        if seconds := self.limit.take(len(frames)):
            self.context.wait(seconds)
        return Outcome(frames)

    def why(self, frame: Frame) -> str:
        """The rate."""
        return f"passes at {self.limit.rate:g} messages a second"


STAGE = Throttle
