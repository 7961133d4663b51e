"""Keeps a share of the messages, the same ones each time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from loader.bridge.condition.compile import compile_value
from loader.bridge.condition.functions import text
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.stages.stage import Option, Outcome, StageContext

_SPAN = 2**32


class Sample:
    """Decides by a hash, so that a message that comes again, or comes to another instance, is decided alike."""

    name: ClassVar[str] = "sample"
    summary: ClassVar[str] = "Keeps a share of the messages: always the same ones, for the choice is made by a hash."
    options: ClassVar[Sequence[Option]] = (
        Option("rate", "fraction", "Share that is kept, 0 to 1.", required=True),
        Option(
            "by",
            "expression",
            "What is hashed: key keeps all messages of a key together, as payload.session does those of a session. "
            "Unset, or where it is null: the message's topic, partition and offset.",
        ),
        Option("salt", "string", "Another salt makes another choice; the same one in two places makes the same.", ""),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.limit = options["rate"] * _SPAN
        self.rate = options["rate"]
        self.seed = zlib.crc32((options.get("salt") or "").encode())
        by = options.get("by")
        if by is None:
            self.material: Callable[[Frame], bytes] = _identity
        else:
            value = compile_value(by, context.lookup).value

            def worked_out(frame: Frame) -> bytes:
                written = text(value(frame))
                return _identity(frame) if written is None else written.encode("utf-8", "surrogatepass")

            self.material = worked_out

    def apply(self, frames: list[Frame]) -> Outcome:
        outcome = Outcome()
        for frame in frames:
            try:
                kept = self.keeps(frame)
            except Undecodable as error:
                outcome.refused.append((frame, str(error)))
                continue
            if kept:
                outcome.frames.append(frame)
            else:
                outcome.filtered += 1
        return outcome

    def keeps(self, frame: Frame) -> bool:
        """Whether the message is one of the kept."""
        number = zlib.crc32(self.material(frame), self.seed)
        # CRC alone is linear: neighbouring numbers fall into neighbouring places. These steps (as in Murmur's end)
        # spread them.
        number = (number ^ number >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        number = (number ^ number >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        return (number ^ number >> 16) < self.limit

    def why(self, frame: Frame) -> str:
        """Whether it is among the kept."""
        return f"{'among' if self.keeps(frame) else 'not among'} the {100 * self.rate:.6g} % kept"


def _identity(frame: Frame) -> bytes:
    return f"{frame.topic}/{frame.partition}/{frame.offset}{frame.index or ''}".encode()


STAGE = Sample
