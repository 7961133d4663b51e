"""Schemas by id, each asked for once and kept: an id never means another schema."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from loader.bridge.frame import Unavailable, Undecodable
from loader.bridge.registry.client import NoSuchSchema, Registry

T = TypeVar("T")

ABSENT_SECONDS = 60.0
"""An id that is not there may be registered later: it is asked for again, but not for each message."""
_MOST_ABSENT = 10_000


class NotYetFetched(Unavailable):
    """The schema of this id was not asked for yet. `remedy` does it, and is slow: not for where others wait."""

    def __init__(self, number: int, fetch: Callable[[int], Any]) -> None:
        super().__init__(f"the schema {number} was not fetched yet")
        self._number = number
        self._fetch = fetch

    def remedy(self) -> None:
        """Fetch it. Raises Unavailable when that is not possible now; a schema that is not there is no fault here."""
        self._fetch(self._number)


class Schemas(Generic[T]):
    """`prepare` makes of a schema what is needed to read by it; it raises NoSuchSchema for one that is of no use."""

    def __init__(self, registry: Registry, prepare: Callable[[Any], T]) -> None:
        self.known: dict[int, T] = {}
        self._registry = registry
        self._prepare = prepare
        self._absent: dict[int, tuple[float, str]] = {}
        self._fetching = threading.Lock()

    def get(self, number: int) -> T:
        """What is known by this id. Asks nobody. Raises Undecodable, NotYetFetched."""
        found = self.known.get(number)
        if found is not None:
            return found
        absent = self._absent.get(number)
        if absent is not None and time.monotonic() < absent[0]:
            raise Undecodable(absent[1])
        raise NotYetFetched(number, self.fetch)

    def fetch(self, number: int) -> None:
        """Ask the registry unless it is known. Raises Unavailable."""
        with self._fetching:
            if number in self.known:
                return
            try:
                self.known[number] = self._prepare(self._registry.by_id(number))
                self._absent.pop(number, None)
            except NoSuchSchema as error:
                if len(self._absent) >= _MOST_ABSENT:
                    self._absent.clear()
                self._absent[number] = (time.monotonic() + ABSENT_SECONDS, str(error))

    def fetch_newest(self, subject: str) -> int:
        """Ask for a subject's newest schema and keep it; returns its id. Raises NoSuchSchema, Unavailable."""
        number, schema = self._registry.newest(subject)
        with self._fetching:
            if number not in self.known:
                self.known[number] = self._prepare(schema)
        return number
