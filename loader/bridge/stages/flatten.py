"""Makes a message of each element of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson

from loader.bridge.columns import Columns
from loader.bridge.condition.functions import text
from loader.bridge.frame import Format, Frame, Headers, Undecodable
from loader.bridge.stages.flat import Flat, Names
from loader.bridge.stages.row import JSON, Row
from loader.bridge.stages.rows import Rows
from loader.bridge.stages.stage import Option, Outcome, RefusedFrame, StageContext

_MOST_SHAPES = 1_000
_MISSING = object()
_COUNTING = list(range(1_000))


class Flatten:
    """Rows are JSON whatever the record came as. A message that comes again makes the same rows, byte for byte."""

    name: ClassVar[str] = "flatten"
    summary: ClassVar[str] = (
        "Makes one message of each element of a list: fields of the record, fields of the element, and the whole "
        "element beside them if wanted. The rows leave as JSON. Where two would have one name the element's field "
        "keeps it and the record's is called parent_NAME. A message without the list, or with an empty one, counts as "
        "filtered."
    )
    options: ClassVar[Sequence[Option]] = (
        Option("each", "path", "Path of the list.", required=True),
        Option("keep", "list(path)", "Fields of the record that each row has; unset: all but the list."),
        Option(
            "fields",
            "list(path)",
            "Fields of the element that are columns; unset: all, without its lists where raw holds them.",
        ),
        Option("rename", "map(string)", 'Names in the row: { "deviceId" = "device_id" }. Else a.b is called a_b.', {}),
        Option("raw", "string", "Name of a column that holds the whole element, to fill columns from later."),
        Option("raw_as", "one of json|text", "json: as the object that it is. text: its JSON as a text.", "json"),
        Option("table", "string", "What the header that names the table gets."),
        Option("table_header", "string", "That header's name.", "table"),
        Option("key", "path", "Field of the record that becomes the message's key; unset: the key that came."),
    )

    def __init__(self, options: Mapping[str, Any], context: StageContext) -> None:
        self.plan = Flat(
            options["each"],
            options.get("keep") or None,
            options.get("fields") or None,
            options.get("rename") or {},
            options.get("raw"),
            options.get("raw_as") == "text",
            options.get("key"),
        )
        table = options.get("table")
        self._header = None if table is None else (options.get("table_header") or "table", table.encode())
        self._alone: Headers = () if self._header is None else (self._header,)
        self._shapes: dict[tuple[Any, ...], Names] = {}

    def apply(self, frames: list[Frame]) -> Outcome:
        outcome = Outcome()
        batch = self._ready(frames)
        add = outcome.frames.append
        for position, frame in enumerate(frames):
            headers = self._headers(frame.headers)
            ready = None if batch is None else batch[position]
            if ready is not None:
                key = frame.key
                for number, body in enumerate(ready):
                    add(Row(frame, body, number, headers, key))
                outcome.filtered += not ready
                continue
            try:
                key, rows = self._rows(frame)
            except (Undecodable, RefusedFrame) as error:
                outcome.refused.append((frame, str(error)))
                continue
            for number, body in rows:
                add(Row(frame, body, number, headers, key))
            outcome.filtered += not rows
        return outcome

    def sift(self, columns: Columns) -> Outcome:
        """As `apply`, without a frame for each row."""
        if self.plan.key is not None:
            return self.apply(list(columns))
        outcome = Outcome()
        batch = self._bodies(columns.format, [value or b"" for value in columns.values])
        bodies: list[bytes] = []
        of: list[int] = []
        numbers: list[int] = []
        for position in range(len(columns)):
            ready = None if batch is None else batch[position]
            if ready is not None:
                count = len(ready)
                bodies += ready
                of += [position] * count
                numbers += _COUNTING[:count] if count <= len(_COUNTING) else range(count)
                outcome.filtered += not count
                continue
            frame = columns[position]
            try:
                _, rows = self._rows(frame)
            except (Undecodable, RefusedFrame) as error:
                outcome.refused.append((frame, str(error)))
                continue
            bodies += [body for _, body in rows]
            of += [position] * len(rows)
            numbers += [number for number, _ in rows]
            outcome.filtered += not rows
        every = columns.headers
        headers = tuple(self._alone) if every is None else [self._headers(each or ()) for each in every]
        outcome.frames = Rows(columns, bodies, of, numbers, headers)
        return outcome

    def _ready(self, frames: list[Frame]) -> Sequence[Sequence[bytes] | None] | None:
        if not frames:
            return None
        # A changed message has no bytes of its format.
        return self._bodies(frames[0].payload.format, [b"" if each.changed else each.value() or b"" for each in frames])

    def _bodies(self, format: Format, values: Sequence[bytes]) -> Sequence[Sequence[bytes] | None] | None:
        """The rows' bodies where the format can make them at once."""
        flattened = getattr(format, "flattened", None)
        if self.plan.key is not None or not self.plan.flat or self.plan.raw_text or not flattened:
            return None
        found: Sequence[Sequence[bytes] | None] = flattened(values, self.plan)
        return found

    def _headers(self, headers: Headers) -> Headers:
        if self._header is None:
            return headers
        if not headers:
            return self._alone
        return [*(pair for pair in headers if pair[0] != self._header[0]), self._header]

    def _rows(self, frame: Frame) -> tuple[bytes | None, list[tuple[int, bytes]]]:
        """The rows' key, and each one's number and body. Raises Undecodable, RefusedFrame."""
        plan = self.plan
        record = frame.read_once()
        elements = _get(record, plan.each)
        if elements is None or elements is _MISSING:
            return None, []
        if not isinstance(elements, list):
            raise RefusedFrame(f"{'.'.join(plan.each)} is not a list")
        key = frame.key if plan.key is None else _key(_get(record, plan.key), plan.key)
        if len(plan.each) > 1 and plan.keep is None:
            record = _without(record, plan.each)
        rows: list[tuple[int, bytes]] = []
        raw, lists_matter = plan.raw, plan.raw is not None and plan.fields is None
        shape: tuple[Any, ...] | None = None
        head: dict[str, Any] = {}
        inner: Sequence[tuple[str, str]] | None = None
        names: Names | None = None
        for number, element in enumerate(elements):
            if not isinstance(element, dict):
                if element is None:
                    continue  # it says nothing; the numbers of the others stay
                element = {"value": element}
            # Whether a field is a list matters only where lists are left to the raw column.
            found = (tuple(element), tuple(map(type, element.values())) if lists_matter else ())
            if found != shape:
                shape = found
                names = self._names(record, shape)
                head = {name: value for path, name in names.parents if (value := _get(record, path)) is not _MISSING}
                plain = all(len(path) == 1 and path[0] in element for path, _ in names.elements)
                inner = [(path[0], name) for path, name in names.elements] if plain else None
            row = head.copy()
            if inner is not None:
                for field, name in inner:
                    row[name] = element[field]
            elif names is not None:
                for path, name in names.elements:
                    value = _get(element, path)
                    if value is not _MISSING:
                        row[name] = value
            if raw is not None:
                row[raw] = JSON.encode(element).decode() if plan.raw_text else element
            try:
                body = orjson.dumps(row)
            except TypeError:  # an integer beyond 64 bit, say
                body = JSON.encode(row)
            rows.append((number, body))
        return key, rows

    def _names(self, record: Any, shape: tuple[Any, ...]) -> Names:
        known = (tuple(record), *shape)
        names = self._shapes.get(known)
        if names is None:
            keys, classes = shape
            lists = {key for key, kind in zip(keys, classes, strict=False) if kind is list}
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            names = self._shapes[known] = self.plan.names(tuple(record), keys, lists.__contains__)
        return names

    def why(self, frame: Frame) -> str:
        """How many rows."""
        elements = frame.get(self.plan.each)
        count = len(elements) if isinstance(elements, list) else 0
        return f"{'.'.join(self.plan.each)} has {count} elements"


def _get(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _without(record: Any, path: Sequence[str]) -> Any:
    """The record without the list; objects on the way are copied."""
    name, rest = path[0], path[1:]
    return {
        key: (_without(value, rest) if key == name and rest else value)
        for key, value in record.items()
        if key != name or rest
    }


def _key(value: Any, path: Sequence[str]) -> bytes | None:
    if value is None or value is _MISSING:
        return None
    written = text(value)
    if written is None:
        raise RefusedFrame(f"{'.'.join(path)} cannot be a key: it is a list or map")
    return written.encode("utf-8", "surrogatepass")


STAGE = Flatten
