"""The learning lane: misfits are learned and loaded apart, so that their neighbours never wait for DDL."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from loader.copy.bundle_load import Discard
from loader.dead_letter.letter import Letter, letter_of_event
from loader.learn.learner import NeedsAdoption, Snapshot
from loader.learn.lesson import Lesson
from loader.message.message import Event
from loader.worker.lane import FIRST_LOCK_TIMEOUT_MS, LONGEST_LOCK_TIMEOUT_MS, Abandoned, Lane, Loaded

log = logging.getLogger(__name__)

_LESSONS = 3
"""Lessons after which an event that still does not fit is a dead letter."""
_AT_ONCE = 0.001
_LONGEST_HINDRANCE_SECONDS = 60.0


@dataclass(slots=True)
class Task:
    """Misfits to learn together."""

    events: list[Event]
    lock_timeout_ms: int = FIRST_LOCK_TIMEOUT_MS
    not_before: float = 0.0
    lessons: int = 0
    hindrances: int = 0
    """How often in a row the database refused what they ask for."""


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False)


class Learning:
    """Takes misfits from the loading lane; runs in a thread of its own."""

    def __init__(
        self,
        lane: Lane,
        on_loaded: Callable[[Loaded], None],
        on_lesson: Callable[[Snapshot, Lesson], None],
        on_abandoned: Callable[[list[Event]], None],
        on_busy: Callable[[Sequence[Event]], None] = lambda events: None,
        *,
        most: int = 20_000,
        most_bytes: int = 16 << 20,
    ) -> None:
        """`on_busy` hears of the events that are taken in hand, and of none when they are done.

        What was learned together is loaded in transactions of at most about `most` events and `most_bytes` of bodies.
        """
        self._lane = lane
        self._on_loaded = on_loaded
        self._on_lesson = on_lesson
        self._on_abandoned = on_abandoned
        self._on_busy = on_busy
        self._most = most
        self._most_bytes = most_bytes
        self.lock_waits = 0
        """Learnings put off because a lock was not to be had in time."""
        self._tasks: list[Task] = []
        self._condition = threading.Condition()
        self._finishing = False
        self._studying = False
        self._busy = 0
        self._hindrances: dict[str, str] = {}

    @property
    def alert(self) -> str | None:
        """Why some events cannot be learned until somebody acts; None when all is well."""
        return next(iter(list(self._hindrances.values())), None)

    def add(self, events: list[Event]) -> None:
        """Misfits of a load. Those that wait already and these are learned together."""
        with self._condition:
            for task in self._tasks:
                if _is_new(task):
                    task.events.extend(events)
                    break
            else:
                self._tasks.append(Task(events))
            self._condition.notify_all()

    def await_lesson(self, seconds: float) -> None:
        """Return once nothing waits to be learned for the first time, or after `seconds`: a lock may be in the way."""
        with self._condition:
            self._condition.wait_for(lambda: not self._studying and not any(map(_is_new, self._tasks)), seconds)

    @property
    def waiting(self) -> int:
        """Events that wait to be learned or are being learned."""
        with self._condition:
            return sum(len(task.events) for task in self._tasks) + self._busy

    @property
    def oldest(self) -> int | None:
        """Oldest publish time (microseconds) of the events that wait; None when none do."""
        with self._condition:
            return min((event.message.published for task in self._tasks for event in task.events), default=None)

    def finish(self) -> None:
        """Take no more; `run` returns when all tasks are done or the lane's `abort` is set."""
        with self._condition:
            self._finishing = True
            self._condition.notify_all()

    def wake(self) -> None:
        """Look at the stop conditions now."""
        with self._condition:
            self._condition.notify_all()

    def run(self) -> None:
        """Learn until `finish`; gives back what is left when the lane aborts."""
        while True:
            task = self._next()
            if task is None:
                return
            self._busy = len(task.events)
            self._on_busy(task.events)
            try:
                self._do(task)
            except Abandoned:
                self._on_abandoned(task.events)
            finally:
                self._busy = 0
                self._on_busy(())
            del task  # its messages must not stay in memory until the next one comes

    def _next(self) -> Task | None:
        with self._condition:
            while True:
                if self._lane.abort.is_set():
                    left = [event for task in self._tasks for event in task.events]
                    self._tasks.clear()
                    if left:
                        self._on_abandoned(left)
                    return None
                now = time.monotonic()
                due = min(self._tasks, key=lambda task: task.not_before, default=None)
                if due is not None and due.not_before <= now:
                    self._tasks.remove(due)
                    self._studying = _is_new(due)
                    return due
                if due is None and self._finishing:
                    return None
                self._condition.wait(None if due is None else min(due.not_before - now, 1.0))

    def _do(self, task: Task) -> None:
        lane = self._lane
        try:
            snapshot, lesson = lane.patiently(
                lambda conn: lane.learner.learn(conn, task.events, lane.source, task.lock_timeout_ms)
            )
        except psycopg.errors.LockNotAvailable:
            self._later(task)
            return
        except (NeedsAdoption, psycopg.Error) as error:
            self._hindered(task, error)
            return
        else:
            for event in task.events:
                self._hindrances.pop(event.table, None)
            lane.take_up(snapshot)
            self._on_lesson(snapshot, lesson)
        finally:
            self._studied()
        self._load(task, lesson)

    def _studied(self) -> None:
        with self._condition:
            self._studying = False
            self._condition.notify_all()

    def _load(self, task: Task, lesson: Lesson) -> None:
        letters, discards, settled = self._stopped(task, lesson)
        stopped = lesson.frozen.keys() | lesson.refused.keys() | lesson.discarded.keys()
        rest = [event for position, event in enumerate(task.events) if position not in stopped]
        # While one lesson is learned, all that is outstanding may come to wait: too many rows for one transaction, and
        # rows weigh more than the messages that they are made of, while the other lane has a bundle of them too.
        size = _size(rest, self._most, self._most_bytes)
        while True:
            self._load_piece(task, rest[:size], letters, discards, settled)
            # Others have taken the places of what is acked: it must not stay in memory beside them.
            del rest[:size]
            letters, discards, settled = [], [], []
            task.events = rest
            self._busy = len(rest)
            if not rest:
                return

    def _stopped(self, task: Task, lesson: Lesson) -> tuple[list[Letter], list[Discard], list[Event]]:
        """What the contract stopped or no table can take, and the events of which that is."""
        exact = self._lane.source.exact
        letters: list[Letter] = []
        discards: list[Discard] = []
        settled: list[Event] = []
        for reasons, code in ((lesson.frozen, "frozen by contract"), (lesson.refused, "cannot be placed")):
            for position, reason in reasons.items():
                event = task.events[position]
                letters.append(letter_of_event(event, exact, code, reason, table=event.table))
                settled.append(event)
        for position, reason in lesson.discarded.items():
            event = task.events[position]
            discards.append(Discard(event.identity, event.table, reason, _text(exact(event))))
            settled.append(event)
        return letters, discards, settled

    def _load_piece(
        self, task: Task, events: list[Event], letters: list[Letter], discards: list[Discard], settled: list[Event]
    ) -> None:
        """Load some of what was learned together; `settled` are those that became the letters and discards."""
        for loaded in self._lane.load(events, letters, discards):
            loaded.load.dead.extend(settled)
            settled = []
            misfits, loaded.misfits = loaded.misfits, []
            self._on_loaded(loaded)
            if misfits:
                self._again(task, misfits)

    def _again(self, task: Task, misfits: list[Event]) -> None:
        """Somebody changed the tables meanwhile; but what does not fit after several lessons never will."""
        if task.lessons + 1 < _LESSONS:
            self._requeue(Task(misfits, lessons=task.lessons + 1))
            return
        source = self._lane.source
        letters = [
            letter_of_event(
                event,
                source.exact,
                "cannot be placed",
                "does not fit even after the schema was evolved for it",
                table=event.table,
            )
            for event in misfits
        ]
        for loaded in self._lane.load([], letters):
            loaded.load.dead.extend(misfits)
            self._on_loaded(loaded)

    def _later(self, task: Task) -> None:
        """The lock was not to be had: let others through, then wait longer for it, each root table on its own."""
        self.lock_waits += 1
        tables = _by_table(task.events)
        if len(tables) > 1:
            self._split(task, tables)
            return
        timeout = min(task.lock_timeout_ms * 2, LONGEST_LOCK_TIMEOUT_MS)
        not_before = time.monotonic() + min(2.0, task.lock_timeout_ms / 1000 * 2)
        self._requeue(Task(task.events, timeout, not_before, task.lessons))

    def _hindered(self, task: Task, error: Exception) -> None:
        """Somebody has to act (a privilege, an owner, an index): other tables must not wait for that."""
        tables = _by_table(task.events)
        if len(tables) > 1:
            self._split(task, tables)
            return
        (table,) = tables
        self._hindrances[table] = f"events of table {table} cannot be learned: {error}"
        log.error("%s", self._hindrances[table])
        seconds = min(_LONGEST_HINDRANCE_SECONDS, 2.0**task.hindrances)
        self._requeue(
            Task(task.events, task.lock_timeout_ms, time.monotonic() + seconds, task.lessons, task.hindrances + 1)
        )

    def _split(self, task: Task, tables: dict[str, list[Event]]) -> None:
        """A mixed task failed because of one table: the others need not wait at all."""
        for events in tables.values():
            self._requeue(Task(events, task.lock_timeout_ms, _AT_ONCE, task.lessons, task.hindrances))

    def _requeue(self, task: Task) -> None:
        with self._condition:
            self._tasks.append(task)
            self._condition.notify_all()


def _is_new(task: Task) -> bool:
    """Nothing came of it yet, neither a lesson nor a hindrance: misfits that come now can be learned with it."""
    return task.lessons == 0 and task.not_before == 0.0


def _by_table(events: list[Event]) -> dict[str, list[Event]]:
    tables: dict[str, list[Event]] = {}
    for event in events:
        tables.setdefault(event.table, []).append(event)
    return tables


def _size(events: list[Event], most: int, most_bytes: int) -> int:
    """How many of the events to load at a time: pieces of about equal weight."""
    parts = max(1, -(-len(events) // most), -(-sum(len(event.message.data) for event in events) // most_bytes))
    return max(1, -(-len(events) // parts))
