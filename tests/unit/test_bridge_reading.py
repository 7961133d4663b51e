"""How long a read waits for more messages."""

from __future__ import annotations

from typing import Any

import pytest

from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.sources.source import Batch


class _Source:
    def __init__(self) -> None:
        self.waits: list[float] = []

    def pause(self, paused: bool) -> None:
        pass

    def read(self, most: int, timeout: float) -> Batch:
        self.waits.append(timeout)
        return Batch()


class _Flow:
    room = True

    def __init__(self, queued: int) -> None:
        self.queued = queued


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
