"""Where the CPU goes: the stacks of all threads, sampled and weighed by the CPU time that each thread used.

The result is in collapsed stacks (flamegraph.pl, speedscope and Grafana read them), in microseconds of CPU."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Literal

LONGEST_SECONDS = 30.0
HERTZ = 100
Form = Literal["collapsed", "top"]
NATIVE = "(outside_Python)"
_DEEPEST = 200

# Without a clock for each thread (macOS) a thread counts as working unless it stands in one of these.
_WAITING = frozenset(
    {"wait", "_wait_for_tstate_lock", "join", "select", "poll", "accept", "recv", "recv_into", "readinto"}
)
_WAITING |= {"get", "acquire", "sleep", "next_event", "_recv", "read", "flush"}


class ProfileBusy(Exception):
    """A profile is being taken; there is one at a time, for its cost is the worker's."""


@dataclass(slots=True)
class Profile:
    """Weights in microseconds of CPU (without a clock for each thread: of wall time in which it seemed to work)."""

    stacks: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Thread name, then frames from the outermost to the innermost."""
    seconds: float = 0.0
    samples: int = 0
    cpu_seconds: float = 0.0
    """Of the whole process, the sampler included."""
    own_seconds: float = 0.0
    """CPU that the sampler used itself; not in `stacks`."""

    def text(self, form: Form) -> str:
        """`collapsed`: one line a stack; `top`: functions by their own time, for people."""
        return self._collapsed() if form == "collapsed" else self._top()

    def _collapsed(self) -> str:
        return "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in sorted(self.stacks.items()) if weight)

    def _top(self, most: int = 60) -> str:
        own: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for (_thread, *frames), weight in self.stacks.items():
            own[frames[-1]] += weight
            for frame in set(frames):
                total[frame] += weight
        whole = max(1, sum(own.values()))
        used = f"{self.cpu_seconds:.3f} s of CPU, {self.own_seconds:.3f} s of it for this profile"
        lines = [f"{self.seconds:.1f} s, {self.samples} samples, {used}", "", f"{'OWN':>7} {'TOTAL':>7}  FUNCTION"]
        lines += [
            f"{weight / whole:7.1%} {total[name] / whole:7.1%}  {name}"
            for name, weight in own.most_common(most)
            if weight
        ]
        return "\n".join(lines) + "\n"


class Profiler:
    """Takes one profile at a time. `stop` ends one early."""

    def __init__(self, hertz: int = HERTZ) -> None:
        self._interval = 1.0 / hertz
        self._busy = threading.Lock()
        self._stop = threading.Event()

    def take(self, seconds: float) -> Profile:
        """Sample for so long (at most 30 s), in the calling thread. Raises ProfileBusy, ValueError."""
        if not 0 < seconds <= LONGEST_SECONDS:
            raise ValueError(f"seconds must be above 0 and at most {LONGEST_SECONDS:g}, not {seconds:g}")
        if not self._busy.acquire(blocking=False):
            raise ProfileBusy
        try:
            return self._sample(seconds)
        finally:
            self._busy.release()

    def stop(self) -> None:
        """End the profile that is being taken, and every later one at once: the process stops."""
        self._stop.set()

    def _sample(self, seconds: float) -> Profile:
        profile = Profile()
        me = threading.get_ident()
        names: dict[CodeType, str] = {}
        began, cpu, own = time.monotonic(), time.process_time(), time.thread_time()
        clocks = _thread_clocks()
        due = began
        while (now := time.monotonic()) < began + seconds:
            # After a delay one sample is taken, not all those that were missed.
            due = max(due + self._interval, now)
            if self._stop.wait(due - now):
                break
            before, clocks = clocks, _thread_clocks()
            for ident, frame in sys._current_frames().items():
                if ident == me:
                    continue
                name, weight = _weight(ident, frame, before, clocks, self._interval)
                if weight > 0:
                    profile.stacks[(name, *_stack(frame, names))] += weight
            profile.samples += 1
        profile.seconds = time.monotonic() - began
        profile.cpu_seconds = time.process_time() - cpu
        profile.own_seconds = time.thread_time() - own
        rest = round((profile.cpu_seconds - profile.own_seconds) * 1e6) - sum(profile.stacks.values())
        if rest > 0 and clocks:
            # Threads of gRPC and of the database driver that never run Python, and what ended between two samples.
            profile.stacks[(NATIVE, NATIVE)] += rest
        return profile


Clocks = Mapping[int, tuple[str, float]]


def _thread_clocks() -> Clocks:
    """Thread ident → name and CPU seconds so far; empty where the system has no such clock."""
    result: dict[int, tuple[str, float]] = {}
    if not sys.platform.startswith("linux"):
        return result
    for thread in threading.enumerate():
        ident, native = thread.ident, thread.native_id
        if ident is None or native is None:
            continue
        try:
            # Linux' clock id of a thread by its number (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED): unlike
            # pthread_getcpuclockid, it is an error and no crash when the thread has just ended.
            result[ident] = (thread.name, time.clock_gettime((~native << 3) | 6))
        except OSError:
            continue
    return result


def _weight(ident: int, frame: FrameType, before: Clocks, now: Clocks, interval: float) -> tuple[str, int]:
    """Name of the thread and microseconds that it worked since the last sample."""
    current = now.get(ident)
    if current is not None:
        name, used = current
        return name.replace(";", ":"), round((used - before.get(ident, current)[1]) * 1e6)
    working = not now and frame.f_code.co_name not in _WAITING
    name = next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"thread {ident}")
    return name.replace(";", ":"), round(interval * 1e6) if working else 0


def _stack(frame: FrameType | None, names: dict[CodeType, str]) -> list[str]:
    stack: list[str] = []
    while frame is not None and len(stack) < _DEEPEST:
        code = frame.f_code
        name = names.get(code)
        if name is None:
            module = str(frame.f_globals.get("__name__", "?"))
            # A semicolon separates frames, a space the weight.
            name = names[code] = f"{module}.{code.co_qualname}".replace(";", ":").replace(" ", "_")
        stack.append(name)
        frame = frame.f_back
    stack.reverse()
    return stack
