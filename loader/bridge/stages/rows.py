"""The rows of many messages by columns: a frame is made only of a row that something looks at.

See loader/bridge/columns.py for why: a message gives several rows, and an object for each of them would cost as much as
decoding it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from loader.bridge.columns import Columns
from loader.bridge.frame import Frame, Headers
from loader.bridge.stages.row import Row


class Rows(Sequence[Frame]):
    """Never changed, so that sinks may share it."""

    __slots__ = ("bodies", "columns", "headers", "numbers", "of")

    def __init__(
        self,
        columns: Columns,
        bodies: Sequence[bytes],
        of: Sequence[int],
        numbers: Sequence[int],
        headers: Sequence[Headers] | Headers,
    ) -> None:
        self.columns = columns
        """The messages."""
        self.bodies = bodies
        self.of = of
        """Of which message each row is, in order."""
        self.numbers = numbers
        """Which of the message's rows it is."""
        self.headers = headers
        """A list: one for each message. A tuple: the same for all."""

    def __len__(self) -> int:
        return len(self.bodies)

    def headers_of(self, message: int) -> Headers:
        """The headers of a message's rows."""
        return self.headers if isinstance(self.headers, tuple) else self.headers[message]  # type: ignore[return-value]

    @overload
    def __getitem__(self, at: int) -> Frame: ...

    @overload
    def __getitem__(self, at: slice) -> Rows: ...

    def __getitem__(self, at: int | slice) -> Frame | Rows:
        if isinstance(at, slice):
            return Rows(self.columns, self.bodies[at], self.of[at], self.numbers[at], self.headers)
        return self._row(at, self.columns[self.of[at]])

    def __iter__(self) -> Iterator[Frame]:
        last, frame = -1, None
        for at, message in enumerate(self.of):
            if message != last or frame is None:
                last, frame = message, self.columns[message]
            yield self._row(at, frame)

    def _row(self, at: int, frame: Frame) -> Row:
        return Row(frame, self.bodies[at], self.numbers[at], self.headers_of(self.of[at]), frame.key)
