"""A row: one element of a message's list, on its way as a message of its own with JSON for its payload."""

from __future__ import annotations

from typing import Any

from loader.bridge.formats.json import Json
from loader.bridge.frame import Frame, Headers, Payload

JSON = Json()


class Row(Frame):
    """Its payload stays the message that it was made of: what is refused can be told and replayed as it came."""

    __slots__ = ("_body", "_of", "_read")

    def __init__(self, of: Frame, body: bytes, number: int, headers: Headers, key: bytes | None) -> None:
        self._of = of
        self._body = body
        self._read: Payload | None = None
        self.key = key
        self.headers = headers
        self.offset = of.offset
        self.timestamp = of.timestamp
        self.source = of.source
        self.index = (*of.index, number) if of.index else (number,)
        self.sinks = of.sinks
        self.format = None
        self._changed = None

    @property
    def payload(self) -> Payload:  # type: ignore[override]
        return self._of.payload

    @property
    def topic(self) -> str:  # type: ignore[override]
        return self._of.topic

    @property
    def partition(self) -> int:  # type: ignore[override]
        return self._of.partition

    def _own(self) -> Payload:
        if self._read is None:
            self._read = Payload(self._body, JSON)
        return self._read

    @property
    def fields(self) -> Any:
        return self._own().fields() if self._changed is None else self._changed

    @property
    def exact_fields(self) -> Any:
        return self._own().exact_fields() if self._changed is None else self._changed

    def copy(self) -> Frame:
        row = Row(self._of, self._body, 0, self.headers, self.key)
        row._read = self._own()  # made now, so that the copies share what is decoded
        row.index, row.sinks, row.format, row._changed = self.index, self.sinks, self.format, self._changed
        return row

    def value(self) -> bytes | None:
        if self._changed is None and self.format is None:
            return self._body
        return (self.format or JSON).encode(self.exact_fields)
