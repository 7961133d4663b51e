"""Topics and subscriptions of `loader local`: one of each for events, and what the shipped GPS example wants."""

from __future__ import annotations

from typing import Any

import grpc

from loader.errors import LoaderError
from loader.pull import protocol as pb
from loader.pull.channel import EMULATOR_VARIABLE, Stub, fault, open_channel

PROJECT = "local"
TOPIC = f"projects/{PROJECT}/topics/events"
SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/events-loader"
GPS_TOPIC = f"projects/{PROJECT}/topics/gps-links"
GPS_DEAD_TOPIC = f"projects/{PROJECT}/topics/gps-dead"
GPS_SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/gps-links-loader"
_DAY = {"seconds": 86_400}


def make_resources(endpoint: str, *, gps: bool = False) -> None:
    """Makes what is not there yet. Raises LoaderError when the server refuses.

    Events are kept for a day, by the subscription and by the topic: every way of `loader backfill` can be tried."""
    events = (
        pb.Topic(name=TOPIC, message_retention_duration=_DAY),
        pb.Subscription(
            name=SUBSCRIPTION,
            topic=TOPIC,
            ack_deadline_seconds=60,
            retain_acked_messages=True,
            message_retention_duration=_DAY,
        ),
    )
    feed = (
        pb.Topic(name=GPS_TOPIC),
        pb.Topic(name=GPS_DEAD_TOPIC),
        pb.Subscription(name=GPS_SUBSCRIPTION, topic=GPS_TOPIC, ack_deadline_seconds=60),
    )
    channel = open_channel(endpoint)
    try:
        stub = Stub(channel)
        for request in (*events, *feed) if gps else events:
            _make(stub, request, endpoint)
    finally:
        channel.close()


def _make(stub: Stub, request: Any, endpoint: str) -> None:
    call = stub.create_topic if isinstance(request, pb.Topic) else stub.create_subscription
    try:
        call(request)
    except grpc.RpcError as error:
        code, detail = fault(error)
        if code is not grpc.StatusCode.ALREADY_EXISTS:
            raise LoaderError(
                f"Pub/Sub at {endpoint} does not make {request.name}: {code.name} {detail}. "
                f"If {EMULATOR_VARIABLE} points to a server that is gone, unset it."
            ) from error
