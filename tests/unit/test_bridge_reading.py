"""How long a read waits for more messages."""

from __future__ import annotations

import time
from typing import Any

import pytest

from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.sources.source import Batch


class _Source:
    def __init__(self) -> None:
        self.waits: list[float] = []

        self.paused = False

    def pause(self, paused: bool) -> None:
        self.paused = paused

    def read(self, most: int, timeout: float) -> Batch:
        self.waits.append(timeout)
        return Batch()


class _Flow:
    def __init__(self, queued: int, room_in: float | None = None) -> None:
        self.queued = queued
        self.room = room_in is None
        self._room_in = room_in

    def until_room(self, deadline: float) -> bool:
        return self._room_in is not None and time.monotonic() + self._room_in < deadline


@pytest.mark.parametrize(
    ("queued", "lingers"),
    [([0], 1), ([2], 3), ([1_000], 8), ([1_000, 0], 1), ([3, 1], 2)],
)
def test_a_read_waits_longer_only_while_every_pipeline_is_busy(queued, lingers):
    flows: Any = [_Flow(each) for each in queued]
    reader = Reader("r", lambda: None, flows, Pace(linger=0.01))  # type: ignore[arg-type, return-value]
    reader._source = source = _Source()
    reader._read(0.0)
    assert source.waits == [pytest.approx(0.01 * lingers)]


@pytest.mark.parametrize(("room_in", "paused"), [(0.15, False), (0.4, True)])
def test_a_pipeline_at_its_bound_for_a_moment_does_not_pause_the_reading(room_in, paused):
    flows: Any = [_Flow(0, room_in)]
    reader = Reader("r", lambda: None, flows, Pace(linger=0.01))  # type: ignore[arg-type, return-value]
    reader._source = source = _Source()
    reader._read(time.monotonic())
    assert source.paused is paused
