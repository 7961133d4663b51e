"""Publishing below the convenience client: up to 1,000 messages or 9 MB in one request, some requests in flight."""

from __future__ import annotations

import gzip
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import grpc

from loader.errors import LoaderError
from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault

MAX_MESSAGES = 1_000
MAX_BYTES = 9_000_000
"""Of a request; the service takes 10 MB. A single message may be greater than this, up to MAX_MESSAGE_BYTES."""
MAX_MESSAGE_BYTES = 10_000_000 - 1_000
MAX_LINE_BYTES = 256 * 1024 * 1024
"""Of a line that is to be compressed; one that is sent as it is ends at MAX_MESSAGE_BYTES."""
IN_FLIGHT = 4
CHUNK = 1 << 20
"""Bytes read at once: enough for full requests of small messages. A pipe gives what it has."""
REQUEST_SECONDS = 30.0
RETRY_SECONDS = 60.0
REQUESTS_A_SECOND = 20
"""With a rate: small requests at even distances, not one great request a second."""
_RETRIED = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "RESOURCE_EXHAUSTED", "CANCELLED"})


class Readable(Protocol):
    """A binary stream that gives what is there without waiting for a full buffer."""

    def read1(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


@dataclass
class Receipt:
    """What was published."""

    topic: str
    messages: int = 0
    bytes: int = 0
    """Of the bodies as sent: compressed ones compressed."""
    requests: int = 0
    skipped: int = 0
    """Empty lines: Pub/Sub takes no message without content."""
    seconds: float = 0.0
    first_message_id: str = ""
    last_message_id: str = ""


def read_lines(stream: Readable, limit: int = MAX_MESSAGE_BYTES) -> Iterator[list[bytes]]:
    """Lines without their line feed, otherwise byte for byte, in lists: each holds what was there to read.

    So that lines of a pipe that trickles are not held back until a request is full. Raises LoaderError when a line is
    longer than `limit`.
    """
    number = 0
    rest: list[bytes] = []
    size = 0
    while chunk := stream.read1(CHUNK):
        head, *lines = chunk.split(b"\n")
        rest.append(head)
        size += len(head)
        if size > limit:
            raise LoaderError(f"Line {number + 1} is longer than {limit:,} bytes: Pub/Sub takes 10 MB a message.")
        if lines:
            last = lines.pop()
            found = [b"".join(rest), *lines]
            number += len(found)
            rest, size = [last], len(last)
            yield found
    if size:
        yield [b"".join(rest)]


class Publisher:
    """Publishes bodies to one topic. Not thread-safe. Retries what may pass for up to a minute: a message whose answer
    was lost is then published twice, under two message ids."""

    def __init__(
        self,
        stub: Stub,
        topic: str,
        *,
        attributes: Mapping[str, str] | None = None,
        compress: bool = False,
        rate: float | None = None,
        progress: Callable[[Receipt], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.receipt = Receipt(topic)
        self._publish = stub.unary("publish")
        self._attributes = dict(attributes or {})
        if compress:
            self._attributes["content-encoding"] = "gzip"
        self._compress = compress
        self._rate = rate
        self._progress = progress
        self._clock = clock
        self._sleep = sleep
        # Tags and lengths of a message and of its body, id and time left out: at most 14 bytes.
        self._overhead = 14 + sum(len(k.encode()) + len(v.encode()) + 14 for k, v in self._attributes.items())
        self._most = MAX_MESSAGES if rate is None else max(1, min(MAX_MESSAGES, int(rate / REQUESTS_A_SECOND)))
        self._sent = 0
        self._started = clock()
        self._pending: deque[tuple[Any, Any]] = deque()

    def publish(self, bodies: Iterable[bytes]) -> None:
        """Publishes bodies in order of their requests; returns before the last requests are answered (see `flush`).

        Raises LoaderError when a message is too great or the service refuses.
        """
        messages: list[Any] = []
        size = 0
        for body in bodies:
            if not body:
                self.receipt.skipped += 1
                continue
            # Without a time in its header the same body has the same bytes each time.
            data = gzip.compress(body, 6, mtime=0) if self._compress else body
            if len(data) + self._overhead > MAX_MESSAGE_BYTES:
                number = self._sent + len(messages) + self.receipt.skipped + 1
                raise LoaderError(
                    f"Message {number} has {len(data):,} bytes: Pub/Sub takes 10 MB, attributes included."
                )
            if messages and (len(messages) >= self._most or size + len(data) + self._overhead > MAX_BYTES):
                self._send(messages)
                messages, size = [], 0
            messages.append(pb.PubsubMessage(data=data, attributes=self._attributes))
            size += len(data) + self._overhead
            self.receipt.bytes += len(data)
        if messages:
            self._send(messages)

    def flush(self) -> Receipt:
        """Waits until everything is answered; returns the receipt. Raises LoaderError when the service refuses."""
        while self._pending:
            self._settle()
        self.receipt.seconds = self._clock() - self._started
        return self.receipt

    def _send(self, messages: list[Any]) -> None:
        if self._rate is not None:
            wait = self._started + self._sent / self._rate - self._clock()
            if wait > 0:
                self._sleep(wait)
        while len(self._pending) >= IN_FLIGHT:
            self._settle()
        request = pb.PublishRequest(topic=self.receipt.topic, messages=messages)
        self._pending.append((request, self._publish.future(request, timeout=REQUEST_SECONDS)))
        self._sent += len(messages)

    def _settle(self) -> None:
        request, future = self._pending.popleft()
        try:
            response = future.result()
        except grpc.RpcError as error:
            response = self._again(request, error)
        ids = response.message_ids
        receipt = self.receipt
        receipt.messages += len(ids)
        receipt.requests += 1
        receipt.first_message_id = receipt.first_message_id or ids[0]
        receipt.last_message_id = ids[-1]
        receipt.seconds = self._clock() - self._started
        self._progress(receipt)

    def _again(self, request: Any, error: grpc.RpcError) -> Any:
        deadline = self._clock() + RETRY_SECONDS
        wait = 0.1
        while True:
            code, detail = fault(error)
            if code.name not in _RETRIED or self._clock() + wait > deadline:
                raise LoaderError(
                    f"Publishing to {self.receipt.topic} failed: {code.name} {detail.strip()[:300]}. "
                    f"{self.receipt.messages:,} messages were published before."
                ) from error
            self._sleep(wait)
            wait = min(wait * 2, 5.0)
            try:
                return self._publish(request, timeout=REQUEST_SECONDS)
            except grpc.RpcError as again:
                error = again


def publish_stream(publisher: Publisher, stream: Readable, limit: int = MAX_MESSAGE_BYTES) -> Receipt:
    """Publishes each line of a stream as a message; a request holds no more than could be read at once."""
    for lines in read_lines(stream, limit):
        publisher.publish(lines)
    return publisher.flush()
