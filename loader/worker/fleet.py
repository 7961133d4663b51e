"""What the endpoints show of several worker processes: sums of their metrics, and the worst of their health."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from loader.observe.health import SILENT_SECONDS, Report
from loader.observe.metrics import process
from loader.observe.profile import Form, ProfileBusy
from loader.observe.store import Snapshot, Store
from loader.worker.link import Link, LinkClosed, LinkRefused

ASK_SECONDS = 3.0
"""A worker that has not answered in this time is shown by its last answer."""


@dataclass(slots=True)
class _Member:
    number: int
    link: Link | None = None
    since: float = 0.0
    silent_since: float | None = None
    """When this process first left a question unanswered; None after an answer."""
    snapshot: Snapshot = field(default_factory=dict)
    report: Report | None = None


class Fleet:
    """The supervisor reports who starts and ends; the HTTP server's threads ask. Thread-safe."""

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._members = [_Member(number, since=clock()) for number in range(count)]
        self._lock = threading.Lock()
        self._past = Store()
        self._profiling = threading.Lock()
        self._stopping = False

    def started(self, number: int, link: Link) -> None:
        """A process fills the place `number`."""
        with self._lock:
            member = self._members[number]
            member.link, member.since, member.silent_since = link, self._clock(), None
            member.snapshot, member.report = {}, None

    def ended(self, number: int, exit_label: str | None) -> None:
        """It has gone; `exit_label` says how, None when it was asked to."""
        with self._lock:
            member = self._members[number]
            # What it counted stays counted: a sum that falls would look to Prometheus like a restart of all.
            self._past.take_in(member.snapshot, lasting_only=True)
            member.link, member.since, member.silent_since = None, self._clock(), None
            member.snapshot, member.report = {}, None
        if exit_label is not None:
            self._past.add("loader_worker_deaths_total", 1, exit_label)

    def stopping(self) -> None:
        """All drain."""
        self._stopping = True

    def snapshot(self) -> Snapshot:
        """The metrics of all processes, this one's memory and CPU included."""
        self._ask_all()
        store = Store()
        process(store)
        with self._lock:
            store.take_in(self._past.snapshot())
            for member in self._members:
                store.take_in(member.snapshot)
            up = sum(member.link is not None for member in self._members)
        store.put("loader_workers", up)
        store.put("loader_ready", 1.0 if self._judge().ready else 0.0)
        return store.snapshot()

    def report(self) -> Report:
        """Alive when each place is filled by a live process (one that starts has a minute); ready when all are."""
        self._ask_all()
        return self._judge()

    def profile(self, seconds: float, form: Form, process: int) -> str:
        """A profile of one process; one at a time in all. Raises ProfileBusy, ValueError."""
        if not 0 <= process < len(self._members):
            raise ValueError(f"there are {len(self._members)} processes, from 0, and no {process}")
        if not self._profiling.acquire(blocking=False):
            raise ProfileBusy
        try:
            link = self._members[process].link
            if link is None:
                raise ValueError(f"process {process} is down")
            return str(link.ask("profile", seconds + ASK_SECONDS, {"seconds": seconds, "form": form}))
        except LinkRefused as error:
            raise (ProfileBusy if error.kind == "ProfileBusy" else ValueError)(str(error)) from error
        except (LinkClosed, TimeoutError) as error:
            raise ValueError(f"process {process} does not answer") from error
        finally:
            self._profiling.release()

    def _ask_all(self) -> None:
        with self._lock:
            asked = [(member, member.link) for member in self._members if member.link is not None]
        if asked:
            with ThreadPoolExecutor(len(asked), thread_name_prefix="ask") as pool:
                list(pool.map(lambda pair: self._ask(*pair), asked))

    def _ask(self, member: _Member, link: Link) -> None:
        asked = self._clock()
        try:
            answer: dict[str, Any] = link.ask("state", ASK_SECONDS)
        except (LinkClosed, LinkRefused, TimeoutError):
            with self._lock:
                if member.link is link and member.silent_since is None:
                    member.silent_since = asked
            return  # its last answer stands, and grows old
        with self._lock:
            if member.link is link:  # else it has ended meanwhile, and is counted as such
                member.silent_since, member.snapshot = None, answer["snapshot"]
                member.report = Report(**answer["report"])

    def _judge(self) -> Report:
        now = self._clock()
        alive, longest = True, 0.0
        reasons = ["stopping"] if self._stopping else []
        with self._lock:
            for member in self._members:
                if self._stopping and member.link is None:
                    continue  # it has drained
                silent, its_reasons = _look(member, now)
                reasons += [f"worker {member.number}: {reason}" for reason in its_reasons]
                alive = alive and silent <= SILENT_SECONDS
                longest = max(longest, silent)
        return Report(alive, not reasons, reasons, round(longest, 1))


def _look(member: _Member, now: float) -> tuple[float, list[str]]:
    """Seconds without a sign of life, and why it is not ready."""
    if member.report is None:
        silent = now - member.since
        return silent, [f"{'down' if member.link is None else 'starting'} for {silent:.0f} s"]
    if member.silent_since is None:
        return member.report.silent_seconds, member.report.reasons
    silent = now - member.silent_since + member.report.silent_seconds
    return silent, [f"no answer for {silent:.0f} s", *member.report.reasons]
