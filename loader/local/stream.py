"""Streaming pull on a Broker: one thread takes acks, the gRPC handler's thread sends messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from loader.local import protocol
from loader.local.broker import MAX_DELIVERY, Broker
from loader.local.lease import Consumer, Lease
from loader.local.refusal import Refusal, invalid, not_found


class Stream:
    """One StreamingPull call."""

    def __init__(self, broker: Broker, requests: Iterator[Any], context: grpc.ServicerContext) -> None:
        self._broker = broker
        self._requests = requests
        self._context = context
        self._ended = False
        self._refusal: Refusal | None = None
        self._confirmations: list[Any] = []
        self._over = threading.Event()
        first = next(requests, None)
        if first is None or not first.subscription:
            raise invalid("The first request of a stream names the subscription.")
        if not 10 <= first.stream_ack_deadline_seconds <= 600:
            raise invalid(
                f"stream_ack_deadline_seconds must be between 10 and 600, not {first.stream_ack_deadline_seconds}."
            )
        with broker.lock:
            self._subscription = broker.store.subscription(first.subscription)
            self._condition = broker.condition(self._subscription)
            self._cuts = broker.faults.cuts
            broker.streams += 1
        self._consumer = Consumer(
            max(0, first.max_outstanding_messages),
            max(0, first.max_outstanding_bytes),
            first.stream_ack_deadline_seconds * 1_000_000,
        )
        self._first = first

    def responses(self) -> Iterator[bytes]:
        """What the stream sends, encoded, until the client or a fault ends it. Raises Refusal."""
        broker = self._broker
        try:
            if not self._context.add_callback(self._end):
                return
            self._take_acks(self._first)
            reader = threading.Thread(target=self._read, name="stream-acks", daemon=True)
            reader.start()
            told = None
            while True:
                with broker.lock:
                    leases, confirmations = self._wait()
                    if not leases and not confirmations:
                        return
                for confirmation in confirmations:
                    yield confirmation.SerializeToString()
                if leases:
                    if broker.faults.seconds and self._over.wait(broker.faults.seconds):
                        return
                    encoded = protocol.encode_received(leases, self._subscription.counts)
                    properties = (self._subscription.exactly_once, self._subscription.ordered)
                    if properties != told:
                        told = properties
                        encoded += self._properties()
                    yield encoded
        finally:
            with broker.lock:
                broker.streams -= 1

    def _wait(self) -> tuple[list[Lease], list[Any]]:
        """Blocks until there is something to send; nothing at all means the end. The caller holds the lock."""
        broker = self._broker
        while not self._ended and not broker.stopped:
            if self._refusal:
                raise self._refusal
            if self._subscription.deleted:
                raise not_found(self._subscription.name)
            if broker.faults.cuts != self._cuts:
                raise Refusal(*broker.faults.cut_status)
            if not broker.faults.silent:
                leases = broker.deliver(self._subscription, self._consumer, MAX_DELIVERY)
                confirmations, self._confirmations = self._confirmations, []
                if leases or confirmations:
                    return leases, confirmations
            self._condition.wait(None if broker.faults.silent else broker.seconds_to_wait(self._subscription))
        return [], []

    def _properties(self) -> bytes:
        """The subscription's properties as the field of a response: told with the first messages and after a change."""
        response = protocol.StreamingPullResponse()
        response.subscription_properties.exactly_once_delivery_enabled = self._subscription.exactly_once
        response.subscription_properties.message_ordering_enabled = self._subscription.ordered
        encoded: bytes = response.SerializeToString()
        return encoded

    def _end(self) -> None:
        self._over.set()
        with self._broker.lock:
            self._ended = True
            self._condition.notify_all()

    def _read(self) -> None:
        """Takes acks and deadlines until the client ends its side of the stream, which ends the stream."""
        try:
            for request in self._requests:
                self._take_acks(request)
        except Refusal as refusal:
            with self._broker.lock:
                self._refusal = refusal
                self._condition.notify_all()
            return
        except grpc.RpcError:
            pass  # The call is over: gRPC has told its other side, and `_end` runs as the call's callback.
        except Exception as error:
            # gRPC's request iterator raises a bare Exception when the call ended without a half-close.
            if type(error) is not Exception:
                raise
        self._end()

    def _take_acks(self, request: Any) -> None:
        broker, subscription = self._broker, self._subscription
        confirmation = protocol.StreamingPullResponse() if subscription.exactly_once else None
        if request.ack_ids:
            refused = broker.acknowledge(subscription, request.ack_ids)
            if confirmation is not None:
                _confirm(confirmation.acknowledge_confirmation, request.ack_ids, refused)
        if request.modify_deadline_ack_ids:
            if len(request.modify_deadline_ack_ids) != len(request.modify_deadline_seconds):
                raise invalid("modify_deadline_seconds and modify_deadline_ack_ids differ in length.")
            deadlines: dict[int, list[str]] = {}
            for ack_id, seconds in zip(request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=True):
                deadlines.setdefault(seconds, []).append(ack_id)
            refused = []
            for seconds, ack_ids in deadlines.items():
                if not 0 <= seconds <= 600:
                    raise invalid(f"modify_deadline_seconds must be between 0 and 600, not {seconds}.")
                refused += broker.modify(subscription, ack_ids, seconds)
            if confirmation is not None:
                _confirm(confirmation.modify_ack_deadline_confirmation, request.modify_deadline_ack_ids, refused)
        if request is not self._first and request.stream_ack_deadline_seconds:
            self._consumer.ack_deadline = min(600, max(10, request.stream_ack_deadline_seconds)) * 1_000_000
        if confirmation is not None and confirmation.ByteSize():
            with broker.lock:
                self._confirmations.append(confirmation)
                self._condition.notify_all()


def _confirm(confirmation: Any, ack_ids: Any, refused: list[str]) -> None:
    out = set(refused)
    confirmation.ack_ids.extend(ack_id for ack_id in ack_ids if ack_id not in out)
    confirmation.invalid_ack_ids.extend(refused)
