"""The plain protobuf classes of google.pubsub.v1 and the bytes of a delivery.

The server answers deliveries with bytes that are put together by hand from parts encoded once at publish time: a
protobuf object for each delivered message would cost more than everything else the server does with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from google.protobuf import empty_pb2
from google.pubsub_v1.types import pubsub

if TYPE_CHECKING:
    from loader.local.lease import Lease

Empty = empty_pb2.Empty
PubsubMessage: Any = pubsub.PubsubMessage.pb()
Topic: Any = pubsub.Topic.pb()
Subscription: Any = pubsub.Subscription.pb()
Snapshot: Any = pubsub.Snapshot.pb()
PublishRequest: Any = pubsub.PublishRequest.pb()
PublishResponse: Any = pubsub.PublishResponse.pb()
PullResponse: Any = pubsub.PullResponse.pb()
StreamingPullRequest: Any = pubsub.StreamingPullRequest.pb()
StreamingPullResponse: Any = pubsub.StreamingPullResponse.pb()
AcknowledgeRequest: Any = pubsub.AcknowledgeRequest.pb()
ModifyAckDeadlineRequest: Any = pubsub.ModifyAckDeadlineRequest.pb()

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"


def _message(name: str) -> Any:
    return getattr(pubsub, name).pb()


PUBLISHER_METHODS: dict[str, tuple[Any, Any]] = {
    "CreateTopic": (Topic, Topic),
    "UpdateTopic": (_message("UpdateTopicRequest"), Topic),
    "GetTopic": (_message("GetTopicRequest"), Topic),
    "ListTopics": (_message("ListTopicsRequest"), _message("ListTopicsResponse")),
    "ListTopicSubscriptions": (_message("ListTopicSubscriptionsRequest"), _message("ListTopicSubscriptionsResponse")),
    "ListTopicSnapshots": (_message("ListTopicSnapshotsRequest"), _message("ListTopicSnapshotsResponse")),
    "DeleteTopic": (_message("DeleteTopicRequest"), Empty),
    "Publish": (PublishRequest, PublishResponse),
}
"""Unary methods of the publisher service: request and response class."""

SUBSCRIBER_METHODS: dict[str, tuple[Any, Any]] = {
    "CreateSubscription": (Subscription, Subscription),
    "GetSubscription": (_message("GetSubscriptionRequest"), Subscription),
    "UpdateSubscription": (_message("UpdateSubscriptionRequest"), Subscription),
    "ListSubscriptions": (_message("ListSubscriptionsRequest"), _message("ListSubscriptionsResponse")),
    "DeleteSubscription": (_message("DeleteSubscriptionRequest"), Empty),
    "ModifyAckDeadline": (ModifyAckDeadlineRequest, Empty),
    "Acknowledge": (AcknowledgeRequest, Empty),
    "Pull": (_message("PullRequest"), PullResponse),
    "CreateSnapshot": (_message("CreateSnapshotRequest"), Snapshot),
    "GetSnapshot": (_message("GetSnapshotRequest"), Snapshot),
    "UpdateSnapshot": (_message("UpdateSnapshotRequest"), Snapshot),
    "ListSnapshots": (_message("ListSnapshotsRequest"), _message("ListSnapshotsResponse")),
    "DeleteSnapshot": (_message("DeleteSnapshotRequest"), Empty),
    "Seek": (_message("SeekRequest"), _message("SeekResponse")),
}
"""Unary methods of the subscriber service: request and response class. StreamingPull is the one stream."""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [_varint(value) for value in range(4_096)]


def varint(value: int) -> bytes:
    """Base-128 encoding of a non-negative integer, as on protobuf's wire."""
    return _SMALL[value] if value < 4_096 else _varint(value)


def message_field(content: bytes) -> bytes:
    """An encoded PubsubMessage as field 2 (`message`) of a ReceivedMessage: tag, length, content."""
    return b"\x12" + varint(len(content)) + content


def publish_fields(digits: bytes, time_field: bytes) -> bytes:
    """Fields 3 and 4 of a PubsubMessage: `message_id`, and what `publish_time_field` made.

    Appended to an encoded message they take the place of whatever the publisher put there.
    """
    return b"\x1a" + varint(len(digits)) + digits + time_field


def publish_time_field(micros: int) -> bytes:
    """Field 4 of a PubsubMessage; `nanos` is written even when it is 0, for the field is merged, not replaced."""
    seconds, rest = divmod(micros, 1_000_000)
    content = b"\x08" + varint(seconds) + b"\x10" + varint(rest * 1_000)
    return b"\x22" + varint(len(content)) + content


def message_of(field: bytes) -> Any:
    """The PubsubMessage that `message_field` encoded."""
    start = 1
    while field[start] & 0x80:
        start += 1
    return PubsubMessage.FromString(field[start + 1 :])


_HEADERS: dict[int, bytes] = {}


def encode_received(leases: Iterable[Lease], counts: bool) -> bytes:
    """Leases as `received_messages`, which is field 1 of both PullResponse and StreamingPullResponse.

    Every ack id is 16 characters long (lease.py), so its length byte is a constant. `counts`: with `delivery_attempt`.
    """
    parts: list[bytes] = []
    append = parts.append
    headers = _HEADERS
    for lease in leases:
        body = b"\n\x10" + lease.ack_id.encode() + lease.message.field
        if counts:
            body += b"\x18" + varint(lease.deliveries)
        size = len(body)
        header = headers.get(size)
        if header is None:
            header = b"\n" + varint(size)
            if len(headers) < 65_536:
                headers[size] = header
        append(header)
        append(body)
    return b"".join(parts)
