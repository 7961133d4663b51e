"""A subscription's backlog, leases and retained messages: a state machine without threads, clock or I/O.

Every method is told the time (microseconds since the epoch); whoever calls holds the server's lock.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

from loader.local.lease import Batch, Consumer, Lease, Stored

SECOND = 1_000_000
DEFAULT_RETENTION = 7 * 86_400 * SECOND
DEFAULT_BACKOFF = (10 * SECOND, 600 * SECOND)


def _micros(duration: Any) -> int:
    return duration.seconds * SECOND + duration.nanos // 1_000


class Subscription:
    """State of one subscription; `config` is its protobuf message as the service would show it."""

    def __init__(self, config: Any, numbers: Iterator[int], now: int) -> None:
        self.numbers = numbers
        self.fresh: deque[Stored] = deque()
        """Never delivered, in publish order."""
        self.returned: deque[Lease] = deque()
        """Nacked or expired: to be delivered again."""
        self.delayed: list[tuple[int, int, Lease]] = []
        """Returned, but held back by the retry policy: heap of (when, number, lease)."""
        self.leased: dict[str, Lease] = {}
        self.late: dict[str, Lease] = {}
        """Expired, not delivered again yet: a late ack still counts (not with exactly-once)."""
        self.acked: deque[Stored] = deque()
        self.batches: list[Batch] = []
        self.leased_keys: Counter[str] = Counter()
        self.bytes = 0
        """Bytes of every message that the subscription keeps, acked and retained ones included."""
        self.delivered = 0
        self.acknowledged = 0
        self.deleted = False
        self.touched = now
        self.configure(config)

    def configure(self, config: Any) -> None:
        """Takes over new settings."""
        self.config = config
        self.name: str = config.name
        self.ack_deadline = config.ack_deadline_seconds * SECOND
        self.retention = _micros(config.message_retention_duration) or DEFAULT_RETENTION
        self.retain_acked: bool = config.retain_acked_messages
        self.exactly_once: bool = config.enable_exactly_once_delivery
        self.ordered: bool = config.enable_message_ordering
        policy = config.dead_letter_policy
        self.dead_letter_topic: str = policy.dead_letter_topic
        self.max_deliveries: int = policy.max_delivery_attempts or 5
        self.counts = bool(self.dead_letter_topic)
        """Whether deliveries tell their number."""
        self.backoff: tuple[int, int] | None = None
        if config.HasField("retry_policy"):
            retry = config.retry_policy
            low = _micros(retry.minimum_backoff) if retry.HasField("minimum_backoff") else DEFAULT_BACKOFF[0]
            high = _micros(retry.maximum_backoff) if retry.HasField("maximum_backoff") else DEFAULT_BACKOFF[1]
            self.backoff = (low, high)
        self.expires_after = _micros(config.expiration_policy.ttl)
        if not self.retain_acked:
            self.bytes -= sum(message.size for message in self.acked)
            self.acked.clear()

    @property
    def unacked(self) -> int:
        """Messages that are neither acked nor dropped, leased ones included."""
        return len(self.fresh) + len(self.returned) + len(self.delayed) + len(self.leased)

    def add(self, messages: list[Stored], size: int) -> None:
        """Appends published messages; `size` is the sum of theirs."""
        self.fresh.extend(messages)
        self.bytes += size

    def take(self, consumer: Consumer, limit: int, byte_limit: int, now: int) -> list[Lease]:
        """Leases up to `limit` messages to `consumer` within its flow control and `byte_limit`.

        Half of a delivery at most is redeliveries while there are fresh messages, so that messages which are nacked
        again and again cannot starve the others.
        """
        self.expire(now)
        room = consumer.room(limit)
        if room <= 0:
            return []
        if consumer.max_bytes:
            byte_limit = min(byte_limit, consumer.max_bytes - consumer.bytes)
        batch = Batch(now + consumer.ack_deadline, next(self.numbers), consumer)
        taken = batch.leases
        left = self._take_returned(batch, max(1, room // 2) if self.fresh else room, byte_limit)
        if self.ordered:
            self._take_ordered(batch, room, left)
        else:
            fresh, leased = self.fresh, self.leased
            popleft, append, numbers = fresh.popleft, taken.append, self.numbers
            for _ in range(min(room - len(taken), len(fresh))):
                message = fresh[0]
                left -= message.size
                if left < 0 and taken:
                    left += message.size
                    break
                popleft()
                ack_id = f"{next(numbers):016x}"
                leased[ack_id] = lease = Lease(message, ack_id, 1, batch)
                append(lease)
        if taken:
            self._hold(batch, byte_limit - left)
        return taken

    def _take_returned(self, batch: Batch, most: int, left: int) -> int:
        """Takes messages that were delivered before; returns what is left of the bytes."""
        skipped: deque[Lease] = deque()
        while self.returned and len(batch.leases) < most:
            lease = self.returned.popleft()
            message = lease.message
            self.late.pop(lease.ack_id, None)
            if message.size > left and batch.leases:
                skipped.append(lease)
                break
            if self.ordered and message.ordering_key and self.leased_keys[message.ordering_key]:
                skipped.append(lease)
                continue
            self._lease(message, lease.deliveries + 1, batch)
            left -= message.size
        self.returned.extendleft(reversed(skipped))
        return left

    def _take_ordered(self, batch: Batch, room: int, left: int) -> None:
        """Takes fresh messages, but none whose ordering key is leased by an earlier delivery or waits for one."""
        taken = batch.leases
        busy = {key for key, count in self.leased_keys.items() if count}
        busy.update(lease.message.ordering_key for lease in self.returned)
        busy.update(lease.message.ordering_key for _, _, lease in self.delayed)
        busy.discard("")
        kept: deque[Stored] = deque()
        while self.fresh and len(taken) < room:
            message = self.fresh.popleft()
            full = message.size > left and taken
            if full or message.ordering_key in busy:
                kept.append(message)
                if full:
                    break
                continue
            self._lease(message, 1, batch)
            left -= message.size
        self.fresh.extendleft(reversed(kept))

    def _lease(self, message: Stored, deliveries: int, batch: Batch) -> Lease:
        ack_id = f"{next(self.numbers):016x}"
        self.leased[ack_id] = lease = Lease(message, ack_id, deliveries, batch)
        batch.leases.append(lease)
        return lease

    def _hold(self, batch: Batch, size: int) -> None:
        """Counts a delivery of `size` bytes."""
        batch.live = count = len(batch.leases)
        if self.ordered:
            self.leased_keys.update(one.message.ordering_key for one in batch.leases if one.message.ordering_key)
        heapq.heappush(self.batches, batch)
        batch.consumer.messages += count
        batch.consumer.bytes += size
        self.delivered += count

    def duplicate(self, lease: Lease, now: int) -> Lease:
        """Delivers a leased message a second time, as the service may; both leases live on their own."""
        consumer = lease.batch.consumer
        batch = Batch(now + consumer.ack_deadline, next(self.numbers), consumer)
        copy = self._lease(lease.message, lease.deliveries, batch)
        self._hold(batch, lease.message.size)
        self.bytes += lease.message.size
        return copy

    def ack(self, ack_ids: Iterable[str], now: int) -> list[str]:
        """Acks; returns the ack ids that hold no lease. An exactly-once subscription takes no late ack."""
        if self.exactly_once:
            self.expire(now)
        pop, retained = self.leased.pop, self.acked.append if self.retain_acked else None
        invalid: list[str] = []
        freed = count = 0
        for ack_id in ack_ids:
            lease = pop(ack_id, None)
            if lease is None:
                if not self._late_ack(ack_id):
                    invalid.append(ack_id)
                continue
            message, batch = lease.message, lease.batch
            size = message.size
            consumer = batch.consumer
            consumer.messages -= 1
            consumer.bytes -= size
            batch.live -= 1
            if not batch.live:
                batch.leases = []
            count += 1
            if retained is not None:
                retained(message)
            else:
                freed += size
            if self.ordered:
                self._unlease_key(message)
        self.bytes -= freed
        self.acknowledged += count
        return invalid

    def _late_ack(self, ack_id: str) -> bool:
        """An ack after the deadline, before the next delivery: then there is none."""
        lease = self.late.get(ack_id)
        if lease is None:
            return False
        self.drop(lease)
        return True

    def _settle(self, message: Stored) -> None:
        self.acknowledged += 1
        if self.retain_acked:
            self.acked.append(message)
        else:
            self.bytes -= message.size

    def drop(self, lease: Lease) -> None:
        """Takes a returned lease out for good: acked late, or its message went to the dead-letter topic."""
        self.returned.remove(lease)
        self.late.pop(lease.ack_id, None)
        self._settle(lease.message)

    def _unlease_key(self, message: Stored) -> None:
        key = message.ordering_key
        if key:
            self.leased_keys[key] -= 1
            if self.leased_keys[key] <= 0:
                del self.leased_keys[key]

    def modify(self, ack_ids: Iterable[str], seconds: int, now: int) -> list[str]:
        """Moves ack deadlines to `seconds` from now, 0 = nack; returns the ack ids that hold no lease."""
        self.expire(now)
        invalid: list[str] = []
        moved: list[Lease] = []
        for ack_id in ack_ids:
            lease = self.leased.get(ack_id)
            if lease is None:
                invalid.append(ack_id)
            else:
                moved.append(lease)
        if not seconds:
            self._give_back(moved, now)
            return invalid
        batches: dict[Consumer, Batch] = {}
        for lease in moved:
            consumer = lease.batch.consumer
            batch = batches.get(consumer)
            if batch is None:
                batch = batches[consumer] = Batch(now + seconds * SECOND, next(self.numbers), consumer)
                heapq.heappush(self.batches, batch)
            lease.batch.leave()
            lease.batch = batch
            batch.live += 1
            batch.leases.append(lease)
        return invalid

    def _give_back(self, leases: list[Lease], now: int) -> None:
        if self.ordered and leases:
            leases = self._with_followers(leases)
        for lease in leases:
            if self.leased.pop(lease.ack_id, None) is None:
                continue
            lease.batch.consumer.messages -= 1
            lease.batch.consumer.bytes -= lease.message.size
            lease.batch.leave()
            if self.ordered:
                self._unlease_key(lease.message)
            if self.backoff:
                low, high = self.backoff
                wait = min(high, low * 2 ** min(lease.deliveries - 1, 30))
                heapq.heappush(self.delayed, (now + wait, next(self.numbers), lease))
            else:
                self.returned.append(lease)

    def _with_followers(self, leases: list[Lease]) -> list[Lease]:
        """A message that is delivered again takes the later leased ones of its ordering key along, in order."""
        lowest: dict[str, int] = {}
        for lease in leases:
            key, number = lease.message.ordering_key, lease.message.number
            if key:
                lowest[key] = min(number, lowest.get(key, number))
        followers = [
            lease
            for lease in self.leased.values()
            if lease.message.ordering_key in lowest and lease.message.number >= lowest[lease.message.ordering_key]
        ]
        alone = [lease for lease in leases if not lease.message.ordering_key]
        return sorted(followers + alone, key=lambda lease: lease.message.number)

    def expire(self, now: int) -> None:
        """Gives back leases whose deadline passed, lets delayed ones go, drops what is older than the retention."""
        batches = self.batches
        while batches and (not batches[0].live or batches[0].deadline <= now):
            batch = heapq.heappop(batches)
            ended = [lease for lease in batch.leases if lease.batch is batch and lease.ack_id in self.leased]
            self._give_back(ended, now)
            if not self.exactly_once and not self.backoff:
                self.late.update((lease.ack_id, lease) for lease in ended)
        while self.delayed and self.delayed[0][0] <= now:
            self.returned.append(heapq.heappop(self.delayed)[2])
        oldest = now - self.retention
        for queue in (self.fresh, self.acked):
            while queue and queue[0].published < oldest:
                self.bytes -= queue.popleft().size

    def next_wake(self) -> int | None:
        """When something will change by itself: the earliest ack deadline or end of a delay."""
        while self.batches and not self.batches[0].live:
            heapq.heappop(self.batches)
        times = [self.batches[0].deadline] if self.batches else []
        if self.delayed:
            times.append(self.delayed[0][0])
        return min(times, default=None)

    def exhausted(self) -> list[Lease]:
        """Returned leases that were delivered as often as the dead-letter policy allows."""
        if not self.counts or not self.returned:
            return []
        return [lease for lease in self.returned if lease.deliveries >= self.max_deliveries]

    def unacked_messages(self) -> list[Stored]:
        """Every unacked message, in publish order, once."""
        messages = {message.number: message for message in self.fresh}
        for lease in (*self.returned, *(entry[2] for entry in self.delayed), *self.leased.values()):
            messages[lease.message.number] = lease.message
        return [messages[number] for number in sorted(messages)]

    def replace(self, unacked: list[Stored], acked: list[Stored]) -> None:
        """Sets the state after a seek. Leases end: their ack ids hold nothing any more."""
        for lease in self.leased.values():
            lease.batch.consumer.messages -= 1
            lease.batch.consumer.bytes -= lease.message.size
            lease.batch.leave()
        self.leased.clear()
        self.late.clear()
        self.returned.clear()
        self.delayed.clear()
        self.leased_keys.clear()
        self.batches.clear()
        self.fresh = deque(unacked)
        self.acked = deque(acked if self.retain_acked else ())
        self.bytes = sum(message.size for message in (*self.fresh, *self.acked))
