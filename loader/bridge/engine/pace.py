"""How long a reader waits for what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of a reader, in seconds."""

    commit: float = 5.0
    linger: float = 0.02
    """How long a read waits for more, and so how long a message waits for others."""
    revoke: float = 5.0
    """How long a partition that goes may be finished."""
    part: float = 1.0
    """How long a pipeline at its bound may hold the others."""
    rejoin: float = 3.0
    """How long it stays apart at least."""
