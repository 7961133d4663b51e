"""Programs that pull a subscription, as processes of their own: our worker, the baseline and the ceiling.

Each tells its progress by JSON lines on stdout; from these and from /proc its CPU is known apart from ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loader.bench.cpu import peak_bytes, process_seconds
from loader.errors import LoaderError

_START_SECONDS = 60.0
_SETTLED_SECONDS = 10.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What a child said: it is ready to pull, or it has loaded so many more messages."""

    at: float
    ready: bool
    messages: int
    rows: int


@dataclass(frozen=True, slots=True)
class Drained:
    """What it took to load a backlog."""

    messages: int
    cpu: float
    """Seconds from readiness to the last ack; imports are left out."""
    wall: float
    """Seconds from the first commit to the last, for `steady` messages."""
    steady: int
    whole: float
    """Seconds from readiness to the last commit."""
    server: float | None
    peak: int | None

    @property
    def cpu_micros(self) -> float:
        """CPU of the child, µs a message."""
        return self.cpu / self.messages * 1e6

    @property
    def rate(self) -> float:
        """Messages a second between the first and the last commit; over the whole when there was one only."""
        return self.steady / self.wall if self.steady and self.wall > 0 else self.messages / self.whole


def progress_of(line: str, at: float) -> Progress | None:
    """What a line says, or None: the worker's own log, or {"ready": true} and {"loaded": N} of the others."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    message = str(entry.get("message", ""))
    if entry.get("ready") or (message.startswith("loader ") and " loads " in message):
        return Progress(at, True, 0, 0)
    if "loaded" in entry:
        return Progress(at, False, int(entry["loaded"]), int(entry["loaded"]))
    if message.startswith("loaded ") and "load_id" in entry:
        return Progress(at, False, int(entry.get("events", 0)) + int(entry.get("duplicates", 0)), int(entry["rows"]))
    return None


class Child:
    """A child process and what it has said so far. A context manager: it is stopped at the end."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOADER_", "PUBSUB_", "PG"))}
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**kept, **environment},
        )
        self._changed = threading.Condition()
        self._progress: list[Progress] = []
        self._ended = False
        self.ready_cpu = 0.0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            progress = progress_of(line, time.perf_counter())
            if progress is None:
                continue
            with self._changed:
                if progress.ready and not self._progress:
                    self.ready_cpu = process_seconds(self.pid)
                self._progress.append(progress)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_ready(self) -> None:
        """Until it has told that it pulls. Raises LoaderError with the end of its stderr when it ends instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._progress or self._ended, _START_SECONDS)
            if not self._progress:
                raise LoaderError(f"the process did not start: {self._said()}")

    def wait_loaded(self, messages: int, seconds: float) -> list[Progress]:
        """Until it has loaded so many; what it said. Raises LoaderError when it does not within `seconds`."""

        def loaded() -> int:
            return sum(progress.messages for progress in self._progress)

        with self._changed:
            self._changed.wait_for(lambda: loaded() >= messages or self._ended, seconds)
            if loaded() < messages:
                raise LoaderError(f"only {loaded():,} of {messages:,} messages were loaded: {self._said()}")
            return list(self._progress)

    def wait_idle(self) -> float:
        """Until it uses no CPU (acks are sent); its CPU in seconds at that moment."""
        deadline = time.monotonic() + _SETTLED_SECONDS
        before = process_seconds(self.pid)
        while True:
            time.sleep(0.3)
            now = process_seconds(self.pid)
            if now - before <= 0.011 or time.monotonic() > deadline:
                return now
            before = now

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().strip()[-800:] or "it said nothing"

    def stop(self) -> int:
        """SIGTERM, and SIGKILL if that is not enough; the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(5.0)
        return self._process.returncode

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def drain(
    arguments: Sequence[str], environment: Mapping[str, str], messages: int, seconds: float, server_pid: int | None
) -> Drained:
    """Start a child on a backlog of `messages` and measure it until all are loaded and acked."""
    with Child(arguments, environment) as child:
        child.wait_ready()
        server = process_seconds(server_pid) if server_pid is not None else 0.0
        said = child.wait_loaded(messages, seconds)
        cpu = child.wait_idle() - child.ready_cpu
        spent = process_seconds(server_pid) - server if server_pid is not None else None
        peak = peak_bytes(child.pid)
        loads = [progress for progress in said if progress.messages]
        steady = sum(progress.messages for progress in loads[1:])
        return Drained(messages, cpu, loads[-1].at - loads[0].at, steady, loads[-1].at - said[0].at, spent, peak)
