"""Filling bundles from a source."""

from __future__ import annotations

import threading

from loader.bundle.bundler import Bundler
from loader.bundle.window import Window
from loader.message.message import Message


class Source:
    """Hands out what it was given, and lets the clock run while it waits."""

    def __init__(self, *responses: list[Message]) -> None:
        self.responses = list(responses)
        self.now = 0.0
        self.exhausted = False

    def clock(self) -> float:
        return self.now

    def take(self, timeout: float = 1.0) -> list[Message]:
        assert 0 < timeout <= 1
        if self.responses:
            return self.responses.pop(0)
        self.now += timeout
        return []


def some(count: int, size: int = 1) -> list[Message]:
    return [Message(f"a{number}", str(number), b"x" * size, {}, 0, 0) for number in range(count)]


def bundler(source: Source, most: int = 10, most_bytes: int = 1_000) -> Bundler:
    return Bundler(source, Window(5, most, most_bytes, source.clock), source.clock)


def test_a_bundle_closes_by_time_when_nothing_more_comes() -> None:
    source = Source(some(3), some(2))
    bundle = bundler(source).next(threading.Event())
    assert bundle is not None
    assert (len(bundle.messages), bundle.closed_by) == (5, "time")
    assert 5 <= source.now < 5.1


def test_what_is_over_the_limit_opens_the_next_bundle_without_asking_the_source() -> None:
    source = Source(some(25))
    bundles = bundler(source)
    stop = threading.Event()
    first, second, third = bundles.next(stop), bundles.next(stop), bundles.next(stop)
    assert first is not None
    assert second is not None
    assert third is not None
    assert [len(bundle.messages) for bundle in (first, second, third)] == [10, 10, 5]
    assert [bundle.closed_by for bundle in (first, second, third)] == ["messages", "messages", "time"]


def test_an_idle_source_gives_none_after_the_patience_so_that_a_loop_can_tick() -> None:
    source = Source()
    assert bundler(source).next(threading.Event(), patience=1.0) is None
    assert 1.0 <= source.now < 1.3


def test_a_stop_returns_at_once_what_is_gathered_and_then_none() -> None:
    stop = threading.Event()
    source = Source(some(3))
    bundles = bundler(source)
    original = source.take

    def take(timeout: float = 1.0) -> list[Message]:
        taken = original(timeout)
        stop.set()
        return taken

    source.take = take  # type: ignore[method-assign]
    bundle = bundles.next(stop)
    assert bundle is not None
    assert (len(bundle.messages), bundle.closed_by, source.now) == (3, "stop", 0.0)
    assert bundles.next(stop) is None


def test_the_rest_is_everything_taken_and_not_bundled() -> None:
    stop = threading.Event()
    source = Source(some(25))
    bundles = bundler(source)
    assert bundles.next(stop) is not None
    assert len(bundles.rest()) == 15
    assert bundles.rest() == []
    stop.set()
    assert bundles.next(stop) is None


def test_a_bundle_closes_at_once_when_flow_control_lets_nothing_more_come() -> None:
    source = Source(some(3))
    source.exhausted = True
    bundle = bundler(source).next(threading.Event())
    assert bundle is not None
    assert (len(bundle.messages), bundle.closed_by, source.now) == (3, "flow", 0.0)


def test_an_empty_window_is_no_bundle_even_when_nothing_more_can_come() -> None:
    source = Source()
    source.exhausted = True
    assert bundler(source).next(threading.Event(), patience=1.0) is None
