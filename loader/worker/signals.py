"""SIGTERM and SIGINT: both ask for the drain, however often they come."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Calls `on_stop` once, in a thread, at the first SIGTERM or SIGINT. To be made in the main thread.

    A handler runs between any two instructions of the main thread, also while that holds the lock within
    `Event.wait`: setting the event right there could wait for ever. So the handler only puts into a SimpleQueue, which
    is made for that, and a thread does the rest."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._pass_on, name="signals", daemon=True).start()
        self._former = {number: signal.signal(number, self._on_signal) for number in _NUMBERS}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked.put(None)

    def _pass_on(self) -> None:
        self._asked.get()
        self._on_stop()

    def restore(self) -> None:
        """Back to the handlers that there were."""
        for number, handler in self._former.items():
            signal.signal(number, handler)


def ignore_stop_signals() -> None:
    """For a process that ends: another signal must not turn its clean exit into a death by signal."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
