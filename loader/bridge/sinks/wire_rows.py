"""The bytes of a publish request for rows by columns (loader/bridge/stages/rows.py), in pieces that one join puts
together: what rows of a message have in common is made once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from loader.bridge.frame import Headers
from loader.bridge.sinks import wire
from loader.bridge.stages.rows import Rows

_FIRST_TIME, _LAST_TIME = 1_000_000_000_000, 9_999_999_999_999
"""Times in milliseconds of 13 digits: from 2001 to 2286."""
_MOST_IDENTITY = 110
"""Bytes of an identity without the row's number: with it and its frame its length takes one byte."""
_MOST_NUMBER = 1_000
_NUMBERS = tuple(b"/%d" % number for number in range(_MOST_NUMBER))
_MOST_HEADS = 4_096


class RowEncoder:
    """`end` is what follows the offset in an identity, `own` are attributes that the bridge sets."""

    def __init__(self, end: bytes, timestamp: bool, own: Sequence[str], drop_long_headers: bool) -> None:
        self._end = end
        self._timestamp = timestamp
        self._own = own
        self._drop_long_headers = drop_long_headers
        self._heads: dict[int, bytes] = {}
        """Bytes of a body, and shifted above them those of what is behind it → what stands before the body."""

    def parts(self, rows: Rows, room: int) -> tuple[list[bytes], int, int] | None:
        """The pieces of the rows that take no more than `room` bytes, how many rows these are and how many bytes.

        None when there is one that must be looked at for itself: headers that Pub/Sub does not take, a time without
        the usual number of digits, a very long identity."""
        columns, numbers = rows.columns, rows.numbers
        offsets, partitions, times, origins = columns.offsets, columns.partitions, columns.times, columns.origins
        end, heads, number_of, find = self._end, self._heads, _NUMBERS, self._heads.get
        parts: list[bytes] = []
        total = taken = 0
        last = -1
        before = behind = b""
        identity, size, rest = b"", 0, 0
        headers: Headers | None = None
        attributes = b""
        for message, number, body in zip(rows.of, numbers, rows.bodies, strict=True):
            if message != last:
                last = message
                its = rows.headers_of(message)
                if its is not headers:
                    headers = its
                    try:
                        attributes = wire.header_attributes(its, self._own, self._drop_long_headers) if its else b""
                    except wire.Unsendable:
                        return None
                offset, time = offsets[message], times[message]
                identity = b"%b%d%b" % (origins[partitions[message]].prefix, offset, end)
                size = len(identity)
                if size > _MOST_IDENTITY or offset < 0:
                    return None
                behind = attributes
                if self._timestamp:
                    if not _FIRST_TIME <= time <= _LAST_TIME:
                        return None
                    behind += b"\x12\x20\x0a\x0fkafka_timestamp\x12\x0d%d" % time
                before = b"\x12%c\x0a\x08event_id\x12%c%b" % (size + 14, size + 2, identity)
                rest = len(before) + len(behind)
            if number < 10:
                start, tail = before, rest + 2
            elif number < _MOST_NUMBER:
                tail = rest + len(number_of[number])
                digits = tail - rest
                start = b"\x12%c\x0a\x08event_id\x12%c%b" % (size + 12 + digits, size + digits, identity)
            else:
                return None
            key = tail << 32 | len(body)
            head = find(key)
            if head is None:
                if len(heads) >= _MOST_HEADS:
                    heads.clear()
                count = wire.length(len(body))
                head = heads[key] = b"\x12%b\x0a%b" % (wire.length(1 + len(count) + len(body) + tail), count)
            total += len(head) + len(body) + tail
            if total > room:
                total -= len(head) + len(body) + tail
                break
            parts += (head, body, start, number_of[number], behind)
            taken += 1
        return parts, taken, total
