"""Copies a field to another field, a header or the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.condition.functions import text
from loader.bridge.frame import Frame
from loader.bridge.stages.change import change_each, check_parents
from loader.bridge.stages.stage import Option, Outcome, RefusedFrame, StageContext

_MISSING = object()


class CopyField:
    """One source, any of three places to copy to."""

    name: ClassVar[str] = "copy_field"
    summary: ClassVar[str] = "Copies a payload field to another field, a header or the key."
    options: ClassVar[Sequence[Option]] = (
        Option("from", "path", "Field that is copied; a message without it is left alone.", required=True),
        Option("to", "path", "Field that gets it."),
        Option("to_header", "string", "Header that gets it, as text."),
        Option("to_key", "bool", "Whether the key gets it, as text.", False),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.path = options["from"]
        self.to = options.get("to")
        self.to_header = options.get("to_header")
        self.to_key = bool(options.get("to_key"))

    def apply(self, frames: list[Frame]) -> Outcome:
        return change_each(frames, self._change)

    def _change(self, frame: Frame) -> None:
        if frame.get(self.path, _MISSING) is _MISSING:
            return
        _ = frame.exact_fields
        value = frame.get(self.path)
        if self.to_header or self.to_key:
            written = text(value)
            if written is None:
                raise RefusedFrame(f"{'.'.join(self.path)} is {'null' if value is None else 'no single value'}")
            try:
                raw = written.encode()
            except UnicodeEncodeError:
                where = self.to_header or "the key"
                raise RefusedFrame(f"{where} would hold a lone surrogate, which has no bytes") from None
            if self.to_header:
                frame.headers = [pair for pair in frame.headers if pair[0] != self.to_header] + [(self.to_header, raw)]
            if self.to_key:
                frame.key = raw
        if self.to:
            check_parents(frame, self.to)
            frame.set(self.to, value)

    def why(self, frame: Frame) -> str:
        """What is copied."""
        there = "" if frame.get(self.path, _MISSING) is not _MISSING else ": it is not there"
        targets = [".".join(self.to)] if self.to else []
        targets += [f"header {self.to_header}"] if self.to_header else []
        return f"copies {'.'.join(self.path)} to {', '.join(targets + ['key'] * self.to_key)}{there}"


STAGE = CopyField
