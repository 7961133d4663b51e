"""Makes a topic and a subscription on an emulator, where they cost nothing and vanish with it."""

from __future__ import annotations

import grpc

from loader.errors import ConfigurationError
from loader.pull import protocol as pb
from loader.pull.channel import EMULATOR_VARIABLE, Stub, emulator, open_channel

_RETENTION_SECONDS = 7 * 24 * 3600


def create_on_emulator(subscription: str, topic: str | None = None) -> str:
    """Make `subscription` and its topic where they are missing; returns the topic's name.

    Without `topic` it is named as the subscription. Raises ConfigurationError when there is no emulator: on the
    service, what exists and what it costs is Terraform's business."""
    if emulator() is None:
        raise ConfigurationError(
            f"--create works on an emulator only and {EMULATOR_VARIABLE} is not set; on Google Cloud, "
            f"make {subscription} with Terraform"
        )
    _, project, _, name = subscription.split("/")
    topic = topic or f"projects/{project}/topics/{name}"
    with open_channel() as channel:
        stub = Stub(channel)
        _unless_there(lambda: stub.create_topic(pb.Topic(name=topic)))
        made = pb.Subscription(name=subscription, topic=topic, ack_deadline_seconds=60)
        made.message_retention_duration.seconds = _RETENTION_SECONDS
        _unless_there(lambda: stub.create_subscription(made))
        return str(stub.get_subscription(pb.GetSubscriptionRequest(subscription=subscription)).topic)


def _unless_there(make) -> None:  # type: ignore[no-untyped-def]
    try:
        make()
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
