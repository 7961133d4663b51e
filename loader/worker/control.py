"""The worker's side of the link to its supervisor: answers for metrics, health and profiles, and ends with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, MutableMapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from loader.worker.flight import FlightRecord
from loader.worker.link import Link, LinkClosed

if TYPE_CHECKING:
    from loader.observe.endpoints import Subject

LINK = "_LOADER_LINK"
FLIGHT = "_LOADER_FLIGHT"
"""Names in a worker's environment of the descriptors that it inherits; no settings, hence the underscore."""
_HELLO_SECONDS = 10.0


def _drain() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Control:
    """Kept by a worker that has a supervisor. `on_orphan` is called when the supervisor has gone."""

    def __init__(self, link: int, flight: int, on_orphan: Callable[[], None] = _drain) -> None:
        self.flight = FlightRecord(flight)
        self._suspects: dict[str, int] = {}
        self._subject: Subject | None = None
        self._link = Link(Connection(link), self._handle, on_orphan)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> Control | None:
        """The control of this process, None without a supervisor. Takes the names out: they are for no child."""
        link, flight = environment.pop(LINK, None), environment.pop(FLIGHT, None)
        if link is None or flight is None:
            return None
        return cls(int(link), int(flight))

    def start(self, subject: Subject) -> None:
        """Answer for `subject`, and learn which messages are suspect. Call it before the first message is worked on."""
        self._subject = subject
        self._link.start()
        try:
            self._suspects = self._link.ask("hello", _HELLO_SECONDS)
        except LinkClosed:
            pass  # the supervisor has gone already: `on_orphan` sees to it

    @property
    def suspects(self) -> Mapping[str, int]:
        """Message ids to be loaded alone → deaths of workers at which it was the only message in flight."""
        return self._suspects

    def _handle(self, what: str, arguments: dict[str, Any]) -> Any:
        subject = self._subject
        if subject is None:
            raise ValueError("the worker is starting")
        if what == "state":
            # Health first: readiness is a metric too.
            report = subject.report().as_dict()
            return {"report": report, "snapshot": subject.snapshot()}
        if what == "profile":
            return subject.profile(arguments["seconds"], arguments["form"], 0)
        if what == "suspects":
            self._suspects = arguments["suspects"]
            return None
        raise ValueError(f"unknown question {what!r}")
