"""The worker of the demo: `loader run` in a process of its own, as in production; its log lines tell what it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from loader.errors import LoaderError
from loader.settings.aliases import ALIASES, IGNORED

WINDOW_SECONDS = 1
"""The demo's bundles are short, so that there is something to see; the default is five seconds."""
STOP_SECONDS = 25.0
_FOREIGN = ("LOADER_", "PUBSUB_", "DESTINATION_", "PG")
_REMEMBERED = 20


def environment(wanted: Mapping[str, str], shell: Mapping[str, str]) -> dict[str, str]:
    """The shell's variables without those that mean something to the loader, and the wanted ones."""
    foreign = {*ALIASES, *IGNORED}
    kept = {name: value for name, value in shell.items() if not name.startswith(_FOREIGN) and name not in foreign}
    root = str(Path(__file__).resolve().parents[2])
    return {
        **kept,
        # The package is importable wherever this process found it, installed or not.
        "PYTHONPATH": os.pathsep.join(filter(None, [root, shell.get("PYTHONPATH", "")])),
        "LOADER_WINDOW_SECONDS": str(WINDOW_SECONDS),
        "LOADER_HTTP_PORT": "0",  # the default port may be in use
        **wanted,
    }


class WorkerProcess:
    """A context manager. `committed` has the moment of each load's commit, by load id, as the worker told it."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self.committed: dict[str, float] = {}
        self.ready = threading.Event()
        """Set once it pulls; and when it ends before."""
        self._wanted = dict(wanted)
        self._lines: deque[str] = deque(maxlen=_REMEMBERED)
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process

    def start(self) -> WorkerProcess:
        """Starts the process; returns at once."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loader", "run"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(self._wanted, os.environ),
            # Its own session: Ctrl-C is for the demo, which stops it in order.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), name="worker log", daemon=True)
        self._reader.start()
        return self

    def _read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self._take(line)
        self.ready.set()

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            self._lines.append(line.decode(errors="replace").strip())
            return
        self.ready.set()
        if "load_id" in entry and "time" in entry:
            self.committed[entry["load_id"]] = datetime.fromisoformat(entry["time"]).timestamp()
        elif entry.get("severity") in ("ERROR", "CRITICAL"):
            self._lines.append(str(entry.get("message", "")))

    def check(self) -> None:
        """Raises LoaderError, with what it said, if it ended unasked."""
        if self._process is not None and self._process.poll() is not None:
            raise LoaderError(f"the worker ended with exit code {self._process.returncode}: {self._said()}")

    def _said(self) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return (said or " ".join(self._lines))[-600:] or "it said nothing"

    def stop(self) -> float:
        """SIGTERM, as a deployment does it; returns the seconds it took. Raises LoaderError if it does not end well."""
        process, self._process = self._process, None
        if process is None:
            return 0.0
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise LoaderError(f"the worker did not end within {STOP_SECONDS:g} s of SIGTERM") from None
        finally:
            if self._reader is not None:
                self._reader.join(5.0)
        if code != 0:
            raise LoaderError(f"the worker ended with exit code {code}: {self._said()}")
        return time.monotonic() - started

    def __enter__(self) -> WorkerProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error: what went wrong is known already.
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._reader is not None:
            self._reader.join(5.0)
        self._errors.close()
