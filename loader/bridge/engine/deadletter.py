"""What a dead letter looks like: the original bytes, and headers that say what it was and why it was refused."""

from __future__ import annotations

from base64 import b64encode

import orjson

from loader.bridge.frame import Frame, Payload

MOST_REASON = 1_000
MOST_HEADER_BYTES = 1_000
"""So that a dead letter is never refused for its own headers (Pub/Sub takes 1,024 bytes a value)."""


def letter(frame: Frame, pipeline: str, sink: str, reason: str) -> Frame:
    """A frame with the payload as it came. The original headers and key go along as far as they are small."""
    original = frame.payload
    headers: list[tuple[str, bytes | None]] = [
        ("dead_pipeline", pipeline.encode()),
        ("dead_topic", frame.topic.encode()),
        ("dead_partition", b"%d" % frame.partition),
        ("dead_offset", b"%d" % frame.offset),
        ("dead_reason", reason.encode("utf-8", "replace")[:MOST_REASON].decode("utf-8", "ignore").encode()),
    ]
    if sink:
        headers.append(("dead_sink", sink.encode()))
    if frame.key is not None:
        _small(headers, "dead_key.base64", b64encode(frame.key))
    if frame.headers:
        pairs = [[name, None if value is None else b64encode(value).decode()] for name, value in frame.headers]
        _small(headers, "dead_headers.base64", orjson.dumps(pairs))
    if original.value is None:
        headers.append(("tombstone", b"true"))
    dead = Frame(
        Payload(original.value, original.format),
        frame.key,
        headers,
        frame.topic,
        frame.partition,
        frame.offset,
        frame.timestamp,
        frame.source,
    )
    dead.index = frame.index
    return dead


def _small(headers: list[tuple[str, bytes | None]], name: str, value: bytes) -> None:
    if len(value) <= MOST_HEADER_BYTES:
        headers.append((name, value))
