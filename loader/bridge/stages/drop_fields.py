"""Takes fields away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.frame import Frame
from loader.bridge.stages.change import change_each
from loader.bridge.stages.stage import Option, Outcome, StageContext

_MISSING = object()


class DropFields:
    """Removes fields, and headers if asked to."""

    name: ClassVar[str] = "drop_fields"
    summary: ClassVar[str] = "Takes payload fields or headers away. What is not there is no fault."
    options: ClassVar[Sequence[Option]] = (
        Option("fields", "list(path)", "Paths of the fields.", ()),
        Option("headers", "list(string)", "Names of the headers.", ()),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.fields = options.get("fields") or ()
        self.headers = frozenset(options.get("headers") or ())

    def apply(self, frames: list[Frame]) -> Outcome:
        if self.headers:
            for frame in frames:
                frame.headers = [pair for pair in frame.headers if pair[0] not in self.headers]
        return change_each(frames, self._change) if self.fields else Outcome(frames)

    def _change(self, frame: Frame) -> None:
        for path in self.fields:
            # Asked first: a payload that has none of them is not even read with every digit.
            if frame.get(path, _MISSING) is not _MISSING:
                frame.drop(path)

    def why(self, frame: Frame) -> str:
        """What is taken away."""
        there = [".".join(path) for path in self.fields if frame.get(path, _MISSING) is not _MISSING]
        there += [f"header {name}" for name, _ in frame.headers if name in self.headers]
        return f"drops {', '.join(there)}" if there else "drops nothing: no such field"


STAGE = DropFields
