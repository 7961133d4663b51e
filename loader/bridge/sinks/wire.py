"""A publish request's bytes, built by hand: google.pubsub.v1.PublishRequest in protobuf's wire format.

With two attributes a message the protobuf classes cost three times the CPU of everything else in the bridge together.
The layout is the stable, public one (https://protobuf.dev/programming-guides/encoding/); a test decodes it by the
classes. PublishRequest: topic 1, messages 2. PubsubMessage: data 1, attributes 2 (key 1, value 2), ordering_key 5.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

from loader.bridge.frame import Headers

MOST_ATTRIBUTES = 100
MOST_KEY_BYTES = 256
MOST_VALUE_BYTES = 1_024
MOST_ORDERING_KEY_BYTES = 1_024
"""Pub/Sub's limits (https://cloud.google.com/pubsub/quotas#resource_limits)."""

BASE64_SUFFIX = ".base64"


class Unsendable(Exception):
    """Pub/Sub would refuse this message whatever is tried; the text says why."""


def varint(number: int) -> bytes:
    """A number in protobuf's variable length."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


VARINTS = [varint(number) for number in range(4_096)]
_FEW = len(VARINTS)


def length(number: int) -> bytes:
    """`varint`, by a table for what is common."""
    return VARINTS[number] if number < _FEW else varint(number)


def attribute(key: bytes, value: bytes) -> bytes:
    """One entry of the map of attributes."""
    inner = b"\x0a%b%b\x12%b%b" % (length(len(key)), key, length(len(value)), value)
    return b"\x12%b%b" % (length(len(inner)), inner)


def topic_field(topic: str) -> bytes:
    """The request's beginning."""
    name = topic.encode()
    return b"\x0a%b%b" % (length(len(name)), name)


def ordering_key_field(key: bytes) -> bytes:
    """The ordering key of a Kafka key: its text, or base64 when it is none. Empty for an empty key.

    Raises Unsendable for more than 1,024 bytes."""
    text = key if _is_text(key) else b64encode(key)
    if len(text) > MOST_ORDERING_KEY_BYTES:
        raise Unsendable(f"the ordering key has {len(text)} bytes, Pub/Sub takes {MOST_ORDERING_KEY_BYTES}")
    return b"\x2a%b%b" % (length(len(text)), text) if text else b""


def header_attributes(headers: Headers, taken: Iterable[str], drop_long: bool = False) -> bytes:
    """Headers as attributes. Nothing is lost: a header that comes again is `name.2`, `name.3` …; a value that is no
    UTF-8 becomes base64 under `name.base64`; null becomes the empty text; an empty name `_`; names that Pub/Sub keeps
    for itself (`goog…`) get `kafka.` in front. `taken` names attributes that the bridge sets itself.

    Raises Unsendable beyond 100 attributes, names of 256 bytes, values of 1,024; `drop_long` leaves them out."""
    used = set(taken)
    parts: list[bytes] = []
    for name, value in headers:
        if value is None:
            value = b""
        elif not _is_text(value):
            name, value = name + BASE64_SUFFIX, b64encode(value)
        if not name:
            name = "_"
        elif name[:4].lower() == "goog":
            name = "kafka." + name
        if name in used:
            number = 2
            while f"{name}.{number}" in used:
                number += 1
            name = f"{name}.{number}"
        key = name.encode("utf-8", "replace")
        if drop_long and (len(key) > MOST_KEY_BYTES or len(value) > MOST_VALUE_BYTES or len(used) >= MOST_ATTRIBUTES):
            continue
        used.add(name)
        if len(key) > MOST_KEY_BYTES:
            raise Unsendable(f"the header name {name[:40]!r}… has {len(key)} bytes, Pub/Sub takes {MOST_KEY_BYTES}")
        if len(value) > MOST_VALUE_BYTES:
            raise Unsendable(f"the header {name[:80]!r} has {len(value)} bytes, Pub/Sub takes {MOST_VALUE_BYTES}")
        parts.append(attribute(key, value))
    if len(used) > MOST_ATTRIBUTES:
        raise Unsendable(f"{len(used)} attributes, Pub/Sub takes {MOST_ATTRIBUTES}")
    return b"".join(parts)


def _is_text(value: bytes) -> bool:
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
