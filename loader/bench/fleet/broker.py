"""The Pub/Sub server of a run as the controller sees it: how much is unacked, and the faults that it can be told.

Only the in-memory server counts and misbehaves on demand. With the official emulator the backlog is what the database
does not account for yet, and there are no cut streams and no doubled deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import grpc

from loader.local.faults import FaultsClient
from loader.local.pubsub_process import PubsubProcess


class Broker(Protocol):
    """What the controller needs of a Pub/Sub server."""

    endpoint: str
    version: str
    breaks: bool
    """Whether it can be told to cut streams and to deliver twice."""

    def unacked(self, subscription: str) -> int | None:
        """Messages that wait or are leased; None when it cannot tell."""

    def cut_streams(self) -> None:
        """Ends all open streams."""

    def duplicate(self, messages: int) -> None:
        """Delivers each of the next so many messages twice."""

    def silence(self, on: bool) -> None:
        """Holds all deliveries back, or lets them go."""


class MemoryBroker:
    """The in-memory server, in a process of its own."""

    breaks = True

    def __init__(self, endpoint: str, faults: FaultsClient) -> None:
        self.endpoint, self.version, self._faults = endpoint, "in-memory", faults

    def unacked(self, subscription: str) -> int | None:
        """See Broker."""
        counts = self._faults.stats()["subscriptions"][subscription]
        return int(counts["backlog"]) + int(counts["leased"])

    def cut_streams(self) -> None:
        """See Broker."""
        self._faults.cut_streams()

    def duplicate(self, messages: int) -> None:
        """See Broker."""
        self._faults.duplicate(messages)

    def silence(self, on: bool) -> None:
        """See Broker."""
        self._faults.silence(on)


class PlainBroker:
    """A server that neither counts nor misbehaves."""

    breaks = False

    def __init__(self, endpoint: str) -> None:
        self.endpoint, self.version = endpoint, "emulator"

    def unacked(self, subscription: str) -> int | None:
        """See Broker."""
        return None

    def cut_streams(self) -> None:
        """Nothing: it cannot be told."""

    def duplicate(self, messages: int) -> None:
        """Nothing: it cannot be told."""

    def silence(self, on: bool) -> None:
        """Nothing: it cannot be told."""


@contextmanager
def open_broker(endpoint: str | None, note: Callable[[str], None]) -> Iterator[Broker]:
    """The server at `endpoint`, which somebody else runs; else an in-memory one."""
    if endpoint is None:
        with PubsubProcess() as server:
            yield MemoryBroker(server.endpoint, server.faults)
        return
    with FaultsClient(endpoint) as faults:
        try:
            faults.stats()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            note(f"the Pub/Sub server at {endpoint} has no faults to offer: no cut streams, no doubled deliveries")
            yield PlainBroker(endpoint)
            return
        yield MemoryBroker(endpoint, faults)
