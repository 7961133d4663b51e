"""All worker processes of a run, so that none is left behind whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from loader.bench.fleet.worker import Worker

Hold = Callable[[], AbstractContextManager[None]]
"""Makes a block that no interrupt breaks into."""


class Workers:
    """Starts them and remembers each. A context manager: those that are left at the end are killed."""

    def __init__(self, hold: Hold = nullcontext) -> None:
        self._hold = hold
        self._started: list[Worker] = []

    def start(self, environment: Mapping[str, str], heard: Callable[[float, float], None]) -> Worker:
        """See Worker."""
        with self._hold():
            self._started = [worker for worker in self._started if worker.poll() is None]
            worker = Worker(environment, heard)
            self._started.append(worker)
        return worker

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._started:
            if worker.poll() is None:
                worker.kill()
