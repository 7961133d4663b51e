"""All benchmarks as one: each verb in a process of its own, one after the other, and their records."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """One verb and how it is called."""

    name: str
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The process to start."""
        return [sys.executable, "-m", "loader", "bench", self.name, *self.arguments, "--json"]


SHORT = (
    Part("load", ("--prefill", "300000", "--repetitions", "3")),
    Part("run", ("--prefill", "300000", "--repetitions", "3")),
    Part("bridge", ("--messages", "200000")),
    Part("gps", ("--repetitions", "2")),
    Part("fleet", ("--messages", "60000")),
)
"""Under 15 minutes on two cores."""
LONG = (
    Part("latency"),
    Part("soak", ("--minutes", "30", "--rate", "2000")),
    Part("fleet"),
)
"""About an hour."""


@dataclass(slots=True)
class Outcome:
    """What became of a part."""

    part: Part
    seconds: float
    code: int
    record: dict[str, Any] | None
    said: list[str] = field(default_factory=list)
    """The last lines of its stderr."""

    @property
    def complaint(self) -> str:
        """Why it is no success; empty when it is one."""
        if self.code == 0 and self.record is not None:
            return ""
        said = self.said[-1] if self.said else "it said nothing"
        return f"{self.part.name} ended with exit code {self.code}: {said}"


def there(parts: Iterable[Part]) -> list[Part]:
    """The parts whose verb is installed."""
    return [part for part in parts if importlib.util.find_spec(f"loader.bench.verbs.{part.name}") is not None]


def run_suite(
    parts: Sequence[Part], note: Callable[[str], None], finished: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """Run the parts. One that fails does not keep the others from running; `finished` hears of each at once."""
    outcomes = []
    for number, part in enumerate(parts, 1):
        note(f"{number} of {len(parts)}: loader bench {part.name} {' '.join(part.arguments)}".rstrip())
        outcome = run_part(part, note)
        note(outcome.complaint or f"{part.name} took {outcome.seconds:.0f} s")
        outcomes.append(outcome)
        finished(outcome)
    return outcomes


def run_part(part: Part, note: Callable[[str], None]) -> Outcome:
    """One part in a process of its own; its remarks go to `note` as they come. When this one is interrupted so is the
    part, which then ends the servers that it started."""
    started = time.monotonic()
    said: list[str] = []
    # A file and not a pipe for the record: nobody reads it while the remarks are read.
    with tempfile.TemporaryFile() as answer:
        with subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.PIPE) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    text = line.decode("utf-8", "replace").rstrip()
                    said = [*said[-9:], text]
                    note(f"  {part.name} {time.monotonic() - started:4.0f} s: {text}")
                code = process.wait()
            except BaseException:
                _end(process)
                raise
        answer.seek(0)
        record = _record(answer.read())
    return Outcome(part, time.monotonic() - started, code, record, said)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _record(answer: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(answer)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "benchmark" in found else None
