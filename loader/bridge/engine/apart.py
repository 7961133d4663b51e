"""One pipeline on its own way: it reads the shared group's partitions again from where it stands, at its own speed.

It is no member of the group. Partitions come and go with the shared reader, which also takes the pipeline back.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from loader.bridge.columns import reformatted
from loader.bridge.engine.bucket import Ledger
from loader.bridge.engine.flow import Flow
from loader.bridge.engine.marks import Marks, Partition
from loader.bridge.sinks.dispatch import Backoff
from loader.errors import LoaderError

if TYPE_CHECKING:
    from loader.bridge.sources.kafka import KafkaSource

log = logging.getLogger(__name__)

READ_MESSAGES = 1_000


class Apart:
    """`source` is open, is no member, and belongs to the thread from `start` on."""

    def __init__(self, flow: Flow, source: KafkaSource, ledger: Ledger, marks: Marks, commit_seconds: float) -> None:
        self.flow = flow
        self.ledger = ledger
        self.since = time.monotonic()
        self.fault: Exception | None = None
        self._source = source
        self._marks = marks
        self._commit_seconds = commit_seconds
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._unsaved: dict[Partition, int] = {}
        self._backoff = Backoff()
        self._thread = threading.Thread(target=self._run, name=f"apart {flow.name}", daemon=True)

    def start(self, positions: Mapping[Partition, int]) -> None:
        """Read from these positions on."""
        self.take(positions)
        self._thread.start()

    def take(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions, too."""
        self._orders.put(lambda: self._source.assign(positions))

    def give_up(self, partitions: Sequence[Partition]) -> None:
        """They are somebody else's now; whoever it is goes on from the marks."""

        def order() -> None:
            self._source.unassign(partitions)
            self.ledger.take(partitions)
            for each in partitions:
                self._unsaved.pop(each, None)

        self._orders.put(order)

    @property
    def positions(self) -> dict[Partition, int]:
        """Where it reads on."""
        return self._source.positions()

    def lag(self) -> int | None:
        """As the source's, cached by the thread that reads."""
        return self._lag

    _lag: int | None = None

    def stop(self, seconds: float = 2.0) -> bool:
        """Read no more. False when the thread did not end in time."""
        self._stop.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def save(self) -> None:
        """After `stop`: mark what is confirmed by now. Raises LoaderError."""
        bucket = self.ledger.drain()
        self._marks.set(self.flow.name, {**self._unsaved, **(bucket.positions if bucket is not None else {})})

    def close(self) -> None:
        """After `stop`: let go of the client."""
        if not self._thread.is_alive():
            self._source.close(None, time.monotonic())

    def _run(self) -> None:
        try:
            due = time.monotonic() + self._commit_seconds
            while not self._stop.is_set():
                self._obey()
                self._read()
                if time.monotonic() >= due:
                    due = time.monotonic() + self._settle()
                    self._lag = self._source.lag()
        except Exception as error:
            # The shared reader sees it and begins again from the marks.
            log.exception("the pipeline %s failed on its own way", self.flow.name)
            self.fault = error

    def _obey(self) -> None:
        while True:
            try:
                self._orders.get_nowait()()
            except queue.Empty:
                return

    def _read(self) -> None:
        room = self.flow.room
        self._source.pause(not room)
        batch = self._source.read(READ_MESSAGES, 0.02 if room else 0.1)
        if batch.positions:
            share = self.ledger.share(self.flow.name)
            frames = reformatted(batch.frames, self.flow.format)
            self.flow.take(frames, share, batch.size, batch.skipped, batch.tombstones)
            self.ledger.read(batch.positions)

    def _settle(self) -> float:
        """Mark what is confirmed; seconds until the next time."""
        bucket = self.ledger.rotate()
        if bucket is not None:
            self._unsaved.update(bucket.positions)
        if self._unsaved:
            try:
                self._marks.set(self.flow.name, self._unsaved)
            except LoaderError as error:
                log.warning("the position of %s is kept later: %s", self.flow.name, error)
                return self._backoff.fail(time.monotonic(), None)
            self._unsaved = {}
            self._backoff.succeed()
        return self._commit_seconds
