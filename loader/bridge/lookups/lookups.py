"""Keeps lookups fresh in threads of their own. Reading one is a dictionary access: no look-up a message."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loader.bridge.config.model import Lookup
from loader.bridge.frame import Unavailable
from loader.bridge.lookups.state import FetchFailed, fetch

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 1.0
JITTER = 0.1
"""Refreshes are spread by this share, so that a fleet does not ask all at once."""


class Refreshed:
    """One lookup and its thread. A refresh that fails leaves the last good state, whose age is `age()`."""

    def __init__(
        self,
        lookup: Lookup,
        fetch: Callable[[Lookup], Mapping[str, Any]] = fetch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lookup = lookup
        self.failures = 0
        """Failed fetches in a row."""
        self.fetches = 0
        self.entries: Mapping[str, Any] | None = None
        self._fetch = fetch
        self._clock = clock
        self._fetched_at: float | None = None
        self._began = clock()
        self._stop = threading.Event()
        self._loaded = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lookup-{lookup.name}", daemon=True)

    def start(self) -> None:
        """Begin to fetch. Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, or leave it to end its fetch."""
        self._stop.set()
        self._thread.join(timeout=1.0)

    def wait(self, seconds: float) -> bool:
        """Wait for the first state; whether there is one."""
        return self._loaded.wait(seconds)

    def age(self) -> float:
        """Seconds since the state was fetched; since the start, while there is none."""
        return self._clock() - (self._began if self._fetched_at is None else self._fetched_at)

    def refresh(self) -> float:
        """Fetch once; seconds until the next fetch."""
        self.fetches += 1
        began = self._clock()
        try:
            entries = self._fetch(self.lookup)
        except FetchFailed as error:
            self._failed(str(error))
        except Exception as error:
            # A refresh must not end because of an answer that nobody thought of; the state it had stays.
            log.exception("lookup %s: unexpected %s", self.lookup.name, type(error).__name__)
            self._failed(type(error).__name__)
        else:
            if self.failures:
                log.info("lookup %s: fetched again after %d failures", self.lookup.name, self.failures)
            self.entries = entries
            self._fetched_at = began
            self.failures = 0
            self._loaded.set()
            return self.lookup.refresh_seconds * random.uniform(1 - JITTER, 1 + JITTER)
        backoff = FIRST_RETRY_SECONDS * 2.0 ** min(self.failures - 1, 10)
        return min(self.lookup.refresh_seconds, backoff) * random.uniform(1 - JITTER, 1 + JITTER)

    def _failed(self, reason: str) -> None:
        self.failures += 1
        if self.failures == 1:  # once an outage, not once a try
            state = (
                f"the state of {self.age():.0f} s ago stays" if self.entries is not None else "pipelines wait for it"
            )
            log.warning("lookup %s cannot be fetched, %s: %s", self.lookup.name, state, reason)

    def _run(self) -> None:
        while not self._stop.wait(self.refresh()):
            pass


class Lookups:
    """All lookups of the pipelines that run here."""

    def __init__(self, lookups: Iterable[Lookup], fetch: Callable[[Lookup], Mapping[str, Any]] = fetch) -> None:
        self.all = {lookup.name: Refreshed(lookup, fetch) for lookup in lookups}

    def start(self) -> None:
        """Begin to fetch all of them."""
        for refreshed in self.all.values():
            refreshed.start()

    def stop(self) -> None:
        """End all threads."""
        for refreshed in self.all.values():
            refreshed.stop()

    def state(self, name: str) -> Mapping[str, Any]:
        """The entries by key. Raises Unavailable before the first fetch has worked: the messages that need it wait."""
        entries = self.all[name].entries
        if entries is None:
            raise Unavailable(f"the lookup {name} has not been fetched yet")
        return entries

    def ages(self) -> Mapping[str, float]:
        """Age of each state in seconds, for the metrics."""
        return {name: refreshed.age() for name, refreshed in self.all.items()}


def fixed(states: Mapping[str, Mapping[str, Any]]) -> Callable[[str], Mapping[str, Any]]:
    """Lookups that say what a test takes them to say. A lookup that the test does not mention is empty."""
    return lambda name: states.get(name) or {}
