"""All benchmarks as one: each verb in a process of its own, one after the other, and their records."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_STOP_SECONDS = 60.0
_LAST_REMARKS_SECONDS = 5.0


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
    Part("run", ("--prefill", "300000", "--messages", "200000", "--repetitions", "2")),
    Part("bridge", ("--messages", "200000")),
    Part("gps", ("--processes", "1", "--repetitions", "2")),
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
    """One part in a process of its own; its remarks go to `note` as they come, from a thread.

    When this process is interrupted so is the part, which then ends the servers that it started.
    """
    started = time.monotonic()
    said: deque[str] = deque(maxlen=10)

    def read(lines: Iterable[bytes]) -> None:
        for line in lines:
            said.append(line.decode("utf-8", "replace").rstrip())
            note(f"  {part.name} {time.monotonic() - started:4.0f} s: {said[-1]}")

    # A file and not a pipe for the record: nobody reads it while the part runs.
    with tempfile.TemporaryFile() as answer:
        process = subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.PIPE)
        # A thread, and one that is not waited for in the end: a server that a broken part left behind holds the pipe.
        reader = threading.Thread(target=read, args=(process.stderr,), name=f"remarks of {part.name}", daemon=True)
        reader.start()
        try:
            code = process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            reader.join(_LAST_REMARKS_SECONDS)
            if not reader.is_alive() and process.stderr is not None:
                process.stderr.close()
        answer.seek(0)
        record = _record(answer.read())
    return Outcome(part, time.monotonic() - started, code, record, list(said))


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: through the clean-up of all that was started. So does Ctrl-C where a shell had
    it ignored, which the processes would inherit."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _record(answer: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(answer)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "benchmark" in found else None
