"""What a stage is: a function over frames with declared options. A new stage is one file in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from loader.bridge.frame import Frame


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a block: its name, what it takes, its default and what it is for. The docs are made from it."""

    name: str
    takes: str
    """string, number, bool, duration, size, condition, path, list(string), map(value), one of a|b|c …: see
    config/options.py."""
    help: str
    default: Any = None
    required: bool = False
    secret: bool = False
    by_path: bool = False
    """The names of its map are paths of fields."""
    file: bool = False
    """It names a file to read (see config/reference.py, `beside`)."""
    inner: tuple[Option, ...] = ()
    """Options of the nested blocks, if it takes `blocks`."""


class RefusedFrame(Exception):
    """The stage refuses a message for good: it goes to the dead-letter endpoint with this reason."""


@dataclass(slots=True)
class Outcome:
    """What became of a batch of frames in one stage."""

    frames: Any = field(default_factory=list)
    """A list of frames, or columns."""
    refused: list[tuple[Frame, str]] = field(default_factory=list)
    filtered: int = 0


class StageContext(Protocol):
    """What a stage may use besides frames."""

    pipeline: str
    sinks: Sequence[str]
    """Names of the pipeline's sinks."""

    def lookup(self, name: str) -> Mapping[str, Any]:
        """The lookup's state as it is now: what is kept by key, keys as text."""

    def wait(self, seconds: float) -> None:
        """Slow the pipeline down (throttle); returns early when it stops."""


class Stage(Protocol):
    """Works on a batch at a time, so that its loop is a tight one. Keeps the order of what it keeps.

    A message must not vanish: it is in `frames`, in `refused`, or counted in `filtered`. A frame given may be changed
    (`frame.set` copies what it changes) and belongs to this pipeline alone; its payload does not.

    A stage that only looks may have `sift(columns: Columns) -> Outcome` beside `apply`, which says the same of messages
    of which no frames were made yet (see loader/bridge/columns.py).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[Sequence[Option]]

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None: ...

    def apply(self, frames: list[Frame]) -> Outcome: ...

    def why(self, frame: Frame) -> str:
        """What it does with this frame, before `apply`, for `--explain`."""
