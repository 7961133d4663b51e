"""Requests of a sink: several in flight, retried for ever with exponential backoff, halved to find what is refused.

While a sink fails one request at a time goes out, when the backoff is over: a dead host or a missing topic costs one
look-up for each backoff and none for each message.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loader.bridge.engine.bucket import Share
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame
from loader.bridge.sinks.sink import Delivery

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Request:
    """Frames that go out together, in pieces. `tallies` says which of them belong to which share, in order."""

    pieces: list[Sequence[Frame]]
    count: int
    tallies: list[tuple[Share, int]]
    size: float
    """What they weigh, as the pipeline counts."""
    body: bytes | None = None
    """Encoded; dropped after a failure and made again, so that a stalled sink keeps one copy of each message."""

    @property
    def frames(self) -> list[Frame]:
        """All frames. Of columns they are made each time that somebody asks."""
        return [frame for piece in self.pieces for frame in piece]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request."""

    kind: Literal["delivered", "retry", "refused"]
    reason: str = ""
    wait: float | None = None
    """Seconds that the sink itself asked for (Retry-After)."""


DELIVERED = Outcome("delivered")


@dataclass(slots=True)
class Backoff:
    """Doubles from failure to failure, with jitter."""

    first: float = FIRST_SECONDS
    longest: float = LONGEST_SECONDS
    failures: int = 0
    until: float = 0.0
    spent: float = field(default=0.0)

    def fail(self, now: float, wait: float | None) -> float:
        """Seconds to wait from now; a failure of a request sent before the wait began makes it no longer."""
        if now < self.until:
            return self.until - now
        seconds = min(self.first * 2 ** min(self.failures, 30), self.longest) * random.uniform(0.7, 1.0)
        seconds = max(seconds, min(wait or 0.0, 300.0))
        self.failures += 1
        self.until = now + seconds
        self.spent += seconds
        return seconds

    def succeed(self) -> None:
        self.failures = 0
        self.until = 0.0


class Dispatcher:
    """Sends requests by `fire`, which returns at once and calls `done` later, from any thread."""

    def __init__(
        self,
        name: str,
        fire: Callable[[Request], None],
        delivery: Delivery,
        timer: Timer,
        most: int,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.trouble: str | None = None
        self._fire = fire
        self._delivery = delivery
        self._timer = timer
        self._most = most
        self._backoff = backoff or Backoff()
        self._waiting: deque[Request] = deque()
        self._flying = 0
        self._timed = False
        self._idle = threading.Condition()
        self._closed = False

    @property
    def backoff_seconds(self) -> float:
        return self._backoff.spent

    def submit(self, request: Request) -> None:
        """Take a request; it goes out when there is room."""
        with self._idle:
            self._waiting.append(request)
        self._pump()

    def done(self, request: Request, outcome: Outcome) -> None:
        """Settle a request that was fired. Called once for each `fire`."""
        if outcome.kind == "delivered":
            each = request.size / request.count
            for share, count in request.tallies:
                self._delivery.confirm(share, count, count * each)
        elif outcome.kind == "refused" and request.count == 1:
            self._delivery.refuse(request.tallies[0][0], request.frames[0], outcome.reason, request.size)
        recovered = False
        with self._idle:
            self._flying -= 1
            request.body = None
            if outcome.kind == "retry":
                self._fail(request, outcome)
            else:
                if self._backoff.failures:
                    self._backoff.succeed()
                    recovered, self.trouble = True, None
                if outcome.kind == "refused" and request.count > 1:
                    self._waiting.extendleft(reversed(self._halves(request)))
            self._idle.notify_all()
        if recovered:
            log.info("the sink %s works again", self.name)
        self._pump()

    def _fail(self, request: Request, outcome: Outcome) -> None:
        first = not self._backoff.failures
        self._waiting.appendleft(request)
        self.trouble = outcome.reason
        seconds = self._backoff.fail(time.monotonic(), outcome.wait)
        if not self._timed and not self._closed:
            self._timed = True
            self._timer.after(seconds, self._resume)
        if first:
            log.warning("the sink %s fails and is retried until it works: %s", self.name, outcome.reason)

    def _resume(self) -> None:
        with self._idle:
            self._timed = False
        self._pump()

    def _pump(self) -> None:
        while True:
            with self._idle:
                most = 1 if self._backoff.failures else self._most
                if self._closed or not self._waiting or self._flying >= most:
                    return
                if self._backoff.failures and (left := self._backoff.until - time.monotonic()) > 0:
                    if not self._timed:
                        self._timed = True
                        self._timer.after(left, self._resume)
                    return
                request = self._waiting.popleft()
                self._flying += 1
            # Outside of the lock: what fails at once calls `done` from here.
            self._fire(request)

    def _halves(self, request: Request) -> list[Request]:
        middle = request.count // 2
        left: list[tuple[Share, int]] = []
        right: list[tuple[Share, int]] = []
        room = middle
        for share, count in request.tallies:
            taken = min(room, count)
            room -= taken
            if taken:
                left.append((share, taken))
            if count > taken:
                right.append((share, count - taken))
        frames, each = request.frames, request.size / request.count
        return [
            Request([frames[:middle]], middle, left, each * middle),
            Request([frames[middle:]], len(frames) - middle, right, each * (len(frames) - middle)),
        ]

    def close(self, deadline: float) -> bool:
        """Wait until all is settled, at most until `deadline` (time.monotonic); then nothing more is sent."""
        with self._idle:
            done = self._idle.wait_for(
                lambda: not self._waiting and not self._flying, max(0.0, deadline - time.monotonic())
            )
            self._closed = True
        return done


class Collector:
    """Collects frames into requests of at most so many messages and bytes."""

    __slots__ = ("_pieces", "_tallies", "count", "size")

    def __init__(self) -> None:
        self._pieces: list[Sequence[Frame]] = []
        self._tallies: list[tuple[Share, int]] = []
        self.count = 0
        self.size = 0.0

    def add(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        """Take frames of one share."""
        self._pieces.append(frames)
        self.count += len(frames)
        self.size += size
        if self._tallies and self._tallies[-1][0] is share:
            self._tallies[-1] = (share, self._tallies[-1][1] + len(frames))
        else:
            self._tallies.append((share, len(frames)))

    def take(self, body: bytes | None = None) -> Request:
        """What was collected, as a request."""
        request = Request(self._pieces, self.count, self._tallies, self.size, body)
        self._pieces, self._tallies, self.count, self.size = [], [], 0, 0.0
        return request
