"""A `loader run` process, and what it says: that it is ready, how old its events were, what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

_KEPT = 3
"""Last lines of an ended worker that are shown."""


class Process(Protocol):
    """What a VM runs, as the group handles it."""

    @property
    def ready(self) -> bool:
        """Whether it pulls."""

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""

    def said(self) -> str:
        """Its last words."""


class Worker:
    """A process of its own session: Ctrl-C in the terminal is for the benchmark, which then ends its workers."""

    def __init__(self, environment: Mapping[str, str], heard: Callable[[float, float], None]) -> None:
        """`heard` gets the time (monotonic) and age of each load's oldest event, in seconds."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOADER_", "PUBSUB_", "PG"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loader", "run"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**kept, **environment},
            start_new_session=True,
        )
        self._heard = heard
        self._last: deque[str] = deque(maxlen=_KEPT)
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, name="worker-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Whether it has said that it pulls."""
        return self._ready.is_set()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                age = age_of(line)
                if age is not None:
                    self._heard(time.monotonic(), age)
                elif " loads projects/" in line:
                    self._ready.set()
                else:
                    self._last.append(line.strip()[:500])

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """SIGTERM, as a preemption begins."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self._process.kill()
        self._process.wait()
        self._reader.join(5.0)

    def said(self) -> str:
        """Its last lines that were no report of a load."""
        return " | ".join(self._last) or "it said nothing"


def age_of(line: str) -> float | None:
    """The age of the oldest event of a load, None for any other line."""
    if '"age_seconds"' not in line:
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if "load_id" not in entry or not entry.get("events"):
        return None
    return float(entry["age_seconds"])
