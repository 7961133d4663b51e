"""The bytes of a publish request for messages by columns, in pieces that one join puts together.

No bytes are made for a message that others have, too: what stands before its value depends on a few lengths, what
stands around its identity on its partition, and offsets that count on differ in their last three digits only. So the
pieces are put together column by column, for messages that follow each other in one partition, without a loop over
messages: with one it takes twice as long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from loader.bridge.columns import Columns
from loader.bridge.sinks import wire

_THREE = tuple(b"%03d" % number for number in range(1_000))
_TIME_BYTES = 34
"""Of the attribute kafka_timestamp, where it is a time in milliseconds of 13 digits: from 2001 to 2286."""
_FIRST_TIME, _LAST_TIME = 1_000_000_000_000, 9_999_999_999_999
_MOST = 4_096


class _Odd(Exception):
    """A message that has to be looked at for itself."""


class _Times(dict[int, bytes]):
    """Time of a message → what stands between the offset in its identity and its headers."""

    def __init__(self, end: bytes) -> None:
        self._end = end

    def __missing__(self, time: int) -> bytes:
        if not _FIRST_TIME <= time <= _LAST_TIME:
            raise _Odd
        if len(self) >= _MOST:
            self.clear()
        found = self[time] = b"%b\x12\x20\x0a\x0fkafka_timestamp\x12\x0d%d" % (self._end, time)
        return found


class _Heads(dict[int, bytes]):
    """Length of a value → what stands before it, with `rest` bytes of attributes behind it."""

    def __init__(self, rest: int) -> None:
        self._rest = rest

    def __missing__(self, size: int) -> bytes:
        if len(self) >= _MOST:
            self.clear()
        head = self[size] = _head(self._rest, size)
        return head


class _Block(NamedTuple):
    """Offsets of a partition, from `low` to below `high`, that differ in their last digits only."""

    origin: Any
    low: int
    high: int
    start: bytes
    """The attribute event_id up to the last digits of its offset."""
    digits: Sequence[bytes]
    """The last digits of `low` and of those behind it."""
    length: int
    """Of all attributes but the headers."""


class ColumnEncoder:
    """`end` is what follows the offset in an identity, `own` are attributes that the bridge sets. Threads may share
    it."""

    def __init__(self, end: bytes, timestamp: bool, own: Sequence[str], drop_long_headers: bool) -> None:
        self._end = end
        self._times = _Times(end) if timestamp else None
        self._own = own
        self._drop_long_headers = drop_long_headers
        self._blocks: dict[int, _Block] = {}
        self._heads: dict[int, _Heads] = {}

    def parts(self, columns: Columns) -> tuple[list[bytes], int] | None:
        """The pieces of these messages, with their tags, and how many bytes they are at most.

        None when there is one among them that must be looked at for itself: a tombstone, a header that Pub/Sub does
        not take, a time without the usual number of digits."""
        if None in columns.values:
            return None
        try:
            ends = self._ends(columns)
            headers = self._headers(columns)
        except (_Odd, wire.Unsendable):
            return None
        values: Any = columns.values
        offsets = columns.offsets
        heads: list[bytes] = []
        starts: list[bytes] = []
        digits: list[bytes] = []
        longest = first = 0
        for number, group in groupby(columns.partitions):
            last = first + len(list(group))
            while first < last:
                block = self._block(columns, number, offsets[first])
                low, most = block.low, last - first
                if offsets[last - 1] >= block.high:
                    most = bisect_left(offsets, block.high, first, last) - first
                stop = first + most
                from_digit, to_digit = offsets[first] - low, offsets[stop - 1] - low + 1
                if to_digit - from_digit == most:
                    digits += block.digits[from_digit:to_digit]
                else:  # offsets are left out where transactions end and where a topic is compacted
                    digits += [block.digits[offset - low] for offset in offsets[first:stop]]
                starts += [block.start] * most
                heads += map(self._heads_of(block.length).__getitem__, map(len, values[first:stop]))
                longest = max(longest, block.length)
                first = stop
        total = sum(map(len, values)) + len(values) * (longest + 20)
        columns_of_bytes = [heads, values, starts, digits, ends]
        if headers is not None:
            columns_of_bytes.append(headers)
            total += sum(map(len, headers))
            rest = [len(start) + len(some) + len(end) for start, some, end in zip(starts, digits, ends, strict=True)]
            columns_of_bytes[0] = [
                _head(length + len(more), len(value)) for length, more, value in zip(rest, headers, values, strict=True)
            ]
        width = len(columns_of_bytes)
        parts: list[bytes] = [b""] * (width * len(values))
        for position, column in enumerate(columns_of_bytes):
            parts[position::width] = column
        return parts, total

    def _ends(self, columns: Columns) -> Sequence[bytes]:
        if self._times is None:
            return [self._end] * len(columns)
        return list(map(self._times.__getitem__, columns.times))

    def _headers(self, columns: Columns) -> list[bytes] | None:
        headers = columns.headers
        if headers is None:
            return None
        own, drop = self._own, self._drop_long_headers
        return [wire.header_attributes(each, own, drop) if each else b"" for each in headers]

    def _block(self, columns: Columns, number: int, offset: int) -> _Block:
        origin = columns.origins[number]
        block = self._blocks.get(number)
        if block is None or block.origin is not origin or not block.low <= offset < block.high:
            block = self._blocks[number] = self._new_block(origin, offset)
        return block

    def _new_block(self, origin: Any, offset: int) -> _Block:
        if offset < 1_000:
            low = 100 if offset >= 100 else 10 if offset >= 10 else 0
            high = 10 * low or 10
            before, digits = b"", tuple(b"%d" % each for each in range(low, high))
        else:
            low = offset - offset % 1_000
            high = low + 1_000
            before, digits = b"%d" % (low // 1_000), _THREE
        behind = len(digits[0]) + len(self._end)
        attribute = wire.attribute(b"event_id", origin.prefix + before + bytes(behind))
        length = len(attribute) + (0 if self._times is None else _TIME_BYTES)
        return _Block(origin, low, high, attribute[:-behind], digits, length)

    def _heads_of(self, length: int) -> _Heads:
        heads = self._heads.get(length)
        if heads is None:
            heads = self._heads[length] = _Heads(length)
        return heads


def _head(rest: int, size: int) -> bytes:
    """What stands before a value of so many bytes, with so many bytes of attributes behind it."""
    count = wire.length(size)
    return b"\x12%b\x0a%b" % (wire.length(1 + len(count) + size + rest), count)
