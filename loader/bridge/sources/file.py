"""A file of lines as a source, `-` for standard input. It is read from its start each time, and then it ends.

The identity of a line is `file/<path>/<digest of the line>/<its number>`: neither a rerun nor a copy of the file is
another event, nor is a line of a file that has grown at its end, while another file of the same name is. What a name
alone or a name with the time of a file would say is too little or too much.
"""

from __future__ import annotations

import gzip
import sys
import threading
from base64 import b64decode
from hashlib import blake2b
from typing import Any, Literal

import orjson

from loader.bridge.engine.bucket import Bucket
from loader.bridge.frame import Format, Frame, Headers, Payload, Undecodable
from loader.bridge.identity import prefix
from loader.bridge.sinks.sink import Origin
from loader.bridge.sources.source import Batch, Handover
from loader.errors import LoaderError

READ_BYTES = 4 << 20
MOST_LINE_BYTES = 64 << 20
DIGEST_BYTES = 8
"""Two lines at one place of a file that is made anew each day are never taken for one, even in large ones."""
_SHAPE = "it must be an object with value or value_base64, key, headers (a map, or a list of name and value), timestamp"


class FileSource:
    """Positions are numbers of lines, from 0. Nothing is kept of them: a file is read again after a restart, and what
    it gave has the same identities."""

    def __init__(
        self,
        name: str,
        path: str,
        format: Format,
        *,
        compressed: bool = False,
        lines: Literal["values", "messages"] = "values",
        epoch: str = "",
        tombstones: bool = False,
        at: str | None = None,
    ) -> None:
        """`at` is where the file is, if that is another path than the one that it is known by."""
        self.name = name
        self.failures = 0
        self.assigned: set[Any] = set()
        self._path = path
        self._at = at or path
        self._format = format
        self._compressed = compressed
        self._lines = lines
        self._tombstones = tombstones
        self._epoch = epoch
        self._file: Any = None
        self._line = 0
        self._paused = False
        self._wait = threading.Event()

    def open(self, handover: Handover) -> None:
        """Raises OSError when the file cannot be read."""
        if self._path == "-":
            self._file = sys.stdin.buffer
        elif self._compressed:
            self._file = gzip.open(self._at, "rb")  # noqa: SIM115
        else:
            self._file = open(self._at, "rb")  # noqa: SIM115

    def read(self, most: int, timeout: float) -> Batch:
        """The next lines; empty lines are passed over."""
        frames: list[Frame] = []
        batch = Batch(frames)
        if self._paused:
            self._wait.wait(timeout)
            return batch
        assert self._file is not None
        while len(frames) < most and batch.size < READ_BYTES:
            line = self._file.readline(MOST_LINE_BYTES)
            if not line:
                batch.ended = True
                break
            if len(line) >= MOST_LINE_BYTES:
                raise LoaderError(f"{self._path}:{self._line + 1}: a line is longer than {MOST_LINE_BYTES} bytes")
            self._line += 1
            text = line.rstrip(b"\r\n")
            if not text:
                continue
            frame = self._frame(text)
            if frame.payload.value is None:
                if not self._tombstones:
                    batch.skipped += 1
                    continue
                batch.tombstones += 1
            frames.append(frame)
            batch.size += len(text) + 500
        batch.full = not batch.ended
        if self._line:
            batch.positions = {(self._path, 0): self._line}
        return batch

    def _frame(self, text: bytes) -> Frame:
        number = self._line - 1
        digest = blake2b(text, digest_size=DIGEST_BYTES).hexdigest()
        origin = Origin(self._path, 0, prefix(self._epoch, "file", self._path, digest))
        if self._lines == "values":
            return Frame(Payload(text, self._format), None, (), self._path, 0, number, 0, origin)
        try:
            found = orjson.loads(text)
            headers = _headers(found.get("headers") or ())
            payload = Payload(_bytes("value", found), self._format)
            return Frame(
                payload, _bytes("key", found), headers, self._path, 0, number, found.get("timestamp") or 0, origin
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            frame = Frame(Payload(text, self._format), None, (), self._path, 0, number, 0, origin)
            reason = error if isinstance(error, ValueError) else _SHAPE
            frame.payload.error = Undecodable(f"{self._path}:{self._line} is no message: {reason}")
            return frame

    def pause(self, paused: bool) -> None:
        self._paused = paused

    def positions(self) -> dict[Any, int]:
        """Where it is."""
        return {(self._path, 0): self._line}

    def commit(self, bucket: Bucket) -> None:
        """Nothing is kept."""

    def lag(self) -> int | None:
        return None

    def close(self, bucket: Bucket | None, deadline: float) -> None:
        if self._file is not None and self._path != "-":
            self._file.close()
        self._file = None


def _headers(found: Any) -> Headers:
    if isinstance(found, dict):
        return [(name, _bytes("value", {"value": value})) for name, value in found.items()]
    return [(each["name"], _bytes("value", each)) for each in found]


def _bytes(name: str, found: dict[str, Any]) -> bytes | None:
    if f"{name}_base64" in found:
        return b64decode(found[f"{name}_base64"])
    value = found.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return orjson.dumps(value)
