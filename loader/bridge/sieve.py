"""What a condition says of messages by columns, without a frame for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loader.bridge.columns import Columns
from loader.bridge.frame import Format, Frame, Headers, Payload, Undecodable

Test = Callable[[Frame], bool]
Quick = Callable[[Any], "bool | None"]
"""What a test says, worked out of the decoded fields alone; None when the frame itself has to be asked."""
Faults = list[tuple[int, Undecodable]]


def sift(columns: Columns, test: Test, quick: Quick | None = None) -> tuple[list[bool], Faults]:
    """What the condition says of each message, and where it raised Undecodable (which counts as false).

    It sees one frame that stands for one message after the other, and must not keep it. What was decoded for it is let
    go at once, unless it is shared: thousands of decoded payloads at a time cost twice the CPU of as many one after
    the other. Raises Unavailable."""
    if columns.payloads is not None:
        return _shared(columns, columns.payloads, test)
    once = _Once(columns.format)
    try:
        said = None if quick is None else _quickly(columns, once, test, quick)
        return _alone(columns, once, test, quick) if said is None else (said, [])
    finally:
        once.tell()


def _quickly(columns: Columns, once: _Once, test: Test, quick: Quick) -> list[bool] | None:
    """Without a look at any single message, but for those of which `quick` cannot tell.

    None when one is a tombstone or cannot be decoded: then all begin again, one by one."""
    values: Any = columns.values
    if None in values:
        return None
    decode = once.decode
    unsure: list[Any] = []
    keep = unsure.append  # gives None
    try:
        said: list[Any] = [
            holds if (holds := quick(fields := decode(value))) is not None else keep(fields) for value in values
        ]
        once.decodes += len(said)
        if unsure:
            row = _Row(columns)
            row.payload = once
            unsure.reverse()
            for at, holds in enumerate(said):
                if holds is None:
                    row.at = at
                    once.stand_for(values[at], unsure.pop())
                    said[at] = test(row)
    except Undecodable:
        return None
    return said


def _shared(columns: Columns, payloads: Any, test: Test) -> tuple[list[bool], Faults]:
    said: list[bool] = []
    faults: Faults = []
    row = _Row(columns)
    for at, payload in enumerate(payloads):
        row.at, row.payload = at, payload
        try:
            said.append(test(row))
        except Undecodable as error:
            said.append(False)
            faults.append((at, error))
    return said, faults


def _alone(columns: Columns, once: _Once, test: Test, quick: Quick | None) -> tuple[list[bool], Faults]:
    said: list[bool] = []
    faults: Faults = []
    row = _Row(columns)
    row.payload = once
    add, decode = said.append, once.decode
    for at, value in enumerate(columns.values):
        try:
            if quick is not None and value is not None:
                fields = decode(value)
                once.decodes += 1
                holds = quick(fields)
                if holds is not None:
                    add(holds)
                    continue
                once.stand_for(value, fields)
            else:
                once.stand_for(value)
            row.at = at
            add(test(row))
        except Undecodable as error:
            add(False)
            faults.append((at, error))
    return said, faults


class _Once(Payload):
    """A payload for one message after the other, in one thread."""

    __slots__ = ("decode", "decodes")

    def __init__(self, format: Format) -> None:
        super().__init__(None, format)
        self.decodes = 0
        self.decode = getattr(format, "bare", format.decode)
        """Counts nothing: that is told once for all."""

    def stand_for(self, value: bytes | None, fields: Any = None) -> None:
        """Be another message, decoded already if there are fields."""
        self.value = value
        self._fields = fields
        self.decoded = value is None or fields is not None
        self.exact = False

    def fields(self, count: Callable[[], None] | None = None) -> Any:
        if not self.decoded:
            assert self.value is not None
            self.decodes += 1
            self._fields = self.decode(self.value)
            self.decoded = True
        return self._fields

    def tell(self) -> None:
        """Count what was decoded, for a format that counts."""
        count = getattr(self.format, "decoded", None)
        if count is not None and self.decodes:
            count(self.decodes)


class _Row(Frame):
    """The frame that stands for the message at `at`."""

    __slots__ = ("_columns", "at")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.at = 0
        self._changed = None
        self.format = None
        self.sinks = None
        self.index = ()

    @property
    def key(self) -> bytes | None:  # type: ignore[override]
        keys = self._columns.keys
        return None if keys is None else keys[self.at]

    @property
    def headers(self) -> Headers:  # type: ignore[override]
        headers = self._columns.headers
        return () if headers is None else headers[self.at] or ()

    @property
    def offset(self) -> int:  # type: ignore[override]
        return self._columns.offsets[self.at]

    @property
    def partition(self) -> int:  # type: ignore[override]
        return self._columns.partitions[self.at]

    @property
    def timestamp(self) -> int:  # type: ignore[override]
        return self._columns.times[self.at]

    @property
    def source(self) -> Any:  # type: ignore[override]
        return self._columns.origins[self.partition]

    @property
    def topic(self) -> str:  # type: ignore[override]
        return self.source.topic
