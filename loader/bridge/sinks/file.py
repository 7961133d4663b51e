"""A file of lines as a sink, `-` for standard output. A message is confirmed when the disk has it."""

from __future__ import annotations

import gzip
import os
import queue
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, BinaryIO, Literal, NamedTuple

import orjson

from loader.bridge.engine.bucket import Share
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.identity import suffix
from loader.bridge.sinks.dispatch import Backoff
from loader.bridge.sinks.sink import Delivery, identity_of

Lines = Literal["values", "messages"]


class _Work(NamedTuple):
    frames: Sequence[Frame]
    share: Share
    size: float


class FileSink:
    """Appends. With `compress` each group of messages is a gzip member of its own, so that a crash spoils none before.

    `lines="messages"` writes an object a line: key, headers, value, topic, partition, offset, timestamp, event_id;
    bytes that are no text are given as `value_base64`. With `values` a payload that has line breaks is refused."""

    def __init__(
        self,
        name: str,
        path: str,
        delivery: Delivery,
        *,
        lines: Lines = "values",
        compress: bool = False,
        pipeline: str | None = None,
    ) -> None:
        self.name = name
        self.trouble: str | None = None
        self._path = path
        self._delivery = delivery
        self._lines = lines
        self._compress = compress
        self._end = suffix(pipeline).encode()
        self._backoff = Backoff()
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._file: BinaryIO | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"file {name}", daemon=True)
        self._thread.start()

    @property
    def backoff_seconds(self) -> float:
        return self._backoff.spent

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        """Queue frames for the writing thread."""
        self._queue.put(_Work(frames, share, size))

    def flush(self) -> None:
        """Nothing: what is queued is written at once."""

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            group = [work]
            end = False
            # One fsync for all that came meanwhile.
            while not end and len(group) < 100:
                try:
                    more = self._queue.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    end = True
                else:
                    group.append(more)
            self._settle(group)
            if end:
                return

    def _settle(self, group: list[_Work]) -> None:
        text: list[bytes] = []
        counts: list[int] = []
        for work in group:
            count = 0
            for frame in work.frames:
                try:
                    text.append(self._line(frame))
                    count += 1
                except (Undecodable, ValueError) as error:
                    self._delivery.refuse(work.share, frame, str(error), work.size / len(work.frames))
            counts.append(count)
        if text and not self._write(b"".join(text)):
            return  # closed meanwhile: unconfirmed, so it comes again
        for work, count in zip(group, counts, strict=True):
            if count:
                self._delivery.confirm(work.share, count, work.size * count / len(work.frames))

    def _write(self, data: bytes) -> bool:
        if self._compress:
            data = gzip.compress(data, 6)
        while True:
            try:
                self._append(data)
            except OSError as error:
                self.trouble = f"{self._path}: {error.strerror}"
                if self._closed.wait(self._backoff.fail(time.monotonic(), None)):
                    return False
                continue
            self.trouble = None
            self._backoff.succeed()
            return True

    def _append(self, data: bytes) -> None:
        if self._path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        if self._file is None:
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
        start = self._file.seek(0, os.SEEK_END)
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
        except OSError:
            # A disk that is full may have taken a part: half a line would be glued to the next one.
            self._file.truncate(start)
            raise

    def _line(self, frame: Frame) -> bytes:
        value = frame.value()
        if self._lines == "messages":
            return orjson.dumps(self._message(frame, value), option=orjson.OPT_APPEND_NEWLINE)
        value = value or b""
        if b"\n" in value or b"\r" in value:
            raise ValueError('the payload has line breaks; a file with lines = "messages" takes it')
        return value + b"\n"

    def _message(self, frame: Frame, value: bytes | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "topic": frame.topic,
            "partition": frame.partition,
            "offset": frame.offset,
            "timestamp": frame.timestamp,
            "event_id": identity_of(frame, self._end).decode(),
            **_text("key", frame.key),
            "headers": [{"name": name, **_text("value", header)} for name, header in frame.headers],
        }
        return {**found, **_text("value", value)}

    def close(self, deadline: float) -> bool:
        self._queue.put(None)
        self._thread.join(max(0.05, deadline - time.monotonic()))
        done = not self._thread.is_alive()
        self._closed.set()
        if done and self._file is not None:
            self._file.close()
        return done


def _text(name: str, value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}
