"""How far a consumer may commit: two buckets, one filling and one waiting for its confirmations.

A bucket holds, for each partition, the highest position that was read into it, and for each pipeline how many messages
it was given and how many of them came to an end (delivered, filtered or dead-lettered). The open bucket takes what is
read; when every message of the closed one is confirmed its positions may be committed, the open one is closed and a new
one opened. Confirmations come in any order and in any number without a list of messages being kept, and a position is
never committed before each message below it was confirmed: what is below it is in this bucket or in one before it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

Partition = Hashable
"""What a source calls a partition; for Kafka (topic, number)."""
Positions = Mapping[Any, int]
"""Partition → the position to go on from: the highest offset read, plus one."""


class Share:
    """One pipeline's part of a bucket. Any thread may call.

    A closed bucket's share may still be given more by who holds a part of it unconfirmed: a message in a queue counts
    until the deliveries that came of it are given."""

    __slots__ = ("_lock", "confirmed", "seen")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seen = 0
        self.confirmed = 0

    @property
    def done(self) -> bool:
        """Everything that was given was confirmed."""
        return self.confirmed == self.seen

    def give(self, count: int) -> None:
        """So many are on their way."""
        with self._lock:
            self.seen += count

    def confirm(self, count: int) -> None:
        """So many came to an end. Raises RuntimeError for more than were given: a fault that would lose messages."""
        with self._lock:
            self.confirmed += count
            if self.confirmed > self.seen:
                raise RuntimeError(f"{self.confirmed} messages were confirmed of {self.seen} that were given")


class Bucket:
    """Positions, and a share for each pipeline."""

    __slots__ = ("adopted", "positions", "shares", "tokens")

    def __init__(self) -> None:
        self.positions: dict[Any, int] = {}
        self.shares: dict[str, Share] = {}
        self.adopted: list[tuple[str, Share]] = []
        """Shares of another ledger that is no more (a pipeline came back)."""
        self.tokens: list[Any] = []
        """What a source without positions needs to confirm its messages (Pub/Sub)."""

    @property
    def done(self) -> bool:
        return all(share.done for share in self.shares.values()) and all(share.done for _, share in self.adopted)

    def share(self, pipeline: str) -> Share:
        """The pipeline's part, made when it is first asked for."""
        share = self.shares.get(pipeline)
        if share is None:
            share = self.shares[pipeline] = Share()
        return share


class Ledger:
    """The two buckets of one consumer. For its thread alone, apart from `Share.confirm`."""

    def __init__(self) -> None:
        self.open = Bucket()
        self.closed = Bucket()

    def read(self, positions: Positions, tokens: Iterable[Any] = ()) -> None:
        """Something was read up to these positions. Before or after its messages are given out, not between."""
        mine = self.open.positions
        for partition, position in positions.items():
            if position > mine.get(partition, -1):
                mine[partition] = position
        self.open.tokens.extend(tokens)

    def share(self, pipeline: str) -> Share:
        """Where a pipeline counts what it is given now."""
        return self.open.share(pipeline)

    @property
    def empty(self) -> bool:
        """Nothing is waiting to be committed."""
        return not (self.open.positions or self.closed.positions or self.open.tokens or self.closed.tokens)

    @property
    def done(self) -> bool:
        """Everything that was read is confirmed."""
        return self.closed.done and self.open.done

    def rotate(self) -> Bucket | None:
        """The closed bucket, to be committed now, if everything in it is confirmed; the open one is closed then."""
        if not self.closed.done:
            return None
        ready, self.closed, self.open = self.closed, self.open, Bucket()
        return ready

    def drain(self) -> Bucket | None:
        """Both buckets as one if all is confirmed; else the closed one if that is; None when neither."""
        if not self.closed.done:
            return None
        first = self.rotate()
        second = self.rotate()
        assert first is not None
        if second is not None:
            first.positions.update(second.positions)
            first.tokens.extend(second.tokens)
        return first

    def take(self, partitions: Iterable[Any]) -> dict[Any, int]:
        """Forget partitions (revoked or lost): the positions of those that may be committed, which is each whose
        messages are all confirmed. Their messages stay counted, for they are confirmed among the others."""
        found: dict[Any, int] = {}
        for partition in partitions:
            older = self.closed.positions.pop(partition, None)
            newer = self.open.positions.pop(partition, None)
            if not self.closed.done:
                continue
            if newer is not None and self.open.done:
                found[partition] = newer
            elif older is not None:
                found[partition] = older
        return found

    def split(self, pipeline: str) -> Ledger:
        """A ledger of its own for one pipeline, with what it was given and has not confirmed; this one no longer
        waits for it."""
        other = Ledger()
        for mine, its in ((self.closed, other.closed), (self.open, other.open)):
            its.positions = dict(mine.positions)
            share = mine.shares.pop(pipeline, None)
            if share is not None:
                its.shares[pipeline] = share
            its.adopted = [each for each in mine.adopted if each[0] == pipeline]
            mine.adopted = [each for each in mine.adopted if each[0] != pipeline]
        return other

    def adopt(self, other: Ledger) -> None:
        """Wait for what another ledger's pipeline was given, too. Its positions are dropped."""
        for bucket in (other.closed, other.open):
            self.open.adopted += [*bucket.shares.items(), *bucket.adopted]
