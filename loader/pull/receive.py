"""From a StreamingPullResponse to messages: the hottest lines of pulling."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from loader.message.message import Message

NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


def messages(response: Any) -> tuple[list[Message], int]:
    """The messages of one response (StreamingPullResponse or PullResponse) and their size in bytes (bodies only).

    Everything is copied out of the protobuf, whose memory is one block for the whole response."""
    taken: list[Message] = []
    append = taken.append
    size = 0
    for received in response.received_messages:
        message = received.message
        data = message.data
        attributes = message.attributes
        published = message.publish_time
        size += len(data)
        append(
            Message(
                received.ack_id,
                message.message_id,
                data,
                dict(attributes) if attributes else NO_ATTRIBUTES,
                published.seconds * 1_000_000 + published.nanos // 1_000,
                received.delivery_attempt,
                message.ordering_key,
            )
        )
    return taken, size
