"""Gzip bodies: inflated in pieces and never beyond the limit."""

from __future__ import annotations

import zlib

from loader.message.message import Refused

_PIECE = 65536
_GZIP_WITH_HEADER = 31  # zlib's wbits for a gzip header, a 32 KiB window and a checked trailer
MAX_MEMBERS = 1000
"""Most gzip members in one body. Ten megabytes hold half a million empty ones, each with a cost of its own."""


def inflate(data: bytes, limit: int) -> bytes:
    """The bytes that a gzip body holds, all its members one after the other.

    Inflating stops as soon as there is more than `limit` bytes, so that a body which would become gigabytes never
    takes more memory than the limit (for a moment twice that: the pieces and their sum).
    Raises Refused for data that is not gzip, is damaged, cut short, or followed by something else.
    """
    view = memoryview(data)
    pieces: list[bytes] = []
    room = limit
    position = 0
    for _ in range(MAX_MEMBERS):
        stream = zlib.decompressobj(_GZIP_WITH_HEADER)
        while not stream.eof:
            fed: bytes | memoryview = stream.unconsumed_tail
            if not fed:
                fed = view[position : position + _PIECE]
                position += len(fed)
            try:
                piece = stream.decompress(fed, room + 1)
            except zlib.error as error:
                raise Refused("bad gzip", _describe(data, bool(pieces), str(error))) from None
            if len(piece) > room:
                raise Refused("body too large", f"the gzip body inflates to more than {limit} bytes")
            if piece:
                pieces.append(piece)
                room -= len(piece)
            if not fed and not piece and not stream.eof:
                raise Refused("bad gzip", f"the gzip data is cut short after {len(data)} bytes")
        position -= len(stream.unused_data)
        if position == len(data):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if data[position : position + 2] != b"\x1f\x8b":
            raise Refused("bad gzip", f"{len(data) - position} bytes that are not gzip follow the gzip data")
    raise Refused("bad gzip", f"more than {MAX_MEMBERS} gzip members in one body")


def _describe(data: bytes, started: bool, error: str) -> str:
    if not started and data[:2] != b"\x1f\x8b":
        return "the attribute content-encoding says gzip, but the body does not begin like gzip"
    return f"the gzip data is damaged ({error.rpartition(': ')[2]})"
