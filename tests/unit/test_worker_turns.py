"""Events that are tried again and bundles take turns, however slow the database makes the former."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from loader.bundle.window import Window
from loader.copy.bundle_load import Held
from loader.message.message import Event, Message
from loader.worker.batch import Batch, MessageBatch
from loader.worker.lane import Loaded
from loader.worker.worker import Worker


class Puller:
    """Has so many messages, one a time, and then asks the worker to stop."""

    exhausted = False

    def __init__(self, messages: int, stop: threading.Event) -> None:
        self._left = messages
        self._stop = stop

    def take(self, timeout: float = 0.0) -> list[Message]:
        if not self._left:
            self._stop.set()
            return []
        self._left -= 1
        return [Message(f"a{self._left}", f"m{self._left}", b"{}", {}, 0, 0)]


class Lane:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    def store(self, batch: Batch) -> list[Loaded]:
        self.turns.append("bundle" if isinstance(batch, MessageBatch) else "held")
        return []


def test_no_bundle_waits_for_more_than_one_retry() -> None:
    lane, nothing = Lane(), SimpleNamespace(forget=lambda: None, refused={}, bundle_closed=lambda bundle: None)
    settlement: Any = SimpleNamespace(settle_messages=lambda messages: None)
    parts: Any = (lane, nothing, lane, nothing, threading.Event(), settlement, nothing)
    puller: Any = Puller(4, threading.Event())
    worker = Worker(puller, Window(5, 1, 1_000), *parts, shutdown_seconds=1.0)
    puller._stop = worker._stop
    worker.held._clock = lambda: 1e9  # all that is held is due at once
    for number in range(9):
        event = Event(Message(f"h{number}", "h", b"{}", {}, 0, 0), "h", 0, "t", None)
        worker.held.add(Held([event], "57014", "too slow", majority=True), 1)
    worker.held._clock = lambda: 2e9
    worker._load_bundles()
    assert lane.turns[:8] == ["held", "bundle"] * 4
