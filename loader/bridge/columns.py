"""A batch of Kafka messages by columns: a frame is made only of a message that something looks at.

Most pipelines look at few messages, or at one field of each. A frame and a payload for each message would cost more
than all that is done with them, so what can work on columns does (a filter, the Pub/Sub sink), and for everybody else
a batch is a sequence of frames.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, overload

from loader.bridge.frame import Format, Frame, Headers, Payload


class KafkaFrame(Frame):
    """A frame whose payload object is made when somebody asks for it: most messages are never read, only passed on."""

    __slots__ = ("_format", "_payload", "_value")

    def __init__(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        offset: int,
        timestamp: int,
        origin: Any,
        format: Format,
    ) -> None:
        self._value = value
        self.key = key
        self.headers = headers
        self.offset = offset
        self.timestamp = timestamp
        self.source = origin
        self._format = format
        self._payload: Payload | None = None
        self._changed = None
        self.format = None
        self.sinks = None
        self.index = ()

    @property
    def payload(self) -> Payload:  # type: ignore[override]
        if self._payload is None:
            self._payload = Payload(self._value, self._format)
        return self._payload

    @payload.setter
    def payload(self, payload: Payload) -> None:
        self._payload = payload
        self._value = payload.value

    @property
    def topic(self) -> str:  # type: ignore[override]
        return self.source.topic

    @property
    def partition(self) -> int:  # type: ignore[override]
        return self.source.partition

    def copy(self) -> Frame:
        frame = KafkaFrame(self._value, self.key, self.headers, self.offset, self.timestamp, self.source, self._format)
        frame._payload = self.payload  # made now, so that the copies share what is decoded
        frame._changed, frame.sinks, frame.index, frame.format = self._changed, self.sinks, self.index, self.format
        return frame

    def read_once(self) -> Any:
        value = self._value
        if self._payload is not None or self._changed is not None or value is None:
            return self.exact_fields
        return self._format.decode_exactly(value, self._format.decode(value))

    def reformat(self, format: Format) -> Frame:
        if format is not self._format:
            self._format = format
            self._payload = None
        return self

    def value(self) -> bytes | None:
        if self._changed is None and self.format is None:
            return self._value
        return super().value()


class Columns(Sequence[Frame]):
    """Messages of one read. Never changed: pipelines may share it, and each frame that is made of it is a fresh one."""

    __slots__ = ("format", "headers", "keys", "offsets", "origins", "partitions", "payloads", "times", "values")

    def __init__(
        self,
        values: Sequence[bytes | None],
        partitions: Sequence[int],
        offsets: Sequence[int],
        times: Sequence[int],
        keys: Sequence[bytes | None] | None,
        headers: Sequence[Headers | None] | None,
        origins: Mapping[int, Any],
        format: Format,
        payloads: Sequence[Payload] | None = None,
    ) -> None:
        self.values = values
        self.partitions = partitions
        self.offsets = offsets
        self.times = times
        """Milliseconds since the epoch."""
        self.keys = keys
        """None: no message has one."""
        self.headers = headers
        """None: no message has any."""
        self.origins = origins
        """By partition."""
        self.format = format
        self.payloads = payloads
        """Where what is decoded is kept for others; None: whoever decodes keeps it or lets it go."""

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Frame: ...

    @overload
    def __getitem__(self, at: slice) -> Columns: ...

    def __getitem__(self, at: int | slice) -> Frame | Columns:
        if isinstance(at, slice):
            if at.start in (None, 0) and (at.stop is None or at.stop >= len(self.values)) and at.step is None:
                return self
            return self._like(operator.itemgetter(at))
        frame = KafkaFrame(
            self.values[at],
            None if self.keys is None else self.keys[at],
            () if self.headers is None else self.headers[at] or (),
            self.offsets[at],
            self.times[at],
            self.origins[self.partitions[at]],
            self.format,
        )
        if self.payloads is not None:
            frame._payload = self.payloads[at]
        return frame

    def __iter__(self) -> Iterator[Frame]:
        return map(self.__getitem__, range(len(self.values)))

    def _like(self, some: Callable[[Any], Any]) -> Columns:
        return Columns(
            some(self.values),
            some(self.partitions),
            some(self.offsets),
            some(self.times),
            None if self.keys is None else some(self.keys),
            None if self.headers is None else some(self.headers),
            self.origins,
            self.format,
            None if self.payloads is None else some(self.payloads),
        )

    def only(self, wanted: Sequence[bool]) -> Columns:
        """The messages for which it says true."""
        return self if all(wanted) else self._like(lambda column: list(compress(column, wanted)))

    def reformat(self, format: Format) -> Columns:
        """The same messages, read by another format."""
        return self if format is self.format else self._with(format, None)

    def shared(self) -> Columns:
        """The same messages, of which each is decoded at most once, whoever asks and through whichever frame."""
        if self.payloads is not None:
            return self
        return self._with(self.format, [Payload(value, self.format) for value in self.values])

    def _with(self, format: Format, payloads: Sequence[Payload] | None) -> Columns:
        return Columns(
            self.values,
            self.partitions,
            self.offsets,
            self.times,
            self.keys,
            self.headers,
            self.origins,
            format,
            payloads,
        )


def reformatted(frames: Sequence[Frame], format: Format) -> Sequence[Frame]:
    """Frames that nobody has seen yet, their payloads read by another format."""
    return frames.reformat(format) if isinstance(frames, Columns) else [frame.reformat(format) for frame in frames]
