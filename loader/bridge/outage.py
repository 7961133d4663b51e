"""Tells of an outage of Kafka in few lines: one when it begins, one a minute with a count, one when it is over.

librdkafka says for each broker and each try that it failed, and everything that it said while nobody listened at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from loader.words import counted

AGAIN_SECONDS = 60.0
"""Between two lines about what does not work, those of an outage that begins soon after another included."""
_OF_CONNECTIONS = frozenset({"FAIL", "ERROR", "REQTMOUT", "SESSTMOUT"})
"""What librdkafka calls lines about brokers that cannot be reached."""


class Outage:
    """Of what `name` says, for all clients that speak to it. Thread-safe. It is what they take for a logger."""

    def __init__(self, name: str, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told = False
        self._due = clock()
        self._untold = 0

    @property
    def lasting(self) -> bool:
        """Something failed, and nothing has worked since."""
        return self._since is not None

    def trouble(self, text: str) -> None:
        """Something failed: told, or only counted."""
        with self._lock:
            now = self._clock()
            if self._since is None:
                self._since = now
            if now < self._due:
                self._untold += 1
                return
            lasted = f"still, after {now - self._since:.0f} s: " if self._told else ""
            more = f" ({counted(self._untold, 'line')} like it left out)" if self._untold else ""
            self._told, self._untold, self._due = True, 0, now + AGAIN_SECONDS
        self._logger.warning("%s: %s%s%s", self._name, lasted, text, more)

    def over(self) -> None:
        """It works."""
        if self._since is None:
            return
        with self._lock:
            since, told = self._since, self._told
            self._since, self._told = None, False
        if told and since is not None:
            self._logger.info("%s: works again after %.0f s", self._name, self._clock() - since)

    def log(self, level: int, message: str, *arguments: Any) -> None:
        """A line of librdkafka's: what it is about, the client's name and the text."""
        text = message % arguments if arguments else message
        if (arguments[0] if arguments else text.partition(" ")[0]) in _OF_CONNECTIONS:
            self.trouble(text)
        else:
            self._logger.log(level, "%s: %s", self._name, text)
