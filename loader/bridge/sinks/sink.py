"""What a sink is: it takes frames and settles each exactly once, as delivered or as refused for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from loader.bridge.engine.bucket import Share
from loader.bridge.frame import Frame
from loader.bridge.identity import suffix


class Origin:
    """Where a frame came from, one object for all frames of a partition; kept as `Frame.source`."""

    __slots__ = ("partition", "prefix", "topic")

    def __init__(self, topic: str, partition: int, prefix: str) -> None:
        self.topic = topic
        self.partition = partition
        self.prefix = prefix.encode()
        """Of the identity, up to the offset."""


class Delivery(Protocol):
    """The pipeline's ear. Any thread may call."""

    def confirm(self, share: Share, count: int, size: float) -> None:
        """So many frames of so many bytes are where they were to go."""

    def refuse(self, share: Share, frame: Frame, reason: str, size: float) -> None:
        """The sink will never take this frame. An outage is no reason."""


class Sink(Protocol):
    """Takes frames from one thread. Bounded by the pipeline, which gives no more than may be in flight."""

    name: str

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        """Take frames; they may wait for others until `flush`. Never blocks for the network.

        `size` is what they weigh for the pipeline's bound in bytes, each the same: it comes back with what settles
        them, and need not be exact for one message."""

    def flush(self) -> None:
        """Send what waits, now; returns at once."""

    @property
    def trouble(self) -> str | None:
        """What keeps it from delivering, None while it delivers."""

    @property
    def backoff_seconds(self) -> float:
        """Seconds spent waiting after failures, since start."""

    def close(self, deadline: float) -> bool:
        """Flush, wait until everything is settled or `deadline` (time.monotonic), let go. False when some is not."""


def identity_of(frame: Frame, end: bytes) -> bytes:
    """The frame's `event_id`; `end` is the pipeline's part (see loader/bridge/identity.py).

    A frame without an offset has an origin that names the message itself (Pub/Sub)."""
    name: bytes = frame.source.prefix
    if frame.offset >= 0:
        name = b"%b%d" % (name, frame.offset)
    if frame.index:
        return name + end + suffix(None, frame.index).encode()
    return name + end
