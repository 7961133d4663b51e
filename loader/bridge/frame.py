"""A frame: one message on its way through a pipeline, read lazily and copied at the first change.

The payload is decoded at most once, when a stage first asks for a field, and is shared by every copy and every
pipeline of a shared consumer. What is read is read-only: a change goes through the frame, which copies what it
changes. A frame that nobody changed leaves with the bytes it came with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Headers = Sequence[tuple[str, bytes | None]]


class Format(Protocol):
    """Reads and writes payloads of one kind."""

    name: str

    def decode(self, value: bytes) -> Any:
        """The payload's fields. Raises Undecodable (for good) or Unavailable (a registry is down: try again)."""

    def encode(self, fields: Any) -> bytes:
        """The payload for changed fields. Raises Undecodable."""


class Undecodable(Exception):
    """The payload is not what the format says; the message goes to the dead-letter endpoint."""


class Unavailable(Exception):
    """What is needed to decode cannot be had now; the partition is held and the message tried again."""


class Payload:
    """Bytes, and what they say once somebody asks. Shared by frames."""

    __slots__ = ("_fields", "decoded", "error", "format", "value")

    def __init__(self, value: bytes | None, format: Format) -> None:
        self.value = value
        """None is a tombstone."""
        self.format = format
        self.decoded = False
        self.error: Undecodable | None = None
        self._fields: Any = None

    def fields(self, count: Callable[[], None] | None = None) -> Any:
        """The decoded payload, read-only by contract; None for a tombstone. Raises Undecodable, Unavailable."""
        if not self.decoded:
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
        return self._fields


class Frame:
    """One message. Cheap to make (slots, no decoding), cheap to copy (shares everything until it is changed)."""

    __slots__ = (
        "_changed",
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
        self._changed: Any = None

    @property
    def fields(self) -> Any:
        """The payload's fields as they are now: changed ones if a stage changed them. Read-only by contract."""
        return self.payload.fields() if self._changed is None else self._changed

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
        self._changed = _with(self.fields, path, value)

    def drop(self, path: Sequence[str]) -> None:
        """Remove a field; nothing happens when it is not there."""
        self._changed = _without(self.fields, path)

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
        frame._changed = self._changed
        return frame

    def value(self, format: Format | None = None) -> bytes | None:
        """The bytes to send: those that came, unless a stage changed a field or another format is wanted."""
        if self._changed is not None:
            return (format or self.payload.format).encode(self._changed)
        if format is None or format is self.payload.format:
            return self.payload.value
        fields = self.payload.fields()
        return None if fields is None else format.encode(fields)


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
    if not path or not isinstance(fields, Mapping) or path[0] not in fields:
        return fields
    changed = dict(fields)
    if len(path) == 1:
        del changed[path[0]]
    else:
        changed[path[0]] = _without(changed[path[0]], path[1:])
    return changed
