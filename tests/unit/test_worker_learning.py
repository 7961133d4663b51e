"""What is learned together is loaded in bundles, however much came to wait meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from loader.copy.bundle_load import BundleLoad
from loader.learn.lesson import Lesson
from loader.message.message import Event, Message
from loader.plan.fitting import Fitted
from loader.worker.lane import Loaded
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
