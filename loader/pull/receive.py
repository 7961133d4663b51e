"""From a response of Pub/Sub to messages: the hottest lines of pulling.

Reading the wire format in Python was measured against the protobuf classes' C code: slower by a quarter and more
wherever publish times differ, so the classes read it and these lines only copy out of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from loader.message.message import Message

NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


def messages(response: Any) -> tuple[list[Message], int]:
    """The messages of one StreamingPullResponse or PullResponse, and the size of their bodies in bytes.

    Everything is copied out of the protobuf, whose memory is one block for the whole response."""
    taken: list[Message] = []
    append, new = taken.append, tuple.__new__  # a NamedTuple's own __new__ is a Python function
    size = 0
    for received in response.received_messages:
        message = received.message
        data = message.data
        attributes = message.attributes
        published = message.publish_time
        size += len(data)
        append(
            new(
                Message,
                (
                    received.ack_id,
                    message.message_id,
                    data,
                    # dict(map) goes through the map's Python methods and takes half as long again.
                    {key: attributes[key] for key in attributes} if attributes else NO_ATTRIBUTES,
                    published.seconds * 1_000_000 + published.nanos // 1_000,
                    received.delivery_attempt,
                    message.ordering_key,
                ),
            )
        )
    return taken, size
