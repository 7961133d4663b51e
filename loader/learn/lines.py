"""Newline-delimited messages of a file, each with the place that it stands at."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from loader.errors import LoaderError
from loader.message.message import Message

_PIECE = 1024 * 1024


def read_lines(name: str, max_bytes: int, attributes: Mapping[str, str]) -> Iterator[tuple[str, Message] | None]:
    """(`file:line`, message) of each line of a file or, for `-`, of stdin; None for an empty line.

    Of a line longer than `max_bytes` only so much is held as shows that it is too long. Raises LoaderError.
    """
    if name == "-":
        yield from _read(sys.stdin.buffer, "stdin", max_bytes, attributes)
        return
    try:
        with open(name, "rb") as stream:
            yield from _read(stream, os.path.basename(name), max_bytes, attributes)
    except OSError as error:
        raise LoaderError(f"cannot read {name}: {error.strerror}") from error


def _read(
    stream: BinaryIO, label: str, max_bytes: int, attributes: Mapping[str, str]
) -> Iterator[tuple[str, Message] | None]:
    number = 0
    while True:
        line = stream.readline(max_bytes + 2)
        if not line:
            return
        number += 1
        whole = line.endswith(b"\n")
        while not whole:
            rest = stream.readline(_PIECE)
            whole = not rest or rest.endswith(b"\n")
        body = line.rstrip(b"\r\n")
        if not body.strip():
            yield None
            continue
        origin = f"{label}:{number}"
        yield origin, Message("", origin, body, attributes, time.time_ns() // 1_000, 0)
