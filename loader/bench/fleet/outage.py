"""Restarts of a Postgres of ours while the fleet works on: in a thread, for a shutdown takes its time."""

from __future__ import annotations

import threading
import time

from loader.local.postgres import EmbeddedPostgres


class Outages:
    """One restart at a time."""

    def __init__(self, server: EmbeddedPostgres | None) -> None:
        self._server = server
        self._thread: threading.Thread | None = None
        self._failed: list[BaseException] = []
        self.seconds: list[float] = []
        """How long each took."""

    @property
    def possible(self) -> bool:
        """Whether the server is ours."""
        return self._server is not None

    @property
    def busy(self) -> bool:
        """Whether a restart is going on. Raises the error of one that failed."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread.join()
            self._thread = None
        if self._failed:
            raise self._failed[0]
        return self._thread is not None

    def begin(self, kind: str) -> None:
        """`restart`: in order; `crash`: kill -9, and recovery from the log."""
        self._thread = threading.Thread(target=self._restart, args=(kind,), name="outage")
        self._thread.start()

    def wait(self) -> None:
        """Until no restart is going on. Raises the error of one that failed."""
        if self._thread is not None:
            self._thread.join()
        assert not self.busy

    def _restart(self, kind: str) -> None:
        assert self._server is not None
        started = time.monotonic()
        try:
            if kind == "crash":
                self._server.kill()
            else:
                self._server.stop()
            self._server.start()
        except BaseException as error:
            self._failed.append(error)
        self.seconds.append(round(time.monotonic() - started, 2))
