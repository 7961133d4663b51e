"""Pub/Sub as a sink: raw publish requests of up to 1,000 messages or 10 MB, several in flight, no client in between.

Attributes: the headers, `event_id` (see loader/bridge/identity.py) and `kafka_timestamp` (milliseconds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc

from loader.bridge.columns import Columns
from loader.bridge.engine.bucket import Share
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame, Headers, Undecodable
from loader.bridge.identity import suffix
from loader.bridge.sinks import wire
from loader.bridge.sinks.dispatch import DELIVERED, Collector, Dispatcher, Outcome, Request
from loader.bridge.sinks.sink import Delivery, identity_of
from loader.bridge.sinks.wire_columns import ColumnEncoder
from loader.bridge.sinks.wire_rows import RowEncoder
from loader.bridge.stages.rows import Rows

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
        self._timestamp = timestamp
        self._drop_long_headers = drop_long_headers
        self._most_messages = min(most_messages, MOST_MESSAGES)
        self._most_bytes = min(most_bytes, MOST_BYTES)
        self._columns = ColumnEncoder(self._end, timestamp, _OWN, drop_long_headers)
        self._rows = RowEncoder(self._end, timestamp, _OWN, drop_long_headers)
        self._collector = Collector()
        self._parts: list[bytes] = []
        self._bytes = 0
        self._stamp: tuple[int, bytes] = (0, b"")
        self._headers: tuple[Headers | None, bytes | None] = (None, None)
        """Headers that many frames share (a stage set them), and their attributes."""
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
            some = frames[start : start + self._most_messages - self._collector.count]
            if isinstance(some, Columns) and not self._ordering:
                taken = self._take_columns(some, share, each)
            elif isinstance(some, Rows) and not self._ordering:
                taken = self._take_rows(some, share, each)
            else:
                taken = self._take(some, share, each)
            start += taken
            if self._collector.count >= self._most_messages:
                self.flush()

    def _take_columns(self, columns: Columns, share: Share, each: float) -> int:
        """As `_take`, without frames unless there is something special about one of them."""
        found = self._columns.parts(columns)
        if found is None:
            return self._take(list(columns), share, each)
        parts, most = found
        if self._bytes + most > self._most_bytes:
            return self._take(list(columns), share, each)
        self._collector.add(columns, share, each * len(columns))
        self._parts += parts
        self._bytes += most
        return len(columns)

    def _take_rows(self, rows: Rows, share: Share, each: float) -> int:
        """As `_take_columns`; what is beyond the request's bytes waits for the next one."""
        found = self._rows.parts(rows, self._most_bytes - len(self._topic) - self._bytes)
        if found is None:
            return self._take(list(rows), share, each)
        parts, taken, total = found
        if taken:
            self._collector.add(rows[:taken], share, each * taken)
            self._parts += parts
            self._bytes += total
        elif not self._parts:
            return self._take(list(rows[:1]), share, each)  # longer than a request is to be: it goes alone
        if taken < len(rows):
            self.flush()
        return taken

    def _take(self, frames: Sequence[Frame], share: Share, each: float) -> int:
        """Collect frames until the request is full by bytes; returns how many were taken care of."""
        parts: list[bytes] = []
        refused: list[int] | None = None
        room = self._most_bytes - len(self._topic) - self._bytes
        total = taken = 0
        varints, end, plain = wire.VARINTS, self._end, not self._ordering
        stamp, stamped = self._stamp
        same, attributes = self._headers
        for frame in frames:
            headers = frame.headers
            if headers is not same:
                same, attributes = headers, self._few(headers)
            # The usual message in one go; what is longer, or has more to say, the long way.
            data = frame.value() if plain and attributes is not None else None
            if data is not None and attributes is not None and len(data) < 3_800 and frame.offset >= 0:
                identity = b"%b%d%b" % (frame.source.prefix, frame.offset, end)
                for number in frame.index:
                    identity += b"/%d" % number
                count, own = len(data), len(identity)
                if own < 115:
                    if frame.timestamp != stamp:
                        stamp = frame.timestamp
                        stamped = self._time(stamp)
                    size = varints[count]
                    message = b"\x12%b\x0a%b%b\x12%c\x0a\x08event_id\x12%c%b%b%b" % (
                        varints[15 + len(size) + count + own + len(attributes) + len(stamped)],
                        size,
                        data,
                        own + 12,
                        own,
                        identity,
                        attributes,
                        stamped,
                    )
                    total += len(message)
                    if total > room:
                        total -= len(message)
                        break
                    parts.append(message)
                    taken += 1
                    continue
            found = self._long(frame, share, each)
            if found is None:
                refused = refused if refused is not None else []
                refused.append(taken)
            elif total + len(found) > room and (taken or self._parts):
                break
            else:
                parts.append(found)
                total += len(found)
            taken += 1
        self._stamp = (stamp, stamped)
        self._headers = (same, attributes)
        kept: Sequence[Frame] = frames[:taken]
        if refused is not None:
            # By place: columns make other frames each time that they are gone through.
            gone = set(refused)
            kept = [frame for at, frame in enumerate(kept) if at not in gone]
        if kept:
            self._collector.add(kept, share, each * len(kept))
            self._parts += parts
            self._bytes += total
        if taken < len(frames):
            self.flush()
        return taken

    def _few(self, headers: Headers) -> bytes | None:
        """Attributes of headers that are few, short and the same object next time; None: the long way."""
        if not headers:
            return b""
        if headers.__class__ is not tuple:
            return None
        try:
            found = wire.header_attributes(headers, _OWN, self._drop_long_headers)
        except wire.Unsendable:
            return None
        return found if len(found) <= 100 else None

    def _long(self, frame: Frame, share: Share, each: float) -> bytes | None:
        """A message with its tag and length; None when it was refused."""
        try:
            message = self._encode(frame)
        except (wire.Unsendable, Undecodable) as error:
            self._delivery.refuse(share, frame, str(error), each)
            return None
        if len(message) + len(self._topic) + 8 > MOST_BYTES:
            reason = f"{len(message)} bytes with attributes, Pub/Sub takes {MOST_BYTES} a request"
            self._delivery.refuse(share, frame, reason, each)
            return None
        return b"\x12%b%b" % (wire.length(len(message)), message)

    def _time(self, timestamp: int) -> bytes:
        if timestamp <= 0 or not self._timestamp:
            return b""
        if 1_000_000_000_000 <= timestamp < 10_000_000_000_000:  # 2001 to 2286: always of one length
            return b"\x12\x20\x0a\x0fkafka_timestamp\x12\x0d%d" % timestamp
        return wire.attribute(b"kafka_timestamp", b"%d" % timestamp)

    def _encode(self, frame: Frame) -> bytes:
        """A PubsubMessage without its own tag and length. Raises Unsendable, Undecodable."""
        data = frame.value()
        identity = identity_of(frame, self._end)
        headers = frame.headers
        rest = wire.header_attributes(headers, _OWN, self._drop_long_headers) if headers else b""
        if data is None:
            data = b""
            rest += _TOMBSTONE  # Pub/Sub takes no message without data and attributes
        rest += self._time(frame.timestamp)
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
            body = b"".join((self._topic, *self._parts))
            self._parts, self._bytes = [], 0
            self._requests.submit(self._collector.take(body))

    def _fire(self, request: Request) -> None:
        if request.body is None:
            request.body = self._body(request.pieces)
        try:
            call = self._publish.future(request.body, timeout=TIMEOUT_SECONDS)
        except ValueError as error:  # the channel was closed
            self._requests.done(request, Outcome("retry", str(error)))
            return
        call.add_done_callback(partial(self._done, request))

    def _body(self, pieces: Sequence[Sequence[Frame]]) -> bytes:
        parts = [self._topic]
        for frames in pieces:
            found = self._columns.parts(frames) if isinstance(frames, Columns) and not self._ordering else None
            if found is not None:
                parts += found[0]
                continue
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
