"""Keeps the messages for which a condition holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.columns import Columns
from loader.bridge.condition.compile import compile_condition
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.sieve import sift
from loader.bridge.stages.stage import Option, Outcome, StageContext


class Filter:
    """Drops what the condition does not hold for; drops are counted and committed."""

    name: ClassVar[str] = "filter"
    summary: ClassVar[str] = "Keeps the messages for which a condition holds; the others are counted as filtered."
    options: ClassVar[Sequence[Option]] = (
        Option("when", "condition", "Condition that a message must meet.", required=True),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.condition = compile_condition(options["when"], context.lookup)

    def apply(self, frames: list[Frame]) -> Outcome:
        test = self.condition.test
        if not self.condition.reads_payload:
            kept = [frame for frame in frames if test(frame)]
            return Outcome(kept, [], len(frames) - len(kept))
        kept = []
        refused = []
        for frame in frames:
            try:
                if test(frame):
                    kept.append(frame)
            except Undecodable as error:
                refused.append((frame, str(error)))
        return Outcome(kept, refused, len(frames) - len(kept) - len(refused))

    def sift(self, columns: Columns) -> Outcome:
        """As `apply`, without frames for what passes."""
        said, faults = sift(columns, self.condition.test, self.condition.quick)
        kept = columns.only(said)
        return Outcome(kept, [(columns[at], str(error)) for at, error in faults], len(said) - len(kept) - len(faults))

    def why(self, frame: Frame) -> str:
        """Which condition kept or dropped it."""
        return f"{self.condition.text} is {'true' if self.condition.test(frame) else 'not true'}"


STAGE = Filter
