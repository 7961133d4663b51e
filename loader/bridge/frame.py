"""A frame: one message on its way through a pipeline, read lazily and copied at the first change.

The payload is decoded at most once, when a stage first asks for a field, and is shared by every copy and every
pipeline of a shared consumer. What is read is read-only: a change goes through the frame, which copies what it
changes. A frame that nobody changed leaves with the bytes it came with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Headers = Sequence[tuple[str, bytes | None]]


class Format(Protocol):
    """Reads and writes payloads of one kind."""

    name: str

    def decode(self, value: bytes) -> Any:
        """The payload's fields. Raises Undecodable (for good) or Unavailable (a registry is down: try again)."""

    def decode_exactly(self, value: bytes, fields: Any) -> Any:
        """The fields with every digit, given what `decode` said; `fields` itself where that was exact already."""

    def encode(self, fields: Any) -> bytes:
        """The payload for changed fields. Raises Undecodable."""


class Undecodable(Exception):
    """The payload is not what the format says; the message goes to the dead-letter endpoint."""


class Unavailable(Exception):
    """What is needed to decode cannot be had now; the partition is held and the message tried again."""

    def remedy(self) -> None:
        """Get it, if that can be tried at once: called by the pipeline, where nobody else waits. Raises Unavailable."""
        raise self


_DECODING = threading.Lock()
"""Pipelines of a shared consumer run in threads of their own and would decode the same payload twice. One lock for all
payloads: with Python's own lock only one of them works at a time anyway."""


class Payload:
    """Bytes, and what they say once somebody asks. Shared by frames."""

    __slots__ = ("_fields", "decoded", "error", "exact", "format", "value")

    def __init__(self, value: bytes | None, format: Format) -> None:
        self.value = value
        """None is a tombstone."""
        self.format = format
        self.decoded = False
        self.exact = False
        self.error: Undecodable | None = None
        self._fields: Any = None

    def fields(self, count: Callable[[], None] | None = None) -> Any:
        """The decoded payload, read-only by contract; None for a tombstone. Raises Undecodable, Unavailable."""
        if not self.decoded:
            with _DECODING:
                if not self.decoded:
                    self._decode(count)
        return self._fields

    def _decode(self, count: Callable[[], None] | None) -> None:
        if self.error is not None:
            raise self.error
        if self.value is not None:
            if count is not None:
                count()
            try:
                self._fields = self.format.decode(self.value)
            except Undecodable as error:
                self.error = error
                raise
        self.decoded = True

    def exact_fields(self) -> Any:
        """As `fields`, and every number has all its digits: the base of a change, for the rest must leave as it came.

        Looking for long numbers takes longer than decoding, so it is done for changes only."""
        fields = self.fields()
        if not self.exact:
            if self.value is not None:
                self._fields = fields = self.format.decode_exactly(self.value, fields)
            self.exact = True
        return fields


class Frame:
    """One message. Cheap to make (slots, no decoding), cheap to copy (shares everything until it is changed)."""

    __slots__ = (
        "_changed",
        "format",
        "headers",
        "index",
        "key",
        "offset",
        "partition",
        "payload",
        "sinks",
        "source",
        "timestamp",
        "topic",
    )

    def __init__(
        self,
        payload: Payload,
        key: bytes | None = None,
        headers: Headers = (),
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        timestamp: int = 0,
        source: Any = None,
    ) -> None:
        self.payload = payload
        self.key = key
        self.headers = headers
        """Never changed in place: a stage sets a new sequence."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        """Milliseconds since the epoch, 0 when the source has none."""
        self.source = source
        """What the engine needs to confirm the message; stages leave it alone."""
        self.index: tuple[int, ...] = ()
        """Position among the copies made of one message (multiply, flatten), part of its identity."""
        self.sinks: tuple[str, ...] | None = None
        """Sinks that a stage chose; None: all of the pipeline's."""
        self.format: Format | None = None
        """The format that it leaves in, if a stage converted it; None: the payload's."""
        self._changed: Any = None

    @property
    def fields(self) -> Any:
        """The payload's fields as they are now: changed ones if a stage changed them. Read-only by contract."""
        return self.payload.fields() if self._changed is None else self._changed

    def read_once(self) -> Any:
        """As `exact_fields`, for a stage that is done with them at once: they are not kept where nobody shares them.

        Thousands of decoded payloads at a time cost twice the CPU of as many one after the other."""
        return self.exact_fields

    @property
    def exact_fields(self) -> Any:
        """As `fields`, with every digit of every number."""
        return self.payload.exact_fields() if self._changed is None else self._changed

    @property
    def changed(self) -> bool:
        """Whether a stage changed the payload."""
        return self._changed is not None

    def get(self, path: Sequence[str], default: Any = None) -> Any:
        """A field by path; `default` when it is not there."""
        value = self.fields
        for name in path:
            if isinstance(value, Mapping):
                if name not in value:
                    return default
                value = value[name]
            elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                return default
        return value

    def set(self, path: Sequence[str], value: Any) -> None:
        """Set a field; objects on the way are copied, made where they are missing."""
        self._changed = _with(self.exact_fields, path, value)

    def drop(self, path: Sequence[str]) -> None:
        """Remove a field; nothing happens when it is not there."""
        fields = self.exact_fields
        changed = _without(fields, path)
        # A payload that loses nothing is not changed, and leaves with the bytes it came with.
        if changed is not fields:
            self._changed = changed

    def replace(self, fields: Any) -> None:
        """Replace the whole payload by other fields (flatten, convert)."""
        self._changed = fields

    def copy(self) -> Frame:
        """Another frame of the same message, for a second way or a second sink."""
        frame = Frame(
            self.payload, self.key, self.headers, self.topic, self.partition, self.offset, self.timestamp, self.source
        )
        frame.index = self.index
        frame.sinks = self.sinks
        frame.format = self.format
        frame._changed = self._changed
        return frame

    def reformat(self, format: Format) -> Frame:
        """This frame, its payload read by another format. For the engine, before any stage has seen it."""
        if format is not self.payload.format:
            self.payload = Payload(self.payload.value, format)
        return self

    def value(self) -> bytes | None:
        """The bytes to send: those that came, unless a stage changed a field or converted the payload.

        Raises Undecodable, Unavailable."""
        payload = self.payload
        if self._changed is None and (self.format is None or self.format is payload.format):
            return payload.value
        fields = self.exact_fields
        return None if fields is None and payload.value is None else (self.format or payload.format).encode(fields)


def _with(fields: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    name, rest = path[0], path[1:]
    if isinstance(fields, list) and name.isdigit() and int(name) < len(fields):
        copied = list(fields)
        copied[int(name)] = _with(copied[int(name)], rest, value)
        return copied
    changed = dict(fields) if isinstance(fields, Mapping) else {}
    changed[name] = _with(changed.get(name), rest, value)
    return changed


def _without(fields: Any, path: Sequence[str]) -> Any:
    """`fields` without the one at `path`; the same object when it is not there."""
    if not path or not isinstance(fields, Mapping) or path[0] not in fields:
        return fields
    name, rest = path[0], path[1:]
    inner = _without(fields[name], rest) if rest else None
    if rest and inner is fields[name]:
        return fields
    changed = dict(fields)
    if rest:
        changed[name] = inner
    else:
        del changed[name]
    return changed
