"""What a source is: it gives batches of frames, and is told how far they were delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from loader.bridge.engine.bucket import Bucket
from loader.bridge.frame import Frame


@dataclass(slots=True)
class Batch:
    """What one read gave."""

    frames: Sequence[Frame] = ()
    """A list, or columns (see loader/bridge/columns.py)."""
    positions: Mapping[Any, int] = field(default_factory=dict)
    """Partition → where to go on after this batch."""
    tokens: Sequence[Any] = ()
    """For a source that confirms messages one by one."""
    size: int = 0
    """Bytes that the frames hold in memory, about."""
    skipped: int = 0
    """Tombstones left out, counted."""
    tombstones: int = 0
    """Tombstones among the frames."""
    full: bool = False
    """There is more to be had at once: what is collected need not be sent yet."""
    ended: bool = False
    """Nothing will come any more (a file)."""


class Handover(Protocol):
    """What a source asks for while partitions move. Called on the reader's thread, within `read` or `close`."""

    def assigned(self, partitions: Sequence[Any]) -> Mapping[Any, int]:
        """Partitions came; returns where to start those that do not start from the group's committed position."""

    def revoked(self, partitions: Sequence[Any]) -> Mapping[Any, int]:
        """Partitions go: finish what can be finished in bounded time; returns the positions to commit for them."""

    def lost(self, partitions: Sequence[Any]) -> None:
        """Partitions are somebody else's already: nothing may be committed."""


class Source(Protocol):
    """Used by one thread."""

    name: str

    def open(self, handover: Handover) -> None:
        """Connect. Raises OSError or a LoaderError when that is not possible now; it is tried again."""

    def read(self, most: int, timeout: float) -> Batch:
        """Up to about `most` frames; empty when none came within `timeout` seconds."""

    def pause(self, paused: bool) -> None:
        """While paused `read` gives nothing, and keeps the membership alive."""

    def commit(self, bucket: Bucket) -> None:
        """Everything in the bucket was delivered. Returns at once; failures are counted and made good later."""

    def lag(self) -> int | None:
        """Messages behind the end, None when unknown. Cheap."""

    def close(self, bucket: Bucket | None, deadline: float) -> None:
        """Commit what is left and let go, at most until about `deadline` (time.monotonic)."""
