"""When a bundle closes: by time from its first message, by count or by bytes, whichever comes first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from loader.message.message import Message

ClosedBy = Literal["time", "messages", "bytes", "flow", "stop"]
"""`flow`: nothing more can come before something is acknowledged."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Messages that load as one transaction."""

    messages: list[Message]
    bytes: int
    """Of the bodies, as they came."""
    opened_at: float
    """Clock (time.monotonic unless told otherwise) at its first message."""
    closed_by: ClosedBy


class Window:
    """Gathers messages into bundles of at most `max_messages`, over `seconds` and `max_bytes` by at most one message.

    Plain data and a clock: whoever feeds it waits until `due`."""

    def __init__(
        self, seconds: float, max_messages: int, max_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if seconds <= 0 or max_messages < 1 or max_bytes < 1:
            raise ValueError(f"a window needs limits above 0, not {seconds} s, {max_messages} and {max_bytes} bytes")
        self._seconds = seconds
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self._clock = clock
        self._messages: list[Message] = []
        self._bytes = 0
        self._opened_at = 0.0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def due(self) -> float | None:
        """Clock at which the window closes by time; None while it is empty."""
        return self._opened_at + self._seconds if self._messages else None

    def add(self, messages: list[Message]) -> list[Message]:
        """Take messages in order until the window is full; returns those that are left for the next one."""
        if not messages or self.full:
            return messages
        if not self._messages:
            self._opened_at = self._clock()
        room = self.max_messages - len(self._messages)
        taken = messages if len(messages) <= room else messages[:room]
        size = sum([len(message.data) for message in taken])
        if self._bytes + size >= self.max_bytes:
            taken, size = self._within_bytes(taken)
        self._messages += taken
        self._bytes += size
        return messages[len(taken) :]

    def _within_bytes(self, messages: list[Message]) -> tuple[list[Message], int]:
        size = count = 0
        for message in messages:
            size += len(message.data)
            count += 1
            if self._bytes + size >= self.max_bytes:
                break
        return messages[:count], size

    @property
    def full(self) -> bool:
        """Count or bytes are reached."""
        return len(self._messages) >= self.max_messages or self._bytes >= self.max_bytes

    def closed_by(self, now: float) -> ClosedBy | None:
        """Why the window is closed at `now`; None while it is open."""
        if len(self._messages) >= self.max_messages:
            return "messages"
        if self._bytes >= self.max_bytes:
            return "bytes"
        if self._messages and now >= self._opened_at + self._seconds:
            return "time"
        return None

    def take(self, closed_by: ClosedBy) -> Bundle:
        """Everything gathered, as a bundle; the window is empty after it."""
        bundle = Bundle(self._messages, self._bytes, self._opened_at, closed_by)
        self._messages, self._bytes = [], 0
        return bundle
