"""A running pipeline: a queue, a thread that runs the stages, its sinks, and the bound of what is in flight.

Each pipeline has all of this to itself. A stage that waits, a format whose registry is down or a sink in trouble fills
this pipeline's queue and nobody else's; the reader sees that there is no room and decides (see reader.py).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from loader.bridge.columns import Columns
from loader.bridge.engine.age import Ages, Ticket
from loader.bridge.engine.bucket import Share
from loader.bridge.engine.chain import Chain
from loader.bridge.engine.counted import CountedFormat as CountedFormat
from loader.bridge.engine.counted import working
from loader.bridge.engine.counts import Counts
from loader.bridge.engine.deadletter import letter
from loader.bridge.frame import Format, Frame
from loader.bridge.sinks.sink import Delivery, Sink
from loader.bridge.stages.stage import Stage

log = logging.getLogger(__name__)

TELL_SECONDS = 10.0
OnRefusal = Literal["dead_letter", "stop", "drop"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a pipeline."""

    messages: int = 20_000
    bytes: int = 64 << 20
    linger_seconds: float = 0.01


class _Work(NamedTuple):
    """A piece of the queue: a batch for the stages, or one refused frame for the dead letters."""

    frames: Sequence[Frame]
    share: Share
    size: float
    refused_by: str | None = None
    reason: str = ""


class _SinkDelivery:
    """A sink's way back to its pipeline."""

    def __init__(self, flow: Flow, sink: str) -> None:
        self._flow = flow
        self._sink = sink

    def confirm(self, share: Share, count: int, size: float) -> None:
        self._flow._confirmed(share, count, size)

    def refuse(self, share: Share, frame: Frame, reason: str, size: float) -> None:
        self._flow._refused(share, frame, self._sink, reason, size)


class _DeadDelivery:
    """The dead letters' way back. What even they refuse is tried again later: nothing is dropped behind one's back."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def confirm(self, share: Share, count: int, size: float) -> None:
        self._flow._buried(share, count, size)

    def refuse(self, share: Share, frame: Frame, reason: str, size: float) -> None:
        self._flow.halt(f"the dead-letter endpoint refuses {frame.topic}/{frame.partition}/{frame.offset}: {reason}")


class Flow:
    """`sinks` and the dead-letter sink are set after it was made, for they need its deliveries."""

    def __init__(
        self,
        name: str,
        format: Format,
        stages: Sequence[Stage],
        limits: Limits,
        on_refusal: OnRefusal = "dead_letter",
    ) -> None:
        self.name = name
        self.format = format
        self.counts = Counts()
        self.ages = Ages()
        self.halted: str | None = None
        """Why the pipeline stands still until somebody helps."""
        self.tombstones = True
        """Whether messages without a value are taken."""
        self._limits = limits
        self._on_refusal = on_refusal
        self._sinks: dict[str, Sink] = {}
        self._dead: Sink | None = None
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._chain = Chain(name, stages, self._stop)
        self._tell_at = 0.0
        self._untold = 0
        self._room_wanted = 0
        self.in_flight = 0
        self.in_flight_bytes = 0.0
        self._out = 0
        """Of these, what sinks have and have not settled yet; a stage may make many messages of one."""
        self._out_bytes = 0.0
        self._thread = threading.Thread(target=self._run, name=f"pipeline {name}", daemon=True)

    def delivery(self, sink: str) -> Delivery:
        """What a sink of this name reports to."""
        return _SinkDelivery(self, sink)

    def dead_delivery(self) -> Delivery:
        """What the dead-letter sink reports to."""
        return _DeadDelivery(self)

    def start(self, sinks: Mapping[str, Sink], dead: Sink | None = None) -> None:
        """Begin to work."""
        self._sinks = dict(sinks)
        self._dead = dead
        self._thread.start()

    # The reader's side

    @property
    def room(self) -> bool:
        """Whether it may be given more."""
        return (
            self.in_flight < self._limits.messages and self.in_flight_bytes < self._limits.bytes and self.halted is None
        )

    @property
    def queued(self) -> int:
        """Batches that wait for it, about."""
        return self._queue.qsize()

    def until_room(self, deadline: float) -> bool:
        """Wait until it may be given more, at most until `deadline` (time.monotonic)."""
        with self._settled:
            self._room_wanted += 1
            try:
                return self._settled.wait_for(lambda: self.room, max(0.0, deadline - time.monotonic()))
            finally:
                self._room_wanted -= 1

    @property
    def has_stages(self) -> bool:
        """Whether anything looks at its messages."""
        return bool(self._chain.stages)

    @property
    def trouble(self) -> str | None:
        """What keeps it from delivering now."""
        if self.halted is not None:
            return self.halted
        if self._chain.trouble is not None:
            return self._chain.trouble
        sinks = [*self._sinks.values(), *([self._dead] if self._dead is not None else [])]
        return next((sink.trouble for sink in sinks if sink.trouble is not None), None)

    @property
    def backoff_seconds(self) -> float:
        """Seconds spent waiting after failures."""
        return sum(sink.backoff_seconds for sink in self._sinks.values())

    def take(self, frames: Sequence[Frame], share: Share, size: int, skipped: int = 0, tombstones: int = 0) -> None:
        """Queue frames of this pipeline's own, `size` bytes in all. In `share` they count as unconfirmed from here."""
        if tombstones and not self.tombstones:
            before = len(frames)
            if isinstance(frames, Columns):
                frames = frames.only([value is not None for value in frames.values])
            else:
                frames = [frame for frame in frames if frame.value() is not None]
            skipped += before - len(frames)
        if frames:
            share.give(len(frames))
        with self._lock:
            self.counts.taken += len(frames) + skipped
            self.counts.skipped += skipped
            self.in_flight += len(frames)
            self.in_flight_bytes += size
        if frames:
            self._queue.put(_Work(frames, Ticket(share), size))

    def until_settled(self, deadline: float) -> bool:
        """Wait until nothing is in flight, at most until `deadline` (time.monotonic)."""
        with self._settled:
            return (
                self._settled.wait_for(
                    lambda: self.in_flight <= 0 or self.halted is not None, max(0.0, deadline - time.monotonic())
                )
                and self.in_flight <= 0
            )

    def close(self, deadline: float) -> bool:
        """Finish what is in flight, at most until `deadline` (time.monotonic), and end. False when some is left."""
        done = self.until_settled(deadline)
        self._stop.set()
        with self._settled:
            self._settled.notify_all()
        self._queue.put(None)
        self._thread.join(max(0.1, deadline - time.monotonic()))
        for sink in [*self._sinks.values(), *([self._dead] if self._dead is not None else [])]:
            sink.close(deadline if done else time.monotonic())
        return done

    # The pipeline's own thread

    def wait(self, seconds: float) -> None:
        """For stages that slow the pipeline down."""
        self._stop.wait(seconds)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            # Its messages stay unconfirmed, so nothing is lost; the neighbours go on.
            log.exception("the pipeline %s failed", self.name)
            self.halt(f"a fault of the pipeline: {error!r}")

    def _work(self) -> None:
        unsent = False
        while not self._stop.is_set():
            try:
                work = self._queue.get(timeout=self._limits.linger_seconds) if unsent else self._queue.get()
            except queue.Empty:
                for sink in self._all_sinks():
                    sink.flush()
                unsent = False
                continue
            if work is None:
                return
            if work.refused_by is None:
                self._process(work)
            else:
                self._bury(work)
            unsent = True

    def _all_sinks(self) -> list[Sink]:
        return [*self._sinks.values(), *([self._dead] if self._dead is not None else [])]

    def _until_sinks_have_room(self) -> bool:
        """A message in the queue may become many: while the sinks have as many as may be in flight, it stays one.

        False when the pipeline stops."""
        full = self._full
        if full():
            for sink in self._all_sinks():
                sink.flush()
            with self._settled:
                self._room_wanted += 1
                self._settled.wait_for(lambda: not full() or self._stop.is_set() or self.halted is not None)
                self._room_wanted -= 1
        return not self._stop.is_set()

    def _full(self) -> bool:
        return self._out >= self._limits.messages or self._out_bytes >= self._limits.bytes

    def _process(self, work: _Work) -> None:
        if not self._until_sinks_have_room():
            return
        working.counts = self.counts
        found = self._chain.run(work.frames)
        if found is None:
            return  # it stops
        frames, refused, filtered = found.frames, found.refused, found.filtered
        ways = self._ways(frames)
        count = sum(len(some) for _, some in ways) + len(refused)
        each = work.size / len(work.frames)
        size = count * each
        work.share.give(count)
        with self._settled:
            self.counts.filtered += filtered
            self._move(count - len(work.frames), size - work.size)
            self._out += count - len(refused)
            self._out_bytes += (count - len(refused)) * each
        for sink, some in ways:
            sink.send(some, work.share, len(some) * each)
        for frame, reason in refused:
            self._refused(work.share, frame, "", reason, each)
        # Last: until here the bucket waits for the queue's own count of these messages.
        work.share.confirm(len(work.frames))

    def _ways(self, frames: Sequence[Frame]) -> list[tuple[Sink, Sequence[Frame]]]:
        if not frames:
            return []
        if not isinstance(frames, list) or not self._chain.stages or all(frame.sinks is None for frame in frames):
            return [(sink, frames) for sink in self._sinks.values()]
        ways: list[tuple[Sink, Sequence[Frame]]] = []
        for name, sink in self._sinks.items():
            some = [frame for frame in frames if frame.sinks is None or name in frame.sinks]
            if some:
                ways.append((sink, some))
        return ways

    def _bury(self, work: _Work) -> None:
        if self._dead is None:
            self.halt(f"a message was refused and there is no dead-letter endpoint: {work.reason}")
            return
        [frame] = work.frames
        self._dead.send([letter(frame, self.name, work.refused_by or "", work.reason)], work.share, work.size)

    def halt(self, reason: str) -> None:
        """Stand still: nothing more is taken, and what is unconfirmed stays uncommitted."""
        if self.halted is None:
            log.error("the pipeline %s stands still: %s", self.name, reason)
        with self._settled:
            self.halted = reason
            self._settled.notify_all()

    def _move(self, count: int, size: float) -> None:
        self.in_flight += count
        self.in_flight_bytes += size
        if self.in_flight <= 0:
            self.in_flight_bytes = 0.0  # sizes are shared out among messages: what rounding left is gone
            self._settled.notify_all()
        elif self._room_wanted and count < 0:
            self._settled.notify_all()

    # From the sinks, on any thread

    def _confirmed(self, share: Share, count: int, size: float) -> None:
        if count:
            share.confirm(count)
        with self._settled:
            if isinstance(share, Ticket):
                self.ages.add(share.age, count)
            self.counts.sent += count
            self._settle_out(count, size)
            self._move(-count, -size)

    def _settle_out(self, count: int, size: float) -> None:
        self._out -= count
        self._out_bytes = self._out_bytes - size if self._out > 0 else 0.0

    def _buried(self, share: Share, count: int, size: float) -> None:
        if count:
            share.confirm(count)
        with self._settled:
            self._move(-count, -size)

    def _refused(self, share: Share, frame: Frame, sink: str, reason: str, size: float) -> None:
        place = f"{frame.topic}/{frame.partition}/{frame.offset}"
        now = time.monotonic()
        with self._settled:
            self.counts.dead += 1
            if sink:
                # It comes back to this thread's queue, which must not wait for it.
                self._settle_out(1, size)
                self._settled.notify_all()
            told, self._untold = (self._untold, 0) if now >= self._tell_at else (None, self._untold + 1)
            if told is not None:
                self._tell_at = now + TELL_SECONDS
        if told is not None:  # a flood of refusals must not become a flood of lines
            more = f", {told} more since the last line" if told else ""
            by = sink or "a stage"
            log.warning("the pipeline %s: %s is refused for good by %s: %s%s", self.name, place, by, reason, more)
        if self._on_refusal == "stop":
            self.halt(f"{place} was refused: {reason}")
        elif self._on_refusal == "drop":
            self._buried(share, 1, size)
        else:
            self._queue.put(_Work([frame], share, size, sink, reason))
