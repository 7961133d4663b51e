"""Batches of one schema read into columns by polars (the extra `bridge-fast`), at a third of the CPU and less.

The data of a batch are put behind a header, as one block of an Avro container file. What comes of it is byte for byte
what the single way gives: a message may go one way today and the other one tomorrow, and must have one digest. So
whatever polars reads or writes differently is not read here at all (`readable`), floats become the doubles that they
are exactly, and each datum is followed by its number: one that is longer or shorter than its bytes shifts the next
number, and the whole batch goes the single way, which tells the bad message from the good ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from loader.bridge.formats.avro import PREFIX_BYTES, wrapped
from loader.bridge.formats.avro_layout import Layout, layout
from loader.bridge.stages.flat import Flat

# One core a process: processes are how the bridge is scaled.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars as pl
from polars.exceptions import PanicException

_SYNC = b"pubsub-postgres-"
_SIMPLE = frozenset({"boolean", "int", "long", "float", "double", "string"})
_NULLABLE = frozenset({"null"})
_TIMES = frozenset({"timestamp-millis", "timestamp-micros"})


def readable(schema: Any) -> bool:
    """Whether polars reads every type of the schema exactly as it is. No named type may be used twice."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        # The order matters to polars: null first.
        return len(schema) == 2 and len(others) == 1 and schema[0] == "null" and _not_null(others[0], nullable=True)
    return _not_null(schema, nullable=False)


def _not_null(schema: Any, nullable: bool) -> bool:
    if isinstance(schema, str):
        return schema in _SIMPLE
    if isinstance(schema, list):
        return False
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        return bool(schema["fields"]) and all(readable(field["type"]) for field in schema["fields"])
    if kind == "array":
        return readable(schema["items"])
    if kind == "enum":
        return not nullable
    if logical is not None:
        return kind == "long" and logical in _TIMES
    return kind in _SIMPLE


class Columns:
    """Reads batches of one schema, a record's."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        header = json.dumps(wrapped(schema, "long")).encode()
        self._header = b"Obj\x01\x02\x16avro.schema%b%b\x00%b" % (_long(len(header)), header, _SYNC)
        self._numbers = [_long(number) for number in range(1_024)]
        self._casts: dict[Any, Any] | None = None
        self._plans: dict[int, tuple[_Rows | None, Flat]] = {}

    def rows(self, values: Sequence[bytes], plan: Flat) -> list[list[bytes]] | None:
        """For each framed value the bodies of its rows; None: this batch, or this schema, must go the single way."""
        made = self._plans.get(id(plan))
        if made is None:
            # The plan is kept along: its id must not become another one's.
            rows = layout(self._schema, plan)
            made = self._plans[id(plan)] = (None if rows is None else _Rows(rows), plan)
        if made[0] is None:
            return None
        try:
            frame = self._read(values)
            return None if frame is None else made[0].make(frame)
        except (Exception, PanicException):  # polars panics on data that it does not expect
            return None

    def _read(self, values: Sequence[bytes]) -> Any:
        count = len(values)
        while len(self._numbers) < count:
            self._numbers.append(_long(len(self._numbers)))
        parts: list[bytes] = []
        for value, number in zip(values, self._numbers, strict=False):
            parts += (value[PREFIX_BYTES:], number)
        body = b"".join(parts)
        whole = b"%b%b%b%b%b" % (self._header, _long(count), _long(len(body)), body, _SYNC)
        frame = pl.read_avro(BytesIO(whole))
        if frame.height != count or frame["end"].to_list() != list(range(count)):
            return None
        frame = frame["datum"].struct.unnest()
        if self._casts is None:
            self._casts = {name: wanted for name, there in frame.schema.items() if (wanted := _doubles(there)) != there}
        return frame.cast(self._casts) if self._casts else frame


class _Rows:
    """What a flatten stage makes of a schema."""

    def __init__(self, rows: Layout) -> None:
        self._each = rows.each
        self._parents = rows.parents
        self._elements = rows.elements
        self._raw = rows.raw
        self._order = rows.order

    def make(self, frame: Any) -> list[list[bytes]]:
        counts = frame[self._each].list.len().fill_null(0)
        hidden = "\0each"
        parents = [pl.col(field).alias(name) for field, name in self._parents]
        rows = frame.filter(counts > 0).select(*parents, pl.col(self._each).alias(hidden)).explode(hidden)
        elements = [pl.col(hidden).struct.field(field).alias(name) for field, name in self._elements]
        raw = [pl.col(hidden).alias(self._raw)] if self._raw else []
        # As bytes at once: a text for each row would be made only to be encoded again.
        body = pl.struct(self._order).struct.json_encode().cast(pl.Binary).alias(hidden)
        lines = rows.with_columns(*elements, *raw).select(body).to_series().to_list()
        made, at = [], 0
        for count in counts.to_list():
            made.append(lines[at : at + count])
            at += count
        if at != len(lines):
            raise ValueError(f"{at} rows were to be made and {len(lines)} were")
        return made


def _doubles(kind: Any) -> Any:
    """The column's type with doubles for floats, however deep."""
    if kind == pl.Float32:
        return pl.Float64
    if isinstance(kind, pl.List):
        return pl.List(_doubles(kind.inner))
    if isinstance(kind, pl.Struct):
        return pl.Struct([pl.Field(field.name, _doubles(field.dtype)) for field in kind.fields])
    return kind


def _long(number: int) -> bytes:
    """A number as Avro writes it."""
    number <<= 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
