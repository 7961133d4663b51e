"""A format that counts what is decoded and encoded, for the pipeline whose thread asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from loader.bridge.engine.counts import Counts
from loader.bridge.frame import Format


class _Working(threading.local):
    counts: Counts | None = None
    """Of the pipeline whose thread this is."""


working = _Working()


class CountedFormat:
    """A format that counts for the pipeline whose thread asks."""

    def __init__(self, format: Format) -> None:
        self.name = format.name
        self._format = format
        self.bare = format.decode
        """Decodes without counting, for those who tell `decoded` afterwards."""
        if hasattr(format, "flattened"):
            self.flattened = self._flattened

    def decode(self, value: bytes) -> object:
        counts = working.counts
        if counts is not None:
            counts.decodes += 1
        return self._format.decode(value)

    def decoded(self, count: int) -> None:
        """So many were decoded by `bare`."""
        counts = working.counts
        if counts is not None:
            counts.decodes += count

    def decode_exactly(self, value: bytes, fields: object) -> object:
        return self._format.decode_exactly(value, fields)

    def encode(self, fields: object) -> bytes:
        counts = working.counts
        if counts is not None:
            counts.encodes += 1
        return self._format.encode(fields)

    def _flattened(self, values: Sequence[bytes], plan: object) -> object:
        counts = working.counts
        rows = self._format.flattened(values, plan)  # type: ignore[attr-defined]
        if counts is not None:
            counts.decodes += sum(each is not None for each in rows)
        return rows
