"""A pipeline whose stage makes many messages of one: what its sinks hold is bounded, and nothing waits for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from loader.bridge.engine.bucket import Share
from loader.bridge.engine.flow import Flow, Limits
from loader.bridge.formats.raw import Raw
from loader.bridge.frame import Frame, Payload
from loader.bridge.sinks.sink import Origin
from loader.bridge.stages.stage import Outcome

LIMIT = 100
TIMES = 10
WORKS = 20
RAW = Raw()


class Tenfold:
    def apply(self, frames: list[Frame]) -> Outcome:
        return Outcome([frame.copy() for frame in frames for _ in range(TIMES)])


class Holding:
    """Holds what it is given until it is told to settle it."""

    name = "holding"
    trouble = None
    backoff_seconds = 0.0

    def __init__(self, delivery: Any, refuses: bool = False) -> None:
        self._delivery = delivery
        self._refuses = refuses
        self._news = threading.Condition()
        self._open = False
        self._held: list[tuple[Sequence[Frame], Any, float]] = []
        self.count = 0

    def send(self, frames: Sequence[Frame], share: Any, size: float) -> None:
        with self._news:
            self.count += len(frames)
            self._held.append((frames, share, size))
            self._news.notify_all()
        if self._open:
            self.settle()

    def settle(self) -> None:
        self._open = True
        while True:
            with self._news:
                if not self._held:
                    return
                frames, share, size = self._held.pop()
            if self._refuses:
                for frame in frames:
                    self._delivery.refuse(share, frame, "no", size / len(frames))
            else:
                self._delivery.confirm(share, len(frames), size)

    def until(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.count >= count, 20)

    def flush(self) -> None:
        pass

    def close(self, deadline: float) -> bool:
        return True


def given(flow: Flow, share: Share) -> None:
    for number in range(WORKS):
        frames = [Frame(Payload(b"x", RAW), None, (), "t", 0, number, 1, Origin("t", 0, "c/t/0/")) for _ in range(5)]
        flow.take(frames, share, 500)


@pytest.mark.parametrize("refuses", [False, True], ids=["confirms", "refuses"])
def test_what_sinks_hold_is_bounded_however_many_messages_a_stage_makes(refuses):
    flow = Flow("p", RAW, [Tenfold()], Limits(messages=LIMIT))  # type: ignore[list-item]
    sink, dead, share = Holding(flow.delivery("out"), refuses), Holding(flow.dead_delivery()), Share()
    dead.settle()
    flow.start({"out": sink}, dead)
    given(flow, share)
    sink.until(LIMIT)
    deadline = time.monotonic() + 20
    while not flow._room_wanted:
        assert time.monotonic() < deadline, "it does not wait"
        time.sleep(0.001)
    assert sink.count == LIMIT
    assert flow.queued > 10
    sink.settle()
    assert flow.until_settled(time.monotonic() + 20)
    assert sink.count == WORKS * 5 * TIMES
    assert dead.count == (sink.count if refuses else 0)
    assert share.done
    assert flow.close(time.monotonic() + 20)


def test_a_pipeline_that_waits_for_its_sinks_can_be_stopped():
    flow = Flow("p", RAW, [Tenfold()], Limits(messages=LIMIT))  # type: ignore[list-item]
    sink, share = Holding(flow.delivery("out")), Share()
    flow.start({"out": sink})
    given(flow, share)
    sink.until(LIMIT)
    assert not flow.close(0.0)
    assert not flow._thread.is_alive()
    assert not share.done
