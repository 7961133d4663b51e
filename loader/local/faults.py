"""Faults on demand: what the in-memory Pub/Sub server does wrong when a test tells it to.

In process a test calls the methods of `Faults`. On a server in another process it calls the same methods of
`FaultsClient`, which sends them as JSON over one gRPC method of the same port.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

import grpc
import orjson

SERVICE = "loader.local.Faults"
METHOD = f"/{SERVICE}/Call"


class Faults(Protocol):
    """The faults that there are. Each stays until it is used up or `clear()`."""

    def cut_streams(self, code: str = "UNAVAILABLE", detail: str = "cut by a fault") -> None:
        """Ends every open stream now with a gRPC status code."""

    def refuse(self, method: str, times: int = 1, code: str = "UNAVAILABLE") -> None:
        """Answers the next `times` calls of `method` ('Publish', 'StreamingPull' …, '*' for any) with `code`."""

    def duplicate(self, messages: int) -> None:
        """Delivers each of the next `messages` deliveries twice, with two ack ids."""

    def delay(self, seconds: float) -> None:
        """Holds every delivery on a stream back that long after the lease began; 0 ends it."""

    def silence(self, on: bool = True) -> None:
        """Streams are accepted and their acks taken, but nothing is sent."""

    def drop_acks(self, requests: int = -1) -> None:
        """Ignores the acks of the next `requests` requests though they are answered as good; -1: until cleared."""

    def expire_leases(self) -> None:
        """Ends every lease now, as if its deadline had passed: what is unacked is delivered again."""

    def clear(self) -> None:
        """Ends every fault."""

    def stats(self) -> dict[str, Any]:
        """Counts: `streams` open, `bytes` kept; of each subscription backlog, leased, retained, delivered, acked."""


class FaultState:
    """`Faults` inside a server. `wake` is called after a change so that waiting streams see it."""

    def __init__(
        self,
        wake: Callable[[], None],
        stats: Callable[[], dict[str, Any]],
        expire: Callable[[], None] = lambda: None,
    ) -> None:
        self._wake = wake
        self._stats = stats
        self._expire = expire
        self._lock = threading.Lock()
        self._refusals: dict[str, list[Any]] = {}
        self._drops = 0
        self.duplicates = 0
        self.seconds = 0.0
        self.silent = False
        self.cuts = 0
        self.cut_status = ("UNAVAILABLE", "")

    def cut_streams(self, code: str = "UNAVAILABLE", detail: str = "cut by a fault") -> None:
        """See Faults."""
        with self._lock:
            self.cut_status = (grpc.StatusCode[code].name, detail)
            self.cuts += 1
        self._wake()

    def refuse(self, method: str, times: int = 1, code: str = "UNAVAILABLE") -> None:
        """See Faults."""
        with self._lock:
            self._refusals[method] = [times, grpc.StatusCode[code].name]

    def duplicate(self, messages: int) -> None:
        """See Faults."""
        with self._lock:
            self.duplicates = messages

    def delay(self, seconds: float) -> None:
        """See Faults."""
        with self._lock:
            self.seconds = seconds

    def silence(self, on: bool = True) -> None:
        """See Faults."""
        with self._lock:
            self.silent = on
        self._wake()

    def drop_acks(self, requests: int = -1) -> None:
        """See Faults."""
        with self._lock:
            self._drops = requests

    def expire_leases(self) -> None:
        """See Faults."""
        self._expire()

    def clear(self) -> None:
        """See Faults."""
        with self._lock:
            self._refusals.clear()
            self._drops = self.duplicates = 0
            self.seconds = 0.0
            self.silent = False
        self._wake()

    def stats(self) -> dict[str, Any]:
        """See Faults."""
        return self._stats()

    def refusal(self, method: str) -> str | None:
        """The code to answer this call with, counted off; None when it is to be served."""
        if not self._refusals:
            return None
        with self._lock:
            for key in (method, "*"):
                entry = self._refusals.get(key)
                if entry:
                    entry[0] -= 1
                    if not entry[0]:
                        del self._refusals[key]
                    return str(entry[1])
        return None

    def drops_acks(self) -> bool:
        """Whether this request's acks are to be ignored, counted off."""
        if not self._drops:
            return False
        with self._lock:
            if self._drops > 0:
                self._drops -= 1
            return True

    def take_duplicates(self, messages: int) -> int:
        """How many of this delivery's messages are to be sent twice, counted off."""
        if not self.duplicates:
            return 0
        with self._lock:
            taken = min(messages, self.duplicates)
            self.duplicates -= taken
            return taken

    def call(self, request: bytes) -> bytes:
        """Serves one request of a FaultsClient."""
        name, arguments = orjson.loads(request)
        if name not in CALLS:
            raise ValueError(f"no fault named {name!r}; there are {', '.join(sorted(CALLS))}")
        return orjson.dumps(getattr(self, name)(*arguments))


CALLS = frozenset(
    {"cut_streams", "refuse", "duplicate", "delay", "silence", "drop_acks", "expire_leases", "clear", "stats"}
)


class FaultsClient:
    """`Faults` of a server in another process. A context manager; calls raise grpc.RpcError."""

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=[("grpc.enable_http_proxy", 0)])
        self._method = self._channel.unary_unary(METHOD)

    def _call(self, name: str, *arguments: Any) -> Any:
        answer: bytes = self._method(orjson.dumps([name, arguments]), timeout=10, wait_for_ready=True)
        return orjson.loads(answer)

    def cut_streams(self, code: str = "UNAVAILABLE", detail: str = "cut by a fault") -> None:
        """See Faults."""
        self._call("cut_streams", code, detail)

    def refuse(self, method: str, times: int = 1, code: str = "UNAVAILABLE") -> None:
        """See Faults."""
        self._call("refuse", method, times, code)

    def duplicate(self, messages: int) -> None:
        """See Faults."""
        self._call("duplicate", messages)

    def delay(self, seconds: float) -> None:
        """See Faults."""
        self._call("delay", seconds)

    def silence(self, on: bool = True) -> None:
        """See Faults."""
        self._call("silence", on)

    def drop_acks(self, requests: int = -1) -> None:
        """See Faults."""
        self._call("drop_acks", requests)

    def expire_leases(self) -> None:
        """See Faults."""
        self._call("expire_leases")

    def clear(self) -> None:
        """See Faults."""
        self._call("clear")

    def stats(self) -> dict[str, Any]:
        """See Faults."""
        answer: dict[str, Any] = self._call("stats")
        return answer

    def close(self) -> None:
        """Closes the connection; faults that are on stay on."""
        self._channel.close()

    def __enter__(self) -> FaultsClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
