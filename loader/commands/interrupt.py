"""Ctrl-C for commands that look again and again until they are interrupted."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """A context manager for the main thread; `pause` within it raises KeyboardInterrupt once SIGINT has come.

    Python raises KeyboardInterrupt between any two instructions, and throws it away when those are a destructor's: a
    Ctrl-C just after something was printed would now and then do nothing. So it is raised, and remembered as well."""

    def __init__(self) -> None:
        self._came = False
        self._former: Any = None

    def __enter__(self) -> Interrupt:
        self._former = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._former)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt

    def pause(self, seconds: float) -> None:
        """Sleep. Raises KeyboardInterrupt, also when it came before."""
        if self._came:
            raise KeyboardInterrupt
        time.sleep(seconds)
