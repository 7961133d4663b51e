"""Pub/Sub as a sink: raw publish requests of up to 1,000 messages or 10 MB, several in flight, no client in between.

Attributes: the headers, `event_id` (see loader/bridge/identity.py) and `kafka_timestamp` (milliseconds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc

from loader.bridge.engine.bucket import Share
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.identity import suffix
from loader.bridge.sinks import wire
from loader.bridge.sinks.dispatch import DELIVERED, Collector, Dispatcher, Outcome, Request
from loader.bridge.sinks.sink import Delivery, identity_of

MOST_MESSAGES = 1_000
MOST_BYTES = 10_000_000
"""Pub/Sub's limits of a publish request."""
TIMEOUT_SECONDS = 60.0
IN_FLIGHT = 8

_METHOD = "/google.pubsub.v1.Publisher/Publish"
_OWN = ("event_id", "kafka_timestamp", "tombstone")
_TOMBSTONE = wire.attribute(b"tombstone", b"true")
# Only these may blame a message. A missing topic, missing rights or a quota are troubles of the sink.
_REFUSALS = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE})


class PubsubSink:
    """One topic. `pipeline` becomes part of identities when given. `ordering` sends Kafka keys as ordering keys, and
    then one request at a time, so that no retry overtakes. `channel` opens the gRPC channel."""

    def __init__(
        self,
        name: str,
        topic: str,
        channel: Callable[[], grpc.Channel],
        delivery: Delivery,
        timer: Timer,
        *,
        pipeline: str | None = None,
        ordering: bool = False,
        headers: bool = True,
        timestamp: bool = True,
        drop_long_headers: bool = False,
        most_messages: int = MOST_MESSAGES,
        most_bytes: int = 9_500_000,
        most_requests: int = IN_FLIGHT,
    ) -> None:
        self.name = name
        self._topic = wire.topic_field(topic)
        self._channel = channel()
        # Neither side needs message objects: requests are built as bytes, and the ids of the answer are of no use.
        self._publish: Any = self._channel.unary_unary(_METHOD)
        self._delivery = delivery
        self._end = suffix(pipeline).encode()
        self._ordering = ordering
        self._headers = headers
        self._timestamp = timestamp
        self._drop_long_headers = drop_long_headers
        self._most_messages = min(most_messages, MOST_MESSAGES)
        self._most_bytes = min(most_bytes, MOST_BYTES)
        self._collector = Collector()
        self._parts: list[bytes] = []
        self._bytes = 0
        self._requests = Dispatcher(name, self._fire, delivery, timer, 1 if ordering else most_requests)

    @property
    def trouble(self) -> str | None:
        return self._requests.trouble

    @property
    def backoff_seconds(self) -> float:
        return self._requests.backoff_seconds

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        """Encode frames and send full requests."""
        start, each = 0, size / len(frames)
        while start < len(frames):
            room = self._most_messages - len(self._collector.frames)
            start += self._take(frames[start : start + room], share, each)
            if len(self._collector.frames) >= self._most_messages:
                self.flush()

    def _take(self, frames: Sequence[Frame], share: Share, each: float) -> int:
        """Collect frames until the request is full by bytes; returns how many were taken care of."""
        parts, encode = self._parts, self._encode
        kept: list[Frame] = []
        total = taken = 0
        room = self._most_bytes - len(self._topic) - self._bytes
        for frame in frames:
            try:
                message = encode(frame)
            except (wire.Unsendable, Undecodable) as error:
                self._delivery.refuse(share, frame, str(error), each)
                taken += 1
                continue
            count = len(message)
            if total + count + 8 > room and (kept or self._parts or count + 8 + len(self._topic) > MOST_BYTES):
                if count + 8 + len(self._topic) > MOST_BYTES:
                    self._delivery.refuse(
                        share, frame, f"{count} bytes with attributes, Pub/Sub takes {MOST_BYTES} a request", each
                    )
                    taken += 1
                    continue
                break
            parts += (b"\x12", wire.length(count), message)
            kept.append(frame)
            total += count + 8
            taken += 1
        if kept:
            self._collector.add(kept, share, each * len(kept))
            self._bytes += total
        if taken < len(frames):
            self.flush()
        return taken

    def _encode(self, frame: Frame) -> bytes:
        """A PubsubMessage without its own tag and length. Raises Unsendable, Undecodable."""
        data = frame.value()
        identity = identity_of(frame, self._end)
        headers = frame.headers if self._headers else None
        rest = wire.header_attributes(headers, _OWN, self._drop_long_headers) if headers else b""
        if data is None:
            data = b""
            rest += _TOMBSTONE  # Pub/Sub takes no message without data and attributes
        if self._timestamp and (timestamp := frame.timestamp):
            rest += wire.attribute(b"kafka_timestamp", b"%d" % timestamp)
        if self._ordering and (key := frame.key):
            rest += wire.ordering_key_field(key)
        own = len(identity)
        return b"\x0a%b%b\x12%b\x0a\x08event_id\x12%b%b%b" % (
            wire.length(len(data)),
            data,
            wire.length(own + (12 if own < 128 else 13)),
            wire.length(own),
            identity,
            rest,
        )

    def flush(self) -> None:
        """Send what waits."""
        if self._parts:
            body = self._topic + b"".join(self._parts)
            self._parts, self._bytes = [], 0
            self._requests.submit(self._collector.take(body))

    def _fire(self, request: Request) -> None:
        if request.body is None:
            request.body = self._body(request.frames)
        try:
            call = self._publish.future(request.body, timeout=TIMEOUT_SECONDS)
        except ValueError as error:  # the channel was closed
            self._requests.done(request, Outcome("retry", str(error)))
            return
        call.add_done_callback(partial(self._done, request))

    def _body(self, frames: Sequence[Frame]) -> bytes:
        parts = [self._topic]
        for frame in frames:
            message = self._encode(frame)
            parts += (b"\x12", wire.length(len(message)), message)
        return b"".join(parts)

    def _done(self, request: Request, call: Any) -> None:
        code = call.code()
        if code is grpc.StatusCode.OK:
            self._requests.done(request, DELIVERED)
            return
        reason = f"{code.name}: {call.details()}"
        self._requests.done(request, Outcome("refused" if code in _REFUSALS else "retry", reason))

    def close(self, deadline: float) -> bool:
        self.flush()
        done = self._requests.close(deadline)
        self._channel.close()
        return done
