"""The in-memory Pub/Sub server as a process of its own: its CPU apart from ours, and something to kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from loader.errors import LoaderError
from loader.local.faults import FaultsClient

STOP_SECONDS = 10.0


class PubsubProcess:
    """A server process on 127.0.0.1. A context manager; after `kill` or `stop`, `start` takes the same port again."""

    def __init__(self, port: int = 0, arguments: Sequence[str] = (), log: Path | None = None) -> None:
        self.port = port
        self._arguments = list(arguments)
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._faults: FaultsClient | None = None

    @property
    def endpoint(self) -> str:
        """`host:port`, as PUBSUB_EMULATOR_HOST wants it; known after the first start."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id. Raises LoaderError when it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise LoaderError("The in-memory Pub/Sub server is not running.")
        return self._process.pid

    @property
    def faults(self) -> FaultsClient:
        """Faults and counts of the server."""
        if self._faults is None:
            self._faults = FaultsClient(self.endpoint)
        return self._faults

    def start(self) -> PubsubProcess:
        """Starts it and waits until it answers. Raises LoaderError with what it said when it ends instead."""
        command = [sys.executable, "-m", "loader.local.pubsub_server", "--port", str(self.port), *self._arguments]
        # The package is importable wherever this process found it, installed or not.
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        with self._log.open("a+") if self._log else tempfile.TemporaryFile("w+") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            self._process.stdout.close()
            if not line.startswith("listening on "):
                self._process.wait()
                errors.seek(0)
                raise LoaderError(f"The in-memory Pub/Sub server did not start: {errors.read().strip()[-500:]}")
        self.port = int(line.rpartition(":")[2])
        return self

    def _end(self, number: signal.Signals) -> None:
        if self._faults is not None:
            self._faults.close()
            self._faults = None
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ends it in order. Its messages are gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as kill -9 does. Its messages are gone."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> PubsubProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
