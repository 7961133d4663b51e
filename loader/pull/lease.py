"""Leases of everything that is held: received and neither acked nor nacked yet.

One record a response, not one a message: bundles are held as a whole, and a renewal is a few requests for all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby, repeat

from loader.message.message import Message

SECONDS = 60
"""Default length of a lease: asked for when the stream opens and with each renewal (the service allows 10 to 600).
Long enough for a worker whose CPU is starved for half a minute, short enough that a dead worker's messages move on."""

RENEW_AFTER = SECONDS * 2 / 3
"""Age in seconds at which a lease of the default length is renewed: a third of it is left for two more tries."""


@dataclass(eq=False, slots=True)
class Batch:
    """The messages of one response that are still held."""

    owner: int
    """Number of the stream that received them."""
    generation: int
    """Which of that stream's connections it was: flow control on the server starts again with each."""
    ack_ids: list[str]
    left: int
    bytes: int
    renewed: float
    expires: float
    lost: set[str] = field(default_factory=set)
    """Ids whose renewal was refused for good: never asked for again, still acked when their bundle has committed."""


class Leases:
    """What is held, and until when. Thread-safe; makes no calls itself: `due` says what to renew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, seconds: int = SECONDS) -> None:
        self.now = clock
        self.seconds = seconds
        """Length of a lease, in seconds on the clock."""
        self._lock = threading.Lock()
        self._by_ack_id: dict[str, Batch] = {}
        self._batches: dict[int, Batch] = {}  # oldest renewal first
        self._bytes = 0
        self.expired = 0
        """Messages whose lease ran out while held: others may get them too."""
        self.renewals = 0
        """Leases extended, counted by message."""

    @property
    def held(self) -> int:
        """Messages held."""
        return len(self._by_ack_id)

    @property
    def held_bytes(self) -> int:
        """Bytes of the bodies of the messages held."""
        return self._bytes

    def add(self, owner: int, generation: int, messages: list[Message], size: int) -> None:
        """Hold the messages of one response; `size` is what their bodies weigh in bytes."""
        now = self.now()
        ack_ids = [message.ack_id for message in messages]
        batch = Batch(owner, generation, ack_ids, len(ack_ids), size, now, now + self.seconds)
        with self._lock:
            before = len(self._by_ack_id)
            self._by_ack_id.update(zip(ack_ids, repeat(batch)))
            if len(self._by_ack_id) != before + len(ack_ids):
                self._adopt(batch)
            self._batches[id(batch)] = batch
            self._bytes += size

    def _adopt(self, batch: Batch) -> None:
        """An ack id came twice (seen on emulators only): it belongs to its newest batch, or the older never empties."""
        unique = dict.fromkeys(batch.ack_ids)
        batch.ack_ids = list(unique)
        batch.left = len(unique)
        for other in list(self._batches.values()):
            again = unique.keys() & other.ack_ids
            if again:
                other.ack_ids = [ack_id for ack_id in other.ack_ids if ack_id not in again]
                other.left = sum(self._by_ack_id.get(ack_id) is other for ack_id in other.ack_ids)
                if other.left <= 0:
                    self._drop(other)

    def release(self, messages: Iterable[Message]) -> list[str]:
        """Hold these no longer; returns the ack ids of those that were held, each once."""
        messages = list(messages)
        ack_ids = [message.ack_id for message in messages]
        with self._lock:
            batches = list(map(self._by_ack_id.pop, ack_ids, repeat(None)))
            start = 0
            # What came in one response mostly goes in one bundle, in a row.
            for batch, run in groupby(batches):
                end = start + len(list(run))
                if batch is not None:
                    self._let_go(batch, messages[start:end])
                start = end
        return [ack_id for ack_id, batch in zip(ack_ids, batches, strict=True) if batch is not None]

    def _let_go(self, batch: Batch, messages: list[Message]) -> None:
        size = sum([len(message.data) for message in messages])
        batch.bytes -= size
        self._bytes -= size
        batch.left -= len(messages)
        if batch.left == 0:
            self._drop(batch)

    def release_all(self) -> list[str]:
        """Hold nothing any more; returns the ack ids of all that was held."""
        with self._lock:
            released = list(self._by_ack_id)
            self._by_ack_id.clear()
            self._batches.clear()
            self._bytes = 0
        return released

    def _drop(self, batch: Batch) -> None:
        if self._batches.pop(id(batch), None) is not None:
            self._bytes -= batch.bytes
            batch.bytes = 0

    def due(self) -> list[tuple[Batch, list[str]]]:
        """Batches whose lease is to be renewed now, each with the ids still held. Counts those that ran out."""
        now = self.now()
        with self._lock:
            result: list[tuple[Batch, list[str]]] = []
            for batch in self._batches.values():
                if batch.renewed + self.seconds * 2 / 3 > now:
                    break
                result.append((batch, self._ids(batch)))
                if batch.expires <= now:
                    self.expired += len(result[-1][1])
                    batch.expires = float("inf")  # counted once; a renewal that succeeds sets it again
            return result

    def _ids(self, batch: Batch) -> list[str]:
        held = self._by_ack_id
        if batch.left == len(batch.ack_ids) and not batch.lost:
            return list(batch.ack_ids)
        return [ack_id for ack_id in batch.ack_ids if held.get(ack_id) is batch and ack_id not in batch.lost]

    def renewed(self, batch: Batch, at: float, lost: Iterable[str] = ()) -> None:
        """The batch's lease runs from `at` (the time just before the request); `lost` were refused for good."""
        with self._lock:
            before = len(batch.lost)
            batch.lost.update(lost)
            self.expired += len(batch.lost) - before
            self.renewals += batch.left
            batch.renewed = at
            batch.expires = at + self.seconds
            if self._batches.pop(id(batch), None) is not None:
                self._batches[id(batch)] = batch

    def of(self, owner: int, before: int | None = None) -> tuple[int, int]:
        """Messages and bytes held from one stream, or only from its connections before generation `before`."""
        count = size = 0
        with self._lock:
            for batch in self._batches.values():
                if batch.owner == owner and (before is None or batch.generation < before):
                    count += batch.left
                    size += batch.bytes
        return count, size
