"""Publishes a run's events with their identities as attributes, and notes in the ledger what has to come of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc

from loader.bench.fleet.content import record_digest
from loader.bench.fleet.events import ATTRIBUTE, KEY, Events, encode
from loader.bench.fleet.ledger import Ledger
from loader.errors import LoaderError
from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault, open_channel

_REQUEST = 1_000
_IN_FLIGHT = 4
_SECONDS = 30.0
_NOTE_SECONDS = 5.0


def publish(endpoint: str, topic: str, events: Events, ledger: Ledger, note: Callable[[str], None]) -> int:
    """Publish all, some thousand at a time in memory; how many messages were taken. Raises LoaderError when one was
    refused, for then nobody knows what has to be there."""
    channel = open_channel(endpoint)
    send = Stub(channel).unary("publish")
    pending: deque[Any] = deque()
    batch: list[Any] = []
    taken = 0
    noted = time.monotonic()

    def settle() -> int:
        try:
            return len(pending.popleft().result().message_ids)
        except grpc.RpcError as error:
            code, detail = fault(error)
            raise LoaderError(f"publishing to {topic} failed: {code.name} {detail}") from error

    try:
        for number in events.stream():
            if events.is_poison(number):
                data = events.body(number)
            else:
                record = events.record(number)
                data = encode(record)
                ledger.expect(number, record_digest(record[KEY], record))
            batch.append(pb.PubsubMessage(data=data, attributes={ATTRIBUTE: events.identity(number)}))
            if len(batch) == _REQUEST:
                pending.append(send.future(pb.PublishRequest(topic=topic, messages=batch), timeout=_SECONDS))
                batch = []
                if len(pending) > _IN_FLIGHT:
                    taken += settle()
                if time.monotonic() - noted > _NOTE_SECONDS:
                    noted = time.monotonic()
                    note(f"published {taken:,} of {events.messages:,} messages")
        if batch:
            pending.append(send.future(pb.PublishRequest(topic=topic, messages=batch), timeout=_SECONDS))
        while pending:
            taken += settle()
    finally:
        channel.close()
    return taken
