"""The worker's view of a subscription: take messages, ack or nack them, stop without losing any."""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import grpc

from loader.errors import LoaderError
from loader.message.message import Message
from loader.pull.ack import Acknowledger
from loader.pull.channel import Stub, open_channel
from loader.pull.keeper import TICK_SECONDS, Keeper
from loader.pull.lease import SECONDS, Leases
from loader.pull.stream import SILENCE_SECONDS, Stream, Terms

log = logging.getLogger(__name__)

_TAKE = 1_000
"""`take` joins small responses up to about so many messages."""
_FULL = 0.95
"""Share of a limit at which flow control counts as reached: the next message may be too large for what is left."""


@dataclass(frozen=True)
class State:
    """A snapshot for `/readyz`, metrics and logs. Counters count since start."""

    healthy: bool
    """At least one stream works, and none needs somebody."""
    alert: str | None
    """A fault that does not pass by itself, with what to do; None when there is none."""
    last_message: float | None
    """Unix time of the newest response with messages."""
    received: int
    received_bytes: int
    unread: int
    """Messages pulled and not taken yet."""
    held: int
    """Messages pulled, neither acked nor nacked."""
    held_bytes: int
    acked: int
    nacked: int
    ack_failures: int
    expired: int
    """Messages whose lease ran out while held."""
    renewals: int
    """Leases extended, counted by message."""
    reconnects: int
    exactly_once: bool


class Puller:
    """Pulls one subscription by `streams` streams that share the outstanding limits (messages, bytes of bodies).

    `endpoint` is as in `channel.open_channel`, or a function that opens a channel. Everything that has a thread or a
    connection is made in `start`, so an object made before a fork works after it.
    `lease_seconds` is the length of a lease, renewed until the message is acked or nacked.
    `tick_seconds` is how often leases and streams are looked after, `clock` what leases are counted by.
    `take`, `ack`, `nack` and the rest are for one thread, the main loop's; each `take` is its sign of life (see
    `tick`): after `hold_seconds` without one, leases are no longer extended and others get the messages."""

    def __init__(
        self,
        endpoint: str | Callable[[], grpc.Channel] | None,
        subscription: str,
        *,
        streams: int = 1,
        max_outstanding_messages: int = 60_000,
        max_outstanding_bytes: int = 24 << 20,
        client_id: str | None = None,
        lease_seconds: int = SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        hold_seconds: float = 600.0,
        tick_seconds: float = TICK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if streams < 1 or max_outstanding_messages < streams or max_outstanding_bytes < streams:
            raise ValueError("streams must be at least 1, and the limits at least 1 for each stream")
        self.subscription = subscription
        self._connect = endpoint if callable(endpoint) else partial(open_channel, endpoint)
        self._limits = (max_outstanding_messages, max_outstanding_bytes)
        self._count = streams
        self._client_id = client_id or uuid.uuid4().hex
        self._silence_seconds = silence_seconds
        self._hold_seconds = hold_seconds
        self._tick_seconds = tick_seconds
        self._leases = Leases(clock, lease_seconds)
        self._unread: queue.SimpleQueue[list[Message]] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._received = self._received_bytes = self._taken = 0
        self._channel: grpc.Channel | None = None
        self._acks: Acknowledger | None = None
        self._keeper: Keeper | None = None
        self._streams: list[Stream] = []
        self._paused = False

    def start(self) -> None:
        """Open the channel and the streams; returns at once. Raises ConfigurationError without credentials.

        A subscription that is missing or forbidden shows at the first calls of `take`."""
        self._channel = self._connect()
        stub = Stub(self._channel)
        self._acks = Acknowledger(stub, self.subscription)
        self._acks.start()
        most, most_bytes = self._limits
        terms = Terms(
            self.subscription, self._client_id, most // self._count, most_bytes // self._count, self._silence_seconds
        )
        self._streams = [
            Stream(number, terms, self._connect, self._leases, self._deliver, self._room)
            for number in range(self._count)
        ]
        self._keeper = Keeper(
            stub, self.subscription, self._leases, self._streams, self._hold_seconds, self._tick_seconds
        )
        for stream in self._streams:
            stream.start()
        self._keeper.start()

    def _deliver(self, messages: list[Message], size: int) -> None:
        with self._counting:
            self._received += len(messages)
            self._received_bytes += size
        self._unread.put(messages)  # an empty list only wakes `take`

    def _room(self) -> bool:
        """False when more is held than a server with flow control would have sent: emulators have little of it."""
        most, most_bytes = self._limits
        return self._leases.held <= most and self._leases.held_bytes <= most_bytes * 1.25

    @property
    def exhausted(self) -> bool:
        """Nothing more can come: all that was pulled is taken, and so much is held that the service sends no more."""
        most, most_bytes = self._limits
        full = self._leases.held >= most * _FULL or self._leases.held_bytes >= most_bytes * _FULL
        return full and self._received == self._taken

    def take(self, timeout: float = 0.2) -> list[Message]:
        """Messages in the order of arrival, about 1,000 or one response; empty when none came within `timeout` seconds.

        Raises LoaderError when the service refused the subscription right at the start, or a thread failed."""
        self.tick()
        taken: list[Message] = []
        try:
            taken = self._unread.get(timeout=timeout)
            while len(taken) < _TAKE:
                taken += self._unread.get_nowait()
        except queue.Empty:
            pass
        self._raise_fatal()
        self._taken += len(taken)
        return taken

    def _raise_fatal(self) -> None:
        for part in (self._keeper, self._acks, *self._streams):
            fatal = part.fatal if part is not None else None
            if isinstance(fatal, LoaderError):
                raise fatal
            if fatal is not None:
                raise LoaderError(f"A thread that pulls {self.subscription} failed: {fatal!r}") from fatal

    def tick(self) -> None:
        """The main loop lives. Call it in loops that go long without `take`, such as retries in an outage."""
        if self._keeper is not None:
            self._keeper.tick()

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages whose rows are committed; returns at once. Those no longer held are passed over."""
        if self._acks is None:
            raise RuntimeError("ack before start")
        self._acks.ack(self._leases.release(messages))

    def nack(self, messages: Iterable[Message]) -> None:
        """Give messages back for others to take at once; returns at once."""
        if self._acks is None:
            raise RuntimeError("nack before start")
        self._acks.nack(self._leases.release(messages))

    def pause(self, seconds: float = 1.0) -> None:
        """Stop pulling, for good: streams end within about `seconds`. What is held stays leased and can be acked."""
        self._paused = True
        for stream in self._streams:
            stream.stop()
        deadline = time.monotonic() + seconds
        for stream in self._streams:
            stream.join(deadline)

    def nack_unread(self) -> int:
        """Give back what nobody has taken yet; returns how many. After `pause`."""
        count = 0
        while True:
            try:
                unread = self._unread.get_nowait()
            except queue.Empty:
                return count
            count += len(unread)
            self._taken += len(unread)
            self.nack(unread)

    def flush(self, seconds: float) -> bool:
        """Wait until acks and nacks are sent, at most `seconds`; False when some are not."""
        return self._acks is None or self._acks.flush(time.monotonic() + seconds)

    def close(self, seconds: float = 5.0) -> bool:
        """Stop pulling, nack everything still held, send all acks and nacks, and close; takes at most about `seconds`.

        False when some could not be sent in time: their messages come again when the leases run out."""
        deadline = time.monotonic() + seconds
        if not self._paused:
            self.pause(min(1.0, seconds / 3))
        done = True
        if self._keeper is not None:
            self._keeper.stop()
        if self._acks is not None:
            self.nack_unread()
            self._acks.nack(self._leases.release_all())
            done = self._acks.close(deadline)
        if self._keeper is not None:
            self._keeper.join(max(0.1, deadline - time.monotonic()))
        for stream in self._streams:
            stream.close()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        return done

    @property
    def state(self) -> State:
        """A snapshot; cheap enough for every scrape and every bundle."""
        streams = self._streams
        alert = next((stream.alert for stream in streams if stream.alert is not None), None)
        acks = self._acks
        return State(
            healthy=alert is None and any(stream.healthy for stream in streams),
            alert=alert,
            last_message=max((stream.last_message for stream in streams if stream.last_message), default=None),
            received=self._received,
            received_bytes=self._received_bytes,
            unread=self._received - self._taken,
            held=self._leases.held,
            held_bytes=self._leases.held_bytes,
            acked=acks.acked if acks else 0,
            nacked=acks.nacked if acks else 0,
            ack_failures=acks.failed if acks else 0,
            expired=self._leases.expired,
            renewals=self._leases.renewals,
            reconnects=sum(stream.reconnects for stream in streams),
            exactly_once=any(stream.exactly_once for stream in streams),
        )
