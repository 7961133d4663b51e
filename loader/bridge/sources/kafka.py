"""Kafka as a source: a member of a consumer group that commits only what was delivered.

Rebalances are cooperative: partitions that stay are read on meanwhile. A revoked partition is finished and committed in
bounded time, a lost one is dropped without a commit. Commits that a rebalance refuses are counted and made good by the
next one, never retried on the spot: that would start another rebalance, round and round.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from loader.bridge.columns import Columns, KafkaFrame
from loader.bridge.engine.bucket import Bucket
from loader.bridge.frame import Format
from loader.bridge.identity import prefix
from loader.bridge.outage import Outage
from loader.bridge.sinks.sink import Origin
from loader.bridge.sources.source import Batch, Handover
from loader.errors import LoaderError

log = logging.getLogger(__name__)

__all__ = ["KafkaFrame", "KafkaSource", "Partition"]

BATCH_BYTES = 8 << 20
"""A read takes about so many bytes, judged by the size of the messages before."""
LAG_SECONDS = 5.0
_CALL_SECONDS = 10.0
_RETRY_SECONDS = 0.3
_LOOK_SECONDS = 1.0
UNASSIGNED_SECONDS = 30.0
"""So long a member without partitions may be one that the group has not got round to yet."""

_SECOND = itemgetter(1)

Partition = tuple[str, int]


class KafkaSource:
    """One topic, as a member of a group, or with partitions that it is given (`members=False`).

    `settings` is librdkafka's configuration (see kafka_options), `tombstones` whether null values are passed on."""

    def __init__(
        self,
        name: str,
        topic: str,
        settings: Mapping[str, Any],
        format: Format,
        *,
        epoch: str = "",
        tombstones: bool = False,
        member: bool = True,
        outage: Outage | None = None,
    ) -> None:
        self.name = name
        self.topic = topic
        self.failures = 0
        """Commits that were refused, most of them by a rebalance."""
        self.group = str(settings["group.id"])
        self._settings = dict(settings)
        self._format = format
        self._epoch = epoch
        self._tombstones = tombstones
        self.metadata = ""
        """Kept beside each committed position."""
        self._member = member
        self._handover: Handover | None = None
        self._consumer: Any = None
        self._cluster = ""
        self._origins: dict[int, Origin] = {}
        self.assigned: set[Partition] = set()
        self._paused = False
        self._uncommitted: dict[Partition, int] = {}
        self._average = 65_536.0  # until messages have been seen, they may be large
        self._positions: dict[Partition, int] = {}
        self._starts: dict[Partition, int] = {}
        """Where partitions begin of which nothing was read yet; for the lag alone."""
        self._lag: tuple[float, int | None] = (0.0, None)
        self._outage = outage or Outage(f"Kafka, {name}", log)
        self._unassigned_since: float | None = None
        self._unassigned_told = False
        self.fault: str | None = None
        """The client's last error, None once messages come again."""

    def open(self, handover: Handover) -> None:
        """Join. Raises LoaderError while no broker answers."""
        self._handover = handover
        if self._consumer is None:
            self._consumer = Consumer(
                {**self._settings, "error_cb": self._failed, "on_commit": self._committed}, logger=self._outage
            )
        try:
            # Not `cluster_id()`: that one waits for a broker without end.
            self._cluster = self._consumer.list_topics(self.topic, timeout=_CALL_SECONDS).cluster_id or "unknown"
        except KafkaException as error:
            where = f"{self.name} at {self._settings['bootstrap.servers']}"
            raise LoaderError(f"Kafka does not answer for {where}: {error.args[0].str()}") from error
        if self._member:
            self._consumer.subscribe(
                [self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )

    def _failed(self, error: KafkaError) -> None:
        self.fault = error.str()
        # The group goes on by itself; only what nothing mends ends the reader.
        if error.fatal():
            log.error("Kafka, %s: %s", self.name, error.str())
        else:
            self._outage.trouble(error.str())

    def _works(self) -> None:
        self.fault = None
        self._outage.over()

    # Reading

    def read(self, most: int, timeout: float) -> Batch:
        """See Source. Raises LoaderError when the client gave up for good."""
        count = max(1, min(most, int(BATCH_BYTES / self._average)))
        messages = self._consumer.consume(count, timeout)
        batch = Batch(full=len(messages) == count)
        if not messages:
            return batch
        self._take(batch, messages)
        return batch

    def _take(self, batch: Batch, messages: list[Any]) -> None:
        # Column by column, for a loop over messages takes as long as everything else in a pipeline without stages.
        if any(map(Message.error, messages)):
            for message in messages:
                if message.error() is not None:
                    self._read_error(message.error())
            messages = [message for message in messages if message.error() is None]
            if not messages:
                return
        partitions: list[Any] = list(map(Message.partition, messages))
        offsets: list[Any] = list(map(Message.offset, messages))
        topic, last = self.topic, dict(zip(partitions, offsets, strict=True))
        batch.positions = {(topic, number): offset + 1 for number, offset in last.items()}
        self._positions.update(batch.positions)
        for number in last:
            if number not in self._origins:
                self._origin(number)
        keys: list[Any] = list(map(Message.key, messages))
        headers: list[Any] = list(map(Message.headers, messages))
        columns = Columns(
            list(map(Message.value, messages)),
            partitions,
            offsets,
            list(map(_SECOND, map(Message.timestamp, messages))),
            None if keys.count(None) == len(keys) else keys,
            headers if any(headers) else None,
            self._origins,
            self._format,
        )
        if None in columns.values:
            there = [value is not None for value in columns.values]
            if self._tombstones:
                batch.tombstones = there.count(False)
            else:
                batch.skipped = there.count(False)
                columns = columns.only(there)
        batch.frames = columns
        if count := len(columns):
            if self.fault is not None or self._outage.lasting:
                self._works()
            size = sum(map(len, filter(None, columns.values)))
            self._average += (max(size / count, 64) - self._average) * 0.5
            batch.size = size + 500 * count

    def _origin(self, number: int) -> Origin:
        origin = Origin(self.topic, number, prefix(self._epoch, self._cluster, self.topic, number))
        self._origins[number] = origin
        return origin

    def _read_error(self, error: KafkaError) -> None:
        if error.fatal():
            raise LoaderError(f"Kafka, {self.name}: {error.str()}")
        self.fault = error.str()

    def pause(self, paused: bool) -> None:
        """Stop fetching, or go on; `read` keeps the membership alive meanwhile."""
        if paused != self._paused:
            self._paused = paused
            self._pause_now([TopicPartition(*each) for each in self.assigned])

    def _pause_now(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        if self._paused:
            self._consumer.pause(partitions)
        else:
            self._consumer.resume(partitions)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Go on from here in partitions that are assigned."""
        for (topic, number), position in positions.items():
            self._consumer.seek(TopicPartition(topic, number, position))
            self._positions[topic, number] = position

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Take partitions without being a member."""
        if not positions:
            return
        self._consumer.incremental_assign([TopicPartition(*each, position) for each, position in positions.items()])
        self.assigned.update(positions)
        self._positions.update(positions)
        if self._paused:
            self._pause_now([TopicPartition(*each) for each in positions])

    def unassign(self, partitions: Sequence[Partition]) -> None:
        """Give back partitions taken by `assign`."""
        mine = [each for each in partitions if each in self.assigned]
        if mine:
            self._consumer.incremental_unassign([TopicPartition(*each) for each in mine])
            self._forget(mine)

    # Rebalances, called by librdkafka within `read` and `close`

    def _on_assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        assert self._handover is not None
        keys = [(each.topic, each.partition) for each in partitions]
        starts = self._handover.assigned(keys)
        consumer.incremental_assign(
            [TopicPartition(*key, starts[key]) if key in starts else TopicPartition(*key) for key in keys]
        )
        self.assigned.update(keys)
        self._positions.update({key: starts[key] for key in keys if key in starts})
        if self._paused:
            self._pause_now(partitions)

    def _on_revoke(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        assert self._handover is not None
        keys = [(each.topic, each.partition) for each in partitions]
        positions = dict(self._handover.revoked(keys))
        for key in keys:
            waiting = self._uncommitted.pop(key, None)
            if waiting is not None:
                positions[key] = max(waiting, positions.get(key, -1))
        self._commit_now(positions)
        consumer.incremental_unassign(partitions)
        self._forget(keys)

    def _on_lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        assert self._handover is not None
        keys = [(each.topic, each.partition) for each in partitions]
        self._handover.lost(keys)
        for key in keys:
            self._uncommitted.pop(key, None)
        consumer.incremental_unassign(partitions)
        self._forget(keys)

    def _forget(self, keys: Sequence[Partition]) -> None:
        self.assigned.difference_update(keys)
        for key in keys:
            self._positions.pop(key, None)
            self._starts.pop(key, None)

    # Committing

    def commit(self, bucket: Bucket) -> None:
        """Commit, asynchronously, with what was refused before."""
        positions = {**self._uncommitted}
        for key, position in bucket.positions.items():
            if key in self.assigned:
                positions[key] = max(position, positions.get(key, -1))
        if not positions:
            return
        # Until the broker says that it has them: a later commit covers only partitions that moved on.
        self._uncommitted = positions
        try:
            self._consumer.commit(offsets=self._offsets(positions), asynchronous=True)
        except KafkaException as error:
            self._refused(error.args[0])

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self._refused(error)
            return
        for each in partitions:
            key = (each.topic, each.partition)
            if each.error is None and self._uncommitted.get(key) == each.offset:
                del self._uncommitted[key]

    def _refused(self, error: KafkaError) -> None:
        self.failures += 1
        if self._outage.lasting:
            self._outage.trouble(f"a commit was refused: {error.str()}")
            return
        log.info("a commit for %s was refused and is made good by a later one: %s", self.name, error.str())

    def _offsets(self, positions: Mapping[Partition, int]) -> list[TopicPartition]:
        return [TopicPartition(*key, at, self.metadata) for key, at in positions.items()]

    def _commit_now(self, positions: Mapping[Partition, int]) -> bool:
        if not positions:
            return True
        try:
            self._consumer.commit(offsets=self._offsets(positions), asynchronous=False)
        except KafkaException as error:
            self._refused(error.args[0])
            return False
        return True

    def committed(self, partitions: Sequence[Partition], timeout: float = _CALL_SECONDS) -> dict[Partition, int]:
        """The group's positions; partitions without one are left out. Raises LoaderError."""
        try:
            found = self._consumer.committed([TopicPartition(*each) for each in partitions], timeout=timeout)
        except KafkaException as error:
            raise LoaderError(f"Kafka does not tell the positions of {self.group}: {error.args[0].str()}") from error
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def start_of(self, partition: Partition, timeout: float = _CALL_SECONDS) -> int:
        """Where a partition without a committed position starts. Raises LoaderError."""
        reset = str(self._settings.get("auto.offset.reset", "earliest"))
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=timeout)
        except KafkaException as error:
            raise LoaderError(f"Kafka does not tell the offsets of {partition}: {error.args[0].str()}") from error
        return high if reset in ("latest", "largest", "end") else low

    def positions(self) -> dict[Partition, int]:
        """Where each assigned partition is read on, as far as something was read from it or it was told."""
        return dict(self._positions)

    def know(self, positions: Mapping[Partition, int]) -> None:
        """Where partitions start of which nothing was read yet."""
        for key, position in positions.items():
            self._positions.setdefault(key, position)

    def lag(self) -> int | None:
        """Messages between what was read and the ends that the last answers told; looked at each 5 s. None while no
        partition is assigned, and while of none both are known."""
        now = time.monotonic()
        if now - self._lag[0] < LAG_SECONDS or self._consumer is None:
            return self._lag[1] if self.assigned else None
        self._look_after(now)
        total: int | None = None
        for key in list(self.assigned):
            position = self._positions.get(key, self._starts.get(key))
            try:
                _, high = self._consumer.get_watermark_offsets(TopicPartition(*key), cached=True)
            except KafkaException:
                continue  # nothing was fetched from it yet
            if position is not None and high >= 0:
                total = (total or 0) + max(0, high - position)
        self._lag = (now, total)
        return total

    def _look_after(self, now: float) -> None:
        """What only shows when nothing comes: no partitions, their beginnings, and brokers that are back."""
        if self._member:
            self._look_for_partitions(now)
        try:
            unread = [key for key in self.assigned if key not in self._positions and key not in self._starts]
            if unread:
                found = self.committed(unread, _LOOK_SECONDS)
                for key in unread:
                    self._starts[key] = found[key] if key in found else self.start_of(key, _LOOK_SECONDS)
        except LoaderError:
            return  # the outage is told of elsewhere
        if self._outage.lasting or self.fault is not None:
            self._ask()

    def _look_for_partitions(self, now: float) -> None:
        if self.assigned:
            if self._unassigned_told:
                log.info("Kafka, %s: %d partitions are assigned now", self.name, len(self.assigned))
            self._unassigned_since, self._unassigned_told = None, False
        elif self._unassigned_since is None:
            self._unassigned_since = now
        elif now - self._unassigned_since >= UNASSIGNED_SECONDS and not self._unassigned_told:
            self._unassigned_told = True
            log.warning(
                "Kafka, %s: no partition of the topic %s has been assigned for %.0f s, so nothing is read: there is no "
                "such topic, the group %s has more members than partitions, or one that ended without a word still "
                "has them, until its session.timeout.ms is over",
                self.name,
                self.topic,
                now - self._unassigned_since,
                self.group,
            )

    def _ask(self) -> None:
        """Whether the brokers of what is assigned are back, though no message says so."""
        try:
            found = self._consumer.list_topics(self.topic, timeout=_LOOK_SECONDS).topics[self.topic]
        except KafkaException:
            return
        wanted = {number for _, number in self.assigned} or set(found.partitions)
        if wanted and all(number in found.partitions and found.partitions[number].leader >= 0 for number in wanted):
            self._works()

    def close(self, bucket: Bucket | None, deadline: float) -> None:
        """Commit and leave the group. With a broker that does not answer it takes until about `deadline`."""
        if self._consumer is None:
            return
        if bucket is not None:
            self.commit(bucket)
            # Only to serve the answers: what is fetched meanwhile is dropped unconfirmed.
            self.pause(True)
        while bucket is not None and self._uncommitted and self.assigned and time.monotonic() < deadline - 0.5:
            failures = self.failures
            self._consumer.consume(1, 0.1)
            if self.failures > failures:
                # A rebalance refuses commits until it is over; leaving without one would deliver much again.
                self._consumer.consume(1, _RETRY_SECONDS)
                self.commit(Bucket())
        self._consumer.close()
        self._consumer = None
