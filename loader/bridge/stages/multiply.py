"""Makes several messages of one, for load tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.condition.functions import text
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.stages.change import check_parents
from loader.bridge.stages.rate import Rate
from loader.bridge.stages.stage import Option, Outcome, RefusedFrame, StageContext


class Multiply:
    """Copies with identities and, if wanted, ids of their own. A message that comes again makes the same copies."""

    name: ClassVar[str] = "multiply"
    summary: ClassVar[str] = (
        "Makes several copies of each message, for load tests. Each has an identity of its own, and ids of its own in "
        "the fields of new_ids: the old id, a slash and the copy's number."
    )
    options: ClassVar[Sequence[Option]] = (
        Option("copies", "count", "Messages made of one.", required=True),
        Option("new_ids", "list(path)", "Fields that get a new id in each copy.", ()),
        Option("rate", "rate", "Most messages a second after multiplying; unset: no limit."),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.copies = options["copies"]
        self.new_ids = options.get("new_ids") or ()
        rate = options.get("rate")
        self.limit = Rate(rate, max(1.0, rate)) if rate else None
        self.context = context

    def apply(self, frames: list[Frame]) -> Outcome:
        outcome = Outcome()
        for frame in frames:
            try:
                outcome.frames += self._copies(frame)
            except (Undecodable, RefusedFrame) as error:
                outcome.refused.append((frame, str(error)))
        if self.limit and (seconds := self.limit.take(len(outcome.frames))):
            self.context.wait(seconds)
        return outcome

    def _copies(self, frame: Frame) -> list[Frame]:
        made = []
        for number in range(self.copies):
            copy = frame.copy()
            copy.index = (*frame.index, number)
            if frame.payload.value is not None:
                for path in self.new_ids:
                    check_parents(copy, path)
                    copy.set(path, f"{text(copy.get(path)) or ''}/{number}")
            made.append(copy)
        return made

    def why(self, frame: Frame) -> str:
        """How many copies."""
        return f"makes {self.copies} of it"


STAGE = Multiply
