"""The thread that extends leases and watches over the streams."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import grpc

from loader.pull import protocol as pb
from loader.pull.ack import MAX_IDS, chunks, refusals
from loader.pull.channel import Stub, fault
from loader.pull.lease import Batch, Leases
from loader.pull.stream import Stream

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0


class Keeper:
    """Once a tick: renew the leases that are due, let each stream look after itself.

    A main loop that has not called `tick` for `hold_seconds` hangs: its leases are left to run out."""

    def __init__(
        self,
        stub: Stub,
        subscription: str,
        leases: Leases,
        streams: Sequence[Stream],
        hold_seconds: float,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._stub = stub
        self._subscription = subscription
        self._leases = leases
        self._streams = streams
        self._hold_seconds = hold_seconds
        self._tick_seconds = tick_seconds
        self._ticked = time.monotonic()
        self._hanging = False
        self._failing = 0
        self._not_before = 0.0
        self._stopping = threading.Event()
        self.fatal: Exception | None = None
        """What ended the thread, when it was not `stop`: without it every lease would run out."""
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tick(self) -> None:
        """The main loop lives."""
        self._ticked = time.monotonic()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._tick_seconds):
                now = time.monotonic()
                for stream in self._streams:
                    stream.check(now)
                if self._alive(now) and now >= self._not_before:
                    self.renew()
        except Exception as error:
            self.fatal = error

    def _alive(self, now: float) -> bool:
        hanging = now - self._ticked > self._hold_seconds
        if hanging and not self._hanging:
            log.error(
                "The main loop has not moved for %d s: %d messages are no longer held for it",
                self._hold_seconds, self._leases.held,
            )  # fmt: skip
        self._hanging = hanging
        return not hanging

    def renew(self) -> None:
        """Renew every lease that is due; a failure is tried again after a growing pause."""
        group: list[Batch] = []
        ack_ids: list[str] = []
        for batch, held in self._leases.due():
            if group and len(ack_ids) + len(held) > MAX_IDS:
                if not self._extend(group, ack_ids):
                    return
                group, ack_ids = [], []
            group.append(batch)
            ack_ids += held
        if group:
            self._extend(group, ack_ids)

    def _extend(self, group: list[Batch], ack_ids: list[str]) -> bool:
        lost: set[str] = set()
        at = self._leases.now()
        for piece in chunks(ack_ids):
            request = pb.ModifyAckDeadlineRequest(
                subscription=self._subscription, ack_ids=piece, ack_deadline_seconds=self._leases.seconds
            )
            try:
                self._stub.modify_ack_deadline(request, timeout=10.0)
            except grpc.RpcError as error:
                if self._stopping.is_set():
                    return False  # the channel was closed under the call, at shutdown
                refused = refusals(error)
                permanent = {ack_id for ack_id, reason in refused.items() if reason.startswith("PERMANENT")}
                if len(permanent) == len(refused) and permanent:
                    lost |= permanent
                    continue
                self._fails(error)
                return False
            except ValueError:
                if self._stopping.is_set():
                    return False  # the same, a moment later
                raise
        if self._failing:
            log.info("Leases on %s are extended again", self._subscription)
        self._failing, self._not_before = 0, 0.0
        for batch in group:
            self._leases.renewed(batch, at, lost)
        return True

    def _fails(self, error: grpc.RpcError) -> None:
        code, details = fault(error)
        if self._failing == 0:
            log.warning("Leases on %s cannot be extended (%s: %s)", self._subscription, code.name, details)
        self._failing += 1
        self._not_before = time.monotonic() + min(10.0, 0.5 * 2 ** min(self._failing, 5))
