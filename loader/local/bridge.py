"""A bridge, a Kafka broker and a schema registry in processes of their own, for demo, tests and benchmarks."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import urllib3

from loader.errors import LoaderError
from loader.local.kafka import process_command
from loader.local.listener import Listener
from loader.local.ports import free_port

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
_NEEDED = {"confluent_kafka": "confluent-kafka", "fastavro": "fastavro", "hcl2": "python-hcl2"}
_ROOT = str(Path(__file__).resolve().parents[2])


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    # The package is importable wherever this process found it, installed or not.
    path = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **extra}


class BridgeProcess:
    """`loader bridge FILE`. A context manager; `environ` is what the file's env() finds, and settings of the bridge."""

    def __init__(self, file: Path, environ: Mapping[str, str], log: Path | None = None) -> None:
        self._file = file
        self._environ = dict(environ)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.NamedTemporaryFile(prefix="bridge-", suffix=".log") if log is None else None  # noqa: SIM115 - closed with the process
        self._port = 0

    @property
    def pid(self) -> int:
        """Process id. Raises LoaderError when it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise LoaderError(f"the bridge does not run: {self.said()}")
        return self._process.pid

    def start(self) -> BridgeProcess:
        """Start it; returns at once."""
        self._port = free_port()
        wanted = {"LOADER_HTTP_PORT": str(self._port), **self._environ}
        with open(self._path, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "loader", "bridge", "run", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(wanted),
                # Its own session: Ctrl-C is for whoever started it, and that one stops it in order.
                start_new_session=True,
            )
        return self

    @property
    def _path(self) -> str:
        return str(self._log) if self._log is not None else str(self._said.name if self._said is not None else "")

    def said(self) -> str:
        """The end of its log."""
        with open(self._path, "rb") as log:
            return log.read()[-1_500:].decode(errors="replace").strip()

    def await_ready(self) -> BridgeProcess:
        """Wait until every source is read and every sink delivers. Raises LoaderError when it ends or takes long."""
        deadline = time.monotonic() + READY_SECONDS
        while self._get("/readyz") is None:
            _ = self.pid
            if time.monotonic() > deadline:
                raise LoaderError(f"the bridge is not ready within {READY_SECONDS:g} s: {self.said()}")
            time.sleep(0.1)
        return self

    def metrics(self) -> dict[str, float]:
        """Its figures by name, those of all pipelines added up, buckets by `name{le}`. Raises LoaderError."""
        text = self._get("/metrics")
        if text is None:
            _ = self.pid
            raise LoaderError("the bridge gives no metrics")
        found: dict[str, float] = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                bare, _, labels = name.partition("{")
                if 'le="' in labels:
                    bare += "{" + labels.partition('le="')[2].partition('"')[0] + "}"
                found[bare] = found.get(bare, 0.0) + float(value)
        return found

    def _get(self, path: str) -> str | None:
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self._port}{path}", timeout=5.0, retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.data.decode() if answer.status == 200 else None

    def hang_up(self) -> None:
        """Have it read its file again."""
        os.kill(self.pid, signal.SIGHUP)

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM; returns its exit code. It is killed if it takes long, and that is an error: LoaderError."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LoaderError(f"the bridge did not end within {STOP_SECONDS:g} s of SIGTERM") from None

    def __enter__(self) -> BridgeProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._process is not None and self._process.poll() is None:
                self.stop()
        finally:
            if self._said is not None:
                self._said.close()


def missing_for_kafka() -> str | None:
    """What to install before Kafka, the registry or a bridge can run here; None when nothing is missing."""
    missing = [name for module, name in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if not missing:
        return None
    return f"Kafka and the bridge need {', '.join(missing)}: install the extra `bridge` (pip install '.[bridge]')."


def kafka_listener(topics: Mapping[str, int], log: Path | None = None) -> Listener:
    """A broker that outlives this process. Raises LoaderError."""
    command, environment = process_command(topics)
    return Listener(command, environment, "Kafka broker", log)


def registry_listener(log: Path | None = None) -> Listener:
    """A schema registry that outlives this process. Raises LoaderError."""
    return Listener([sys.executable, "-m", "loader.bridge.registry.server"], _environment({}), "schema registry", log)


@contextmanager
def kafka_process(topics: Mapping[str, int]) -> Iterator[str]:
    """A broker; gives its address."""
    listener = kafka_listener(topics)
    try:
        yield listener.address
    finally:
        listener.stop()


@contextmanager
def registry_process() -> Iterator[str]:
    """A schema registry; gives its URL."""
    listener = registry_listener()
    try:
        yield listener.address
    finally:
        listener.stop()
