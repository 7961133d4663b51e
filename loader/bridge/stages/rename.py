"""Renames fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.frame import Frame
from loader.bridge.stages.change import change_each, check_parents
from loader.bridge.stages.stage import Option, Outcome, RefusedFrame, StageContext

_MISSING = object()


class Rename:
    """Moves a field to another path."""

    name: ClassVar[str] = "rename"
    summary: ClassVar[str] = "Renames payload fields. A field that is not there is left alone."
    options: ClassVar[Sequence[Option]] = (
        Option("fields", "map(path)", 'Old path and new path: { "usr" = "user.name" }.', required=True, by_path=True),
        Option(
            "on_conflict",
            "one of refuse|overwrite|keep",
            "If the new path has a value already: refuse the message, overwrite that value, or keep both as they are.",
            "refuse",
        ),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.fields = [(tuple(old.split(".")), new) for old, new in options["fields"].items()]
        self.on_conflict = options.get("on_conflict") or "refuse"

    def apply(self, frames: list[Frame]) -> Outcome:
        return change_each(frames, self._change)

    def _change(self, frame: Frame) -> None:
        for old, new in self.fields:
            if frame.get(old, _MISSING) is _MISSING or old == new:
                continue
            if frame.get(new, _MISSING) is not _MISSING:
                if self.on_conflict == "keep":
                    continue
                if self.on_conflict == "refuse":
                    raise RefusedFrame(f"cannot rename {'.'.join(old)}: {'.'.join(new)} is there already")
            _ = frame.exact_fields
            value = frame.get(old)
            frame.drop(old)
            check_parents(frame, new)
            frame.set(new, value)

    def why(self, frame: Frame) -> str:
        """What is renamed."""
        there = [f"{'.'.join(a)} to {'.'.join(b)}" for a, b in self.fields if frame.get(a, _MISSING) is not _MISSING]
        return f"renames {', '.join(there)}" if there else "renames nothing: no such field"


STAGE = Rename
