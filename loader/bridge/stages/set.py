"""Sets fields, headers and the key to values that are written down or worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.condition.compile import Compiled, compile_value
from loader.bridge.condition.functions import text
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.stages.change import check_parents
from loader.bridge.stages.stage import Option, Outcome, RefusedFrame, StageContext


class Set:
    """All values are worked out from the message as it came into the stage, then set."""

    name: ClassVar[str] = "set"
    summary: ClassVar[str] = "Sets payload fields, headers or the key. A tombstone's fields stay as they are: none."
    options: ClassVar[Sequence[Option]] = (
        Option(
            "fields",
            "map(value)",
            'Fields by path and what they get: { "customer.tier" = lookup.tiers[key] }.',
            {},
            by_path=True,
        ),
        Option("headers", "map(value)", "Headers and what they get, as text; null takes a header away.", {}),
        Option("key", "value", "What the key gets, as text."),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        def compiled(values: Mapping[str, Any]) -> list[tuple[str, Compiled]]:
            return [(name, compile_value(value, context.lookup)) for name, value in values.items()]

        self.fields = [(tuple(name.split(".")), value) for name, value in compiled(options.get("fields") or {})]
        self.headers = compiled(options.get("headers") or {})
        key = options.get("key")
        self.key = None if key is None else compile_value(key, context.lookup)
        values = [value for _, value in self.fields] + [value for _, value in self.headers]
        self.reads = any(value.reads_payload for value in [*values, *([self.key] if self.key else [])])

    def apply(self, frames: list[Frame]) -> Outcome:
        outcome = Outcome()
        for frame in frames:
            try:
                self._change(frame)
            except (Undecodable, RefusedFrame) as error:
                outcome.refused.append((frame, str(error)))
            else:
                outcome.frames.append(frame)
        return outcome

    def _change(self, frame: Frame) -> None:
        there = frame.payload.value is not None or frame.changed
        if self.reads and there:
            _ = frame.exact_fields  # what is copied keeps its digits
        fields = [(path, value.value(frame)) for path, value in self.fields] if there else []
        headers = {name: _bytes(name, value.value(frame)) for name, value in self.headers}
        key = _bytes("key", self.key.value(frame)) if self.key else frame.key
        for path, value in fields:
            check_parents(frame, path)
            frame.set(path, value)
        if headers:
            kept = [pair for pair in frame.headers if pair[0] not in headers]
            frame.headers = [*kept, *((name, value) for name, value in headers.items() if value is not None)]
        frame.key = key

    def why(self, frame: Frame) -> str:
        """What is set."""
        names = [".".join(path) for path, _ in self.fields] + [f"header {name}" for name, _ in self.headers]
        return "sets " + ", ".join(names + (["key"] if self.key else []))


def _bytes(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    written = text(value)
    if written is None:
        raise RefusedFrame(f"{name} cannot be a list or map")
    try:
        return written.encode()
    except UnicodeEncodeError:
        raise RefusedFrame(f"{name} would hold a lone surrogate, which has no bytes") from None


STAGE = Set
