"""Pub/Sub as a source: messages are acknowledged when all that came of them is delivered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from loader.bridge.engine.bucket import Bucket
from loader.bridge.frame import Format, Frame, Payload
from loader.bridge.identity import prefix
from loader.bridge.sinks.sink import Origin
from loader.bridge.sources.source import Batch, Handover
from loader.pull.puller import Puller

IDENTITY = "event_id"


class PubsubSource:
    """One subscription. Its messages come in no order and cannot be read again from a place: pipelines that share it
    share its pace, and the identity of a message is the attribute `event_id` if it has one, else its id."""

    def __init__(self, name: str, make_puller: Callable[[], Puller], format: Format, *, epoch: str = "") -> None:
        self.name = name
        self.assigned: set[Any] = set()
        self._make = make_puller
        self._format = format
        self._epoch = epoch
        self._puller: Puller | None = None
        self._paused = False

    @property
    def failures(self) -> int:
        """Acks that were refused."""
        return self._puller.state.ack_failures if self._puller is not None else 0

    def open(self, handover: Handover) -> None:
        self._puller = self._make()
        self._puller.start()

    def read(self, most: int, timeout: float) -> Batch:
        """See Source. Raises LoaderError when the subscription is refused."""
        assert self._puller is not None
        if self._paused:
            # Flow control holds the service back: what is not acknowledged is bounded.
            self._puller.tick()
            time.sleep(timeout)
            return Batch()
        messages = self._puller.take(timeout)
        frames: list[Frame] = []
        batch = Batch(frames, full=len(messages) >= most)
        subscription = self._puller.subscription
        for message in messages:
            identity = message.attributes.get(IDENTITY)
            headers = [(name, value.encode()) for name, value in message.attributes.items() if name != IDENTITY]
            key = message.ordering_key.encode() or None
            # A message has a name and no offset.
            name = identity or prefix(self._epoch, "pubsub", subscription, message.message_id)[:-1]
            origin, payload = Origin(subscription, -1, name), Payload(message.data, self._format)
            frames.append(Frame(payload, key, headers, subscription, -1, -1, message.published // 1_000, origin))
            batch.size += len(message.data) + 1_000
        batch.tokens = messages
        return batch

    def pause(self, paused: bool) -> None:
        self._paused = paused

    def positions(self) -> dict[Any, int]:
        """There are none."""
        return {}

    def commit(self, bucket: Bucket) -> None:
        assert self._puller is not None
        if bucket.tokens:
            self._puller.ack(bucket.tokens)

    def lag(self) -> int | None:
        return None

    def close(self, bucket: Bucket | None, deadline: float) -> None:
        if self._puller is None:
            return
        if bucket is not None:
            self.commit(bucket)
        self._puller.close(max(1.0, deadline - time.monotonic()))
        self._puller = None
