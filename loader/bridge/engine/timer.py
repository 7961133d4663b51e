"""Calls at a later time, on one thread for all sinks: a backoff must not hold a thread, nor wait for a reader."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Timer:
    """`after(seconds, call)`. Calls must be short. What is pending when it closes is dropped."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._news = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, so many seconds from now."""
        with self._news:
            if self._thread is None and not self._closed:
                # Made with the first call: most pipelines never need it.
                self._thread = threading.Thread(target=self._run, name="timer", daemon=True)
                self._thread.start()
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), call))
            self._news.notify()

    def close(self) -> None:
        """End the thread."""
        with self._news:
            self._closed = True
            self._news.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._closed and (not self._due or self._due[0][0] > time.monotonic()):
                    self._news.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._closed:
                    return
                call = heapq.heappop(self._due)[2]
            try:
                call()
            except Exception:
                # One sink's fault must not end the retries of all others; its messages stay unconfirmed.
                log.exception("A call by timer failed")
