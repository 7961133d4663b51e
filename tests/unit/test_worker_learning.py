"""What is learned together is loaded in bundles, however much came to wait meanwhile."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from loader.copy.bundle_load import BundleLoad
from loader.learn.lesson import Lesson
from loader.message.message import Event, Message
from loader.plan.fitting import Fitted
from loader.worker.lane import Abandoned, Loaded
from loader.worker.learning import Learning


class Lane:
    """Learns nothing and stores everything."""

    def __init__(self, lesson: Lesson) -> None:
        self.abort = threading.Event()
        self.source = SimpleNamespace(exact=lambda event: {})
        self.stored: list[tuple[list[str], int, int]] = []
        self._lesson = lesson

    def patiently(self, work: object) -> tuple[Any, Lesson]:
        return None, self._lesson

    def take_up(self, snapshot: object) -> None:
        pass

    def load(self, events: Sequence[Event], letters: Sequence[Any], discards: Sequence[Any]) -> list[Loaded]:
        self.stored.append(([event.identity for event in events], len(letters), len(discards)))
        return [Loaded(BundleLoad(Fitted("1.0", list(events))))]


def events_of(count: int, size: int) -> list[Event]:
    return [Event(Message(f"a{n}", f"m{n}", b"x" * size, {}, 0, 0), f"m{n}", 0, "t", None) for n in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "loads"), [(10, 1, [10]), (11, 1, [6, 5]), (30, 1, [10, 10, 10]), (8, 50, [2, 2, 2, 2])]
)
def test_what_was_learned_together_is_loaded_in_bundles(count: int, size: int, loads: list[int]) -> None:
    lane, done = Lane(Lesson()), []
    learning = Learning(
        lane, done.append, lambda snapshot, lesson: None, lambda events: None, most=10, most_bytes=100  # type: ignore[arg-type]
    )  # fmt: skip
    events = events_of(count, size)
    learning.add(events[:1])
    learning.add(events[1:])
    learning.finish()
    learning.run()
    assert [len(identities) for identities, _, _ in lane.stored] == loads
    assert [identity for identities, _, _ in lane.stored for identity in identities] == [e.identity for e in events]
    assert len(done) == len(loads)


def test_letters_of_a_lesson_are_written_once() -> None:
    lane, done = Lane(Lesson(frozen=dict.fromkeys(range(15), "frozen"))), []
    learning = Learning(
        lane, done.append, lambda snapshot, lesson: None, lambda events: None, most=10, most_bytes=100  # type: ignore[arg-type]
    )  # fmt: skip
    learning.add(events_of(35, 1))
    learning.finish()
    learning.run()
    assert [(len(identities), letters) for identities, letters, _ in lane.stored] == [(10, 15), (10, 0)]
    assert [len(loaded.load.dead) for loaded in done] == [15, 0]
    lane, done = Lane(Lesson(frozen={0: "frozen"})), []
    learning = Learning(lane, done.append, lambda snapshot, lesson: None, lambda events: None)  # type: ignore[arg-type]
    learning.add(events_of(1, 1))
    learning.finish()
    learning.run()
    assert lane.stored == [([], 1, 0)]


class Attributes(dict[str, str]):
    """That of a message; unlike the message it can be watched."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_what_is_loaded_is_let_go_before_the_next_piece_is() -> None:
    alive: list[int] = []

    class Watching(Lane):
        def load(self, events: Sequence[Event], letters: Sequence[Any], discards: Sequence[Any]) -> list[Loaded]:
            alive.append(len(watched))
            return super().load(events, letters, discards)

    watched: weakref.WeakSet[Attributes] = weakref.WeakSet()

    def messages(count: int) -> list[Event]:
        found = []
        for event in events_of(count, 1):
            attributes = Attributes()
            watched.add(attributes)
            found.append(event._replace(message=event.message._replace(attributes=attributes)))
        return found

    lane = Watching(Lesson(frozen={0: "frozen"}))
    learning = Learning(lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None, most=10)  # type: ignore[arg-type]
    learning.add(messages(31))
    learning.finish()
    learning.run()
    assert alive == [31, 20, 10]


def test_what_is_abandoned_is_given_back_and_what_was_loaded_before_is_not() -> None:
    class Broken(Lane):
        def load(self, events: Sequence[Event], letters: Sequence[Any], discards: Sequence[Any]) -> list[Loaded]:
            if self.stored:
                raise Abandoned
            return super().load(events, letters, discards)

    back: list[str] = []
    learning = Learning(
        Broken(Lesson(frozen={2: "frozen"})), lambda loaded: None, lambda snapshot, lesson: None,
        lambda events: back.extend(event.identity for event in events), most=10,  # type: ignore[arg-type]
    )  # fmt: skip
    learning.add(events_of(31, 1))
    learning.finish()
    learning.run()
    assert back == [f"m{n}" for n in range(11, 31)]


def test_who_waits_for_a_lesson_waits_until_it_is_learned_and_not_until_it_is_loaded() -> None:
    learned, load = threading.Event(), threading.Event()

    class Slow(Lane):
        def patiently(self, work: object) -> tuple[Any, Lesson]:
            assert learned.wait(30)
            return super().patiently(work)

        def load(self, events: Sequence[Event], letters: Sequence[Any], discards: Sequence[Any]) -> list[Loaded]:
            assert load.wait(30)
            return super().load(events, letters, discards)

    lane = Slow(Lesson())
    learning = Learning(lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None)  # type: ignore[arg-type]
    learning.await_lesson(30)  # nothing waits
    thread = threading.Thread(target=learning.run)
    waiter = threading.Thread(target=learning.await_lesson, args=(30,))
    learning.add(events_of(3, 1))
    thread.start()
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive()
    learned.set()
    waiter.join(30)
    assert not waiter.is_alive()
    assert not lane.stored
    load.set()
    learning.finish()
    thread.join(30)
    assert len(lane.stored) == 1


def test_nobody_waits_for_a_lesson_that_a_lock_puts_off() -> None:
    class Locked(Lane):
        def patiently(self, work: object) -> tuple[Any, Lesson]:
            raise psycopg.errors.LockNotAvailable

    lane = Locked(Lesson())
    learning = Learning(lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None)  # type: ignore[arg-type]
    learning.add(events_of(3, 1))
    thread = threading.Thread(target=learning.run)
    thread.start()
    learning.await_lesson(30)
    assert learning.waiting == 3
    lane.abort.set()
    learning.wake()
    thread.join(30)
    assert not thread.is_alive()
