"""What a subscription delivers, and what it holds once it has been understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One delivery of one Pub/Sub message."""

    ack_id: str
    message_id: str
    data: bytes
    attributes: Mapping[str, str]
    published: int
    """Publish time in microseconds since the epoch."""
    attempt: int
    """Delivery attempt; 0 when the subscription does not count them."""
    ordering_key: str = ""


class Event(NamedTuple):
    """One JSON object of a message: what becomes one root row (and the child rows of its lists)."""

    message: Message
    identity: str
    """The `_event_id`; the same for every delivery and every replay of the event."""
    digest: int
    """Signed 64-bit digest of the inflated body: tells a duplicate from another event under a reused identity."""
    table: str
    """Root table: a pure function of the message and the settings, never of the schema of the moment."""
    record: dict[str, Any] | None
    """None once it has been fitted: it is read from the message again where it is needed once more."""


class Refused(Exception):
    """A message that can never become events. `reason` is a short stable code, `detail` names what was wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
