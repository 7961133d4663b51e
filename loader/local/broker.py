"""The store under one lock, with a condition for each subscription and the faults: what the services share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from loader.local.faults import FaultState
from loader.local.lease import Consumer, Lease
from loader.local.store import Store
from loader.local.subscription import Subscription

MAX_DELIVERY = 1_000
MAX_DELIVERY_BYTES = 3_900_000
"""A response stays below the 4 MiB that a gRPC client takes by default; a single greater message goes alone."""


def steady_clock() -> Callable[[], int]:
    """Microseconds since the epoch that never go back: the wall clock at the start plus the monotonic clock."""
    offset = time.time_ns() - time.monotonic_ns()
    return lambda: (offset + time.monotonic_ns()) // 1_000


class Broker:
    """Thread-safe around Store. Waiting costs nothing: conditions with the next deadline as timeout."""

    def __init__(self, clock: Callable[[], int], max_bytes: int) -> None:
        self.clock = clock
        self.store = Store(clock, max_bytes)
        self.lock = threading.Lock()
        self._conditions: dict[Subscription, threading.Condition] = {}
        self.streams = 0
        self.stopped = False
        self.faults = FaultState(self.wake_all, self.stats, self.expire_leases)

    def condition(self, subscription: Subscription) -> threading.Condition:
        """What a stream of this subscription waits on. The caller holds the lock."""
        condition = self._conditions.get(subscription)
        if condition is None:
            condition = self._conditions[subscription] = threading.Condition(self.lock)
        return condition

    def wake(self, subscriptions: Iterable[Subscription]) -> None:
        """Wakes the streams of these subscriptions. The caller holds the lock."""
        for subscription in subscriptions:
            condition = self._conditions.get(subscription)
            if condition is not None:
                condition.notify_all()
                if subscription.deleted:
                    del self._conditions[subscription]

    def wake_all(self) -> None:
        """Wakes every stream. The caller does not hold the lock."""
        with self.lock:
            self.wake(list(self._conditions))

    def expire_leases(self) -> None:
        """Ends every lease, as if its deadline had passed. The caller does not hold the lock."""
        with self.lock:
            for subscription in self.store.subscriptions.values():
                for batch in subscription.batches:
                    batch.deadline = 0
                subscription.expire(self.clock())
            self.wake(list(self._conditions))

    def stop(self) -> None:
        """Ends every stream and every waiting pull."""
        with self.lock:
            self.stopped = True
        self.wake_all()

    def deliver(self, subscription: Subscription, consumer: Consumer, limit: int) -> list[Lease]:
        """Takes what may be delivered now, duplicates by fault included. The caller holds the lock."""
        now = self.clock()
        subscription.expire(now)
        if subscription.counts:
            self.wake(self.store.forward_exhausted(subscription))
        leases = subscription.take(consumer, limit, MAX_DELIVERY_BYTES, now)
        # A copy: the list that `take` returns is the batch's own.
        copies = [subscription.duplicate(lease, now) for lease in leases[: self.faults.take_duplicates(len(leases))]]
        return leases + copies

    def seconds_to_wait(self, subscription: Subscription) -> float | None:
        """Until a lease of the subscription ends; None when nothing will happen by itself."""
        wake = subscription.next_wake()
        return None if wake is None else max(0.0, (wake - self.clock()) / 1_000_000)

    def acknowledge(self, subscription: Subscription, ack_ids: Any) -> list[str]:
        """Acks, unless a fault drops them; returns the ack ids that hold no lease."""
        if self.faults.drops_acks():
            return []
        with self.lock:
            invalid = subscription.ack(ack_ids, self.clock())
            self.wake((subscription,))
        return invalid

    def modify(self, subscription: Subscription, ack_ids: Any, seconds: int) -> list[str]:
        """Moves deadlines, 0 = nack; returns the ack ids that hold no lease."""
        with self.lock:
            invalid = subscription.modify(ack_ids, seconds, self.clock())
            # A stream that sleeps until the old deadline must learn of an earlier one.
            self.wake((subscription,))
        return invalid

    def stats(self) -> dict[str, Any]:
        """Counts of the whole server: see Faults.stats."""
        with self.lock:
            return {
                "streams": self.streams,
                "bytes": self.store.bytes(),
                "topics": {name: {"published": topic.published} for name, topic in self.store.topics.items()},
                "subscriptions": {
                    name: {
                        "backlog": one.unacked - len(one.leased),
                        "leased": len(one.leased),
                        "retained": len(one.acked),
                        "delivered": one.delivered,
                        "acked": one.acknowledged,
                    }
                    for name, one in self.store.subscriptions.items()
                },
            }
