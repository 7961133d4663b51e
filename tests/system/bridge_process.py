"""A bridge as a process for the tests beside this file, and the blocks of its file that they share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from system_harness import ROOT


def kafka(brokers: str) -> str:
    """The endpoint `events`; a group finds out within a second or two that a member is gone."""
    times = '{ "session.timeout.ms" = 1500, "heartbeat.interval.ms" = 300, "max.poll.interval.ms" = 6000 }'
    return endpoint("kafka", "events", brokers=brokers, topic="events").replace("\n}", f"\n  properties = {times}\n}}")


def endpoint(kind: str, name: str, environment: str = "test", **options: str) -> str:
    """An endpoint in the region `eu`."""
    return _block(f'endpoint "{kind}" "{name}"', {"region": "eu", "environment": environment, **options})


def pipeline(name: str, sink: str, when: str | None = None, **options: str) -> str:
    """From `events` to a sink, through a filter if there is a condition."""
    given = {"source": "events", "sinks": sink, "on_refusal": "stop", **options}
    stage = "" if when is None else f'  stage "filter" {{\n    when = {json.dumps(when)}\n  }}\n'
    return _block(f'pipeline "{name}"', given, stage)


def _block(head: str, options: dict[str, str], inner: str = "") -> str:
    lines = "".join(f"  {name} = {json.dumps(value)}\n" for name, value in options.items())
    return f"{head} {{\n{lines}{inner}}}\n"


class Bridge:
    """`loader bridge FILE` in eu/test, its log beside the file. `environment` are further variables."""

    def __init__(self, file: Path, **environment: str) -> None:
        self.log = file.with_suffix(f".{time.monotonic_ns()}.log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "loader", "bridge", str(file), "--region", "eu", "--environment", "test"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "LOADER_HTTP_PORT": "0", **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def until(self, reached: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until it is so; fails with the log when it takes longer, or the process has ended."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)

    def until_logged(self, text: str) -> None:
        """Wait for a line with this text."""
        self.until(lambda: text in self.log.read_text())

    def kill(self) -> None:
        """kill -9, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(40)
