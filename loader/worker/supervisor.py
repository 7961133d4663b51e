"""Several worker processes as one: started, watched, restarted, and drained together (LOADER_PROCESSES).

Workers are fresh interpreters, never forks: gRPC and threads do not survive one. Each is in a process group of its
own, so that Ctrl-C reaches the supervisor alone and each worker is told once. A supervisor that is killed closes its
ends of the links, which its workers notice and drain (unlike PR_SET_PDEATHSIG, on macOS too)."""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Pipe
from types import FrameType
from typing import Any

from loader.errors import ConfigurationError, LoaderError
from loader.worker.control import FLIGHT, LINK
from loader.worker.fleet import Fleet
from loader.worker.flight import FlightRecord, Suspects, new_record
from loader.worker.link import Link, LinkClosed, LinkRefused

log = logging.getLogger(__name__)

MOST_DEATHS = 5
DEATHS_SECONDS = 60.0
"""A worker that dies five times within a minute cannot stay up: the supervisor gives up."""
FIRST_BACKOFF = 0.5
LONGEST_BACKOFF = 8.0
MARGIN_SECONDS = 3.0
"""Beyond LOADER_SHUTDOWN_SECONDS before a worker that drains is killed."""
_TELL_SECONDS = 5.0


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    link: Link
    flight: FlightRecord


@dataclass(slots=True)
class _Slot:
    """One of the LOADER_PROCESSES, whichever process fills it."""

    number: int
    child: _Child | None = None
    deaths: deque[float] = field(default_factory=deque)
    restart_at: float = 0.0


class Supervisor:
    """Runs `count` processes of `command` with `environment`; `run` is for the main thread, which gets the signals.

    `fleet` shows them to the HTTP server. `first_backoff` (seconds) doubles at each death that follows within a
    minute."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        environment: Mapping[str, str],
        shutdown_seconds: float,
        *,
        first_backoff: float = FIRST_BACKOFF,
        margin_seconds: float = MARGIN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._patience = shutdown_seconds + margin_seconds
        self._first_backoff = first_backoff
        self._clock = clock
        self._slots = [_Slot(number) for number in range(count)]
        self._suspects = Suspects()
        self._events: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._stopping_until: float | None = None
        self._killed = False
        self._result = 0
        self._undrained = False
        self._fault: LoaderError | None = None
        self.fleet = Fleet(count)

    def stop(self) -> None:
        """Drain all; may be called from any thread and any signal handler."""
        self._events.put(("stop", None, None))

    def run(self) -> int:
        """Until all have drained. The exit code: 0, or 1 when some did not drain.

        Raises LoaderError when workers cannot stay up, ConfigurationError when one ended with 78."""
        # They stay: one more signal after the drain must not turn a clean exit into a death by signal.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            self._supervise()
        finally:
            self._kill_all()
        if self._fault is not None:
            raise self._fault
        return 1 if self._undrained else 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop()  # nothing else: SimpleQueue.put is made for handlers, logging and locks are not

    def _supervise(self) -> None:
        for slot in self._slots:
            self._start(slot)
        while any(slot.child is not None for slot in self._slots) or self._stopping_until is None:
            try:
                kind, of, code = self._events.get(timeout=self._wait())
            except queue.Empty:
                pass  # something is due
            else:
                if kind == "stop":
                    self._stop_all("The workers are told to drain")
                else:
                    self._ended(of, code)
            self._look_at_the_clock()

    def _wait(self) -> float | None:
        """Seconds until something is due; None when only an event can change anything."""
        due = [slot.restart_at for slot in self._slots if slot.child is None and self._stopping_until is None]
        if self._stopping_until is not None and not self._killed:
            due.append(self._stopping_until)
        return max(0.0, min(due) - self._clock()) if due else None

    def _look_at_the_clock(self) -> None:
        now = self._clock()
        if self._stopping_until is None:
            for slot in self._slots:
                if slot.child is None and now >= slot.restart_at:
                    self._start(slot)
        elif now >= self._stopping_until and not self._killed:
            self._killed = True
            left = [slot.number for slot in self._slots if slot.child is not None]
            if left:
                self._undrained = True
                log.error("Workers %s have not drained in %.0f s and are killed", left, self._patience)
                self._signal_all(signal.SIGKILL)

    def _start(self, slot: _Slot) -> None:
        ours, theirs = Pipe()
        flight = new_record()
        environment = {**self._environment, LINK: str(theirs.fileno()), FLIGHT: str(flight)}
        try:
            process = subprocess.Popen(
                self._command,
                env=environment,
                pass_fds=(theirs.fileno(), flight),
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        except BaseException:
            ours.close()
            os.close(flight)
            raise
        finally:
            theirs.close()
        link = Link(ours, self._handle)
        slot.child = _Child(process, link, FlightRecord(flight))
        link.start()
        self.fleet.started(slot.number, link)
        threading.Thread(target=self._await, args=(slot, process), name=f"worker {slot.number}", daemon=True).start()
        log.info("Worker %d is started (process %d)", slot.number, process.pid)

    def _await(self, slot: _Slot, process: subprocess.Popen[bytes]) -> None:
        self._events.put(("ended", slot, process.wait()))

    def _handle(self, what: str, arguments: dict[str, Any]) -> Any:
        if what == "hello":
            return self._suspects.current
        raise ValueError(f"unknown question {what!r}")

    def _ended(self, slot: _Slot, code: int) -> None:
        child, slot.child = slot.child, None
        assert child is not None
        child.link.join(1.0)
        in_flight = child.flight.read()
        os.close(child.flight.descriptor)
        if self._stopping_until is not None:
            self.fleet.ended(slot.number, None)
            # SIGTERM ends a worker only while it starts, and then it holds nothing.
            drained = code in (0, -signal.SIGTERM)
            self._undrained |= not drained
            level = logging.INFO if drained else logging.ERROR
            log.log(level, "Worker %d has ended: %s", slot.number, outcome(code))
            return
        self.fleet.ended(slot.number, exit_label(code))
        if code == ConfigurationError.exit_code:
            self._fail(
                ConfigurationError(f"Worker {slot.number} ended with exit code 78: its last line says what to set")
            )
            return
        self._died(slot, code)
        if code < 0 and self._suspects.died(in_flight):
            # Only a kill (memory, a crash): an orderly exit has nothing against the messages in flight.
            self._tell_suspects()

    def _died(self, slot: _Slot, code: int) -> None:
        now = self._clock()
        slot.deaths.append(now)
        while now - slot.deaths[0] > DEATHS_SECONDS:
            slot.deaths.popleft()
        if len(slot.deaths) >= MOST_DEATHS:
            text = f"Worker {slot.number} ended {len(slot.deaths)} times within {DEATHS_SECONDS:.0f} s"
            self._fail(LoaderError(f"{text}, at last: {outcome(code)}. Its last lines say why"))
            return
        wait = min(self._first_backoff * 2 ** (len(slot.deaths) - 1), LONGEST_BACKOFF)
        slot.restart_at = now + wait
        log.error("Worker %d has ended unasked: %s. It starts again in %.1f s", slot.number, outcome(code), wait)

    def _fail(self, fault: LoaderError) -> None:
        self._fault = fault
        self._stop_all("The workers are told to drain, for one of them cannot go on")

    def _stop_all(self, text: str) -> None:
        if self._stopping_until is not None:
            return  # told already: each worker gets one signal
        self._stopping_until = self._clock() + self._patience
        self.fleet.stopping()
        log.info("%s", text)
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for slot in self._slots:
            if slot.child is not None:
                slot.child.process.send_signal(number)  # does nothing once the process has been waited for

    def _tell_suspects(self) -> None:
        suspects = self._suspects.current
        log.warning("%d messages were in flight when workers died twice: they are loaded alone", len(suspects))
        for slot in self._slots:
            if slot.child is not None:
                threading.Thread(target=_tell, args=(slot.child.link, suspects), name="suspects", daemon=True).start()

    def _kill_all(self) -> None:
        """After a fault of the supervisor's own; otherwise nothing is left."""
        for slot in self._slots:
            if slot.child is not None:
                slot.child.process.kill()
                slot.child.process.wait()
                os.close(slot.child.flight.descriptor)
                slot.child = None


def _tell(link: Link, suspects: dict[str, int]) -> None:
    try:
        link.ask("suspects", _TELL_SECONDS, {"suspects": suspects})
    except (TimeoutError, LinkClosed, LinkRefused):
        pass  # it has gone, or is starting and asks for them itself


def exit_label(code: int) -> str:
    """An exit code, or the name of the signal: `1`, `SIGKILL`."""
    if code >= 0:
        return str(code)
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def outcome(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"exit code {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"killed by {exit_label(code)}{hint}"
