"""One StreamingPull: opened, read, and opened again for ever, with its share of the flow control."""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from loader.errors import LoaderError
from loader.message.message import Message
from loader.pull import lease
from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault
from loader.pull.receive import messages

log = logging.getLogger(__name__)

SILENCE_SECONDS = 60.0
"""A stream that brought no message for so long is closed and opened again on a new connection, always: streams have
gone quiet for hours without an error (googleapis/python-pubsub #74). Only messages count. A heartbeat of the server
shows that the connection lives, not that messages are still assigned to it. Reopening costs some ms of CPU."""

HEARTBEAT_SECONDS = 30.0
"""The service wants to hear from the client now and then; an empty request will do."""

DRAIN_SECONDS = 1.0
"""How long the end of a half-closed stream is awaited. What is on the wire when a stream is cancelled is lost to
everybody until its lease runs out, so streams are half-closed and read to their end first."""

PROVEN_SECONDS = 10.0
"""A stream that lived so long, or brought a message, was accepted by the service."""

_MAX_BACKOFF_SECONDS = 30.0

_ALERTS: dict[grpc.StatusCode, str] = {
    grpc.StatusCode.NOT_FOUND: "it does not exist: create it, or correct LOADER_SUBSCRIPTION",
    grpc.StatusCode.PERMISSION_DENIED: "grant roles/pubsub.subscriber on it to this worker's service account",
    grpc.StatusCode.UNAUTHENTICATED: "the credentials were not accepted: renew them",
    grpc.StatusCode.FAILED_PRECONDITION: "it cannot be pulled: is it a push, BigQuery or detached subscription?",
    grpc.StatusCode.INVALID_ARGUMENT: "the service refused the request: check LOADER_SUBSCRIPTION and the flow control",
}
"""Faults that do not pass by themselves, and what to do about each."""


@dataclass(frozen=True)
class Terms:
    """What one stream asks for: its share of the limits, and how it deals with silence."""

    subscription: str
    client_id: str
    max_outstanding_messages: int
    max_outstanding_bytes: int
    silence_seconds: float = SILENCE_SECONDS


class Stream:
    """A thread that reads one StreamingPull. `deliver` gets the messages of each response after they are leased.

    `connect` opens a channel of the stream's own: a new one after a silence, so that a dead connection is left behind.
    """

    def __init__(
        self,
        number: int,
        terms: Terms,
        connect: Callable[[], grpc.Channel],
        leases: lease.Leases,
        deliver: Callable[[list[Message], int], None],
        room: Callable[[], bool],
    ) -> None:
        self.number = number
        self._terms = terms
        self._connect = connect
        self._leases = leases
        self._deliver = deliver
        self._room = room
        self._thread = threading.Thread(target=self._run, name=f"pull-{number}", daemon=True)
        self._stopping = threading.Event()
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._call: Any = None
        self._channel: grpc.Channel | None = None
        self._stub: Stub | None = None
        self._opened = 0.0
        self._stirred = 0.0
        self._ending: float | None = None
        """Time by which the call is to have ended, when we ended it ourselves."""
        self._renew_connection = False
        self._reduced = False
        self._generation = 0
        self._failures = 0
        self._proven = False
        self.alert: str | None = None
        """A fault that needs somebody; None when there is none."""
        self.fatal: Exception | None = None
        """What ended the thread, when it was not `stop`: the service refused the first call, or a fault of ours."""
        self.last_ok: float | None = None
        """time.monotonic() at which the stream was last known to work."""
        self.last_message: float | None = None
        """Unix time of the newest response with messages."""
        self.reconnects = 0
        self.exactly_once = False
        self.ordered = False

    @property
    def healthy(self) -> bool:
        """It works, or broke so recently that the next attempts are expected to mend it."""
        last = self.last_ok
        return self.alert is None and last is not None and (self._failures == 0 or time.monotonic() - last < 30.0)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Half-close: the server ends the stream, what is on its way still arrives. Does not wait."""
        self._stopping.set()
        self._end()

    def join(self, deadline: float) -> None:
        """Wait for the end until `deadline` (time.monotonic), then cancel; after `stop`."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        call = self._call
        if call is not None and self._thread.is_alive():
            call.cancel()
        self._thread.join(2.0)

    def close(self) -> None:
        """Close the channel; after `join`."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def check(self, now: float) -> None:
        """The watchdog's look, about once a second: silence, streams that do not end, shares that are too small."""
        call = self._call
        if call is None:
            return
        if self._ending is not None:
            if now >= self._ending:
                call.cancel()
            return
        if now - self._opened >= (PROVEN_SECONDS if self._failures == 0 else 2 * PROVEN_SECONDS):
            self._works(now)
        if now - self._stirred >= self._terms.silence_seconds:
            count, size = self._leases.of(self.number)
            if count * 2 >= self._terms.max_outstanding_messages or size * 2 >= self._terms.max_outstanding_bytes:
                self._stirred = now  # the server may be waiting for us: flow control, not silence
                return
            self._renew_connection = True
            self._end()
        elif self._reduced and self._leases.of(self.number, before=self._generation)[0] == 0:
            # It was opened while messages of its predecessor were held, with a smaller share: now it can have all.
            self._end()

    def _end(self) -> None:
        if self._ending is None:
            self._ending = time.monotonic() + DRAIN_SECONDS
        self._requests.put(None)

    def _works(self, now: float) -> None:
        self._proven = True
        self.last_ok = now
        if self.alert is not None or self._failures >= 3:
            log.info("Stream %d of %s works again", self.number, self._terms.subscription)
        self.alert = None
        self._failures = 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            share = self._share()
            if share is None:
                self._stopping.wait(0.2)
                continue
            try:
                self._read(*share)
                if self._ending is None and time.monotonic() - self._opened < 1.0:
                    self._failures += 1  # the server ended it well, but at once: no reason to hurry
            except grpc.RpcError as error:
                self._failed(*fault(error))
            except Exception as error:  # no credentials, or a fault of ours: the main loop is to end with it
                self.fatal = error
            finally:
                self._requests.put(None)  # ends gRPC's thread that reads our requests
                self._call = None
            if self.fatal is not None:
                self._deliver([], 0)  # wakes the main loop
                return
            self._pause_before_reconnect()

    def _share(self) -> tuple[int, int] | None:
        """Messages and bytes to ask for: the server counts anew with each stream, we go on holding what we hold."""
        count, size = self._leases.of(self.number)
        most, most_bytes = self._terms.max_outstanding_messages, self._terms.max_outstanding_bytes
        room, room_bytes = most - count, most_bytes - size
        if room < max(1, most // 10) or room_bytes < max(1, most_bytes // 10):
            return None
        self._reduced = room * 2 < most or room_bytes * 2 < most_bytes
        return room, room_bytes

    def _read(self, max_messages: int, max_bytes: int) -> None:
        if self._renew_connection or self._stub is None:
            self.close()
            self._renew_connection = False
            self._channel = self._connect()
            self._stub = Stub(self._channel)
        requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._requests = requests
        self._ending = None
        if self._stopping.is_set():
            return
        self._generation += 1
        self._opened = self._stirred = time.monotonic()
        first = pb.StreamingPullRequest(
            subscription=self._terms.subscription,
            stream_ack_deadline_seconds=self._leases.seconds,
            client_id=self._terms.client_id,
            max_outstanding_messages=max_messages,
            max_outstanding_bytes=max_bytes,
        )
        call = self._call = self._stub.streaming_pull(_requests(first, requests))
        if self._stopping.is_set():  # stop() came before it could see this call's queue
            requests.put(None)
        for response in call:
            self._received(response)

    def _received(self, response: Any) -> None:
        if response.HasField("subscription_properties"):
            self.exactly_once = response.subscription_properties.exactly_once_delivery_enabled
            self.ordered = response.subscription_properties.message_ordering_enabled
        taken, size = messages(response)
        if not taken:
            return
        now = time.monotonic()
        self._leases.add(self.number, self._generation, taken, size)
        self._stirred = now
        self.last_message = time.time()
        self._works(now)
        self._deliver(taken, size)
        while not self._room() and self._ending is None:
            # Only a server without flow control gets here: then TCP's holds it up.
            self._stopping.wait(0.05)

    def _failed(self, code: grpc.StatusCode, details: str) -> None:
        cure = _ALERTS.get(code)
        if self._ending is not None and cure is None:
            return  # we ended it; how it broke does not matter, and nothing is logged at a wanted end
        self._failures += 1
        if cure is None:
            level = logging.WARNING if self._failures == 3 else logging.DEBUG
            log.log(
                level, "Stream %d of %s broke (%s: %s), attempt %d to open it again follows",
                self.number, self._terms.subscription, code.name, details, self._failures,
            )  # fmt: skip
            return
        text = f"Cannot pull {self._terms.subscription} ({code.name}: {details}): {cure}"
        if not self._proven and code is not grpc.StatusCode.UNAUTHENTICATED:
            self.fatal = LoaderError(text)
            return
        if self.alert is None:
            log.error("%s. Trying again until then", text)
        self.alert = text

    def _pause_before_reconnect(self) -> None:
        if self._stopping.is_set():
            return
        self.reconnects += 1
        if self._ending is not None:
            return
        # Jitter from the first try on: the service closes the streams of a whole fleet at once.
        ceiling = min(_MAX_BACKOFF_SECONDS, 0.1 * 2 ** min(self._failures, 10))
        self._stopping.wait(random.uniform(ceiling / 2, ceiling))


def _requests(first: Any, more: queue.SimpleQueue[None]) -> Iterator[Any]:
    """The client's side of a stream: `first`, then heartbeats, until something is put into `more`."""
    yield first
    while True:
        try:
            more.get(timeout=HEARTBEAT_SECONDS)
        except queue.Empty:
            yield pb.StreamingPullRequest()
        else:
            return
