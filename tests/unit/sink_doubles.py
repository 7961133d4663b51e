"""What a sink talks to, for tests without a server: the engine's side and a gRPC channel."""

from __future__ import annotations

from typing import Any


class Delivery:
    """Confirms as the engine does, and keeps what is refused."""

    def __init__(self) -> None:
        self.refused: list[tuple[Any, str]] = []

    def confirm(self, share, count, size):
        share.confirm(count)

    def refuse(self, share, frame, reason, size):
        self.refused.append((frame, reason))


class Channel:
    """Keeps request bodies and answers none; a test settles the requests."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def unary_unary(self, method):
        return self

    def future(self, body, timeout):
        self.bodies.append(body)
        return self

    def add_done_callback(self, call):
        pass

    def close(self):
        pass
