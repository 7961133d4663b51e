"""A program of ours that writes `listening on ADDRESS` once it answers, in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from loader.errors import LoaderError

STOP_SECONDS = 10.0


class Listener:
    """Started at once; outlives this process unless `stop` ends it. Raises LoaderError with what it said when it ends
    instead of answering. What it says to stderr is appended to `log`, or goes where this process' own does."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], what: str, log: Path | None = None):
        errors = None if log is None else log.open("ab")
        start = 0 if log is None or not log.exists() else log.stat().st_size
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                text=True,
                # Its own session: Ctrl-C is for whoever started it, and that one stops it in order.
                start_new_session=True,
            )
        finally:
            if errors is not None:
                errors.close()
        assert self._process.stdout is not None
        with self._process.stdout as said:
            line = said.readline()
        if not line.startswith("listening on "):
            self.stop()
            reason = "" if log is None else log.read_bytes()[start:].decode(errors="replace").strip()[-500:]
            raise LoaderError(f"the {what} did not start" + (f": {reason}" if reason else ""))
        self.address = line.removeprefix("listening on ").strip()
        self.pid = self._process.pid

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that takes long."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
