"""Avro payloads in Confluent's framing: a zero, the writer's schema id in four bytes, the datum.

A payload is read by the schema that it was written with, unless a reader schema says otherwise, and becomes JSON's
values (avro_values.py). Once a stage changes it, it leaves as JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import orjson
from fastavro.schema import SchemaParseException

from loader.bridge.formats.avro_compile import Maker, row_maker
from loader.bridge.formats.avro_convert import Converter
from loader.bridge.formats.avro_guard import Guard, Suspicious, needs_guard
from loader.bridge.formats.avro_layout import layout
from loader.bridge.formats.json import Json
from loader.bridge.frame import Unavailable, Undecodable
from loader.bridge.registry.client import Access, NoSuchSchema, Registry
from loader.bridge.registry.schema import InvalidSchema, in_one_piece, read
from loader.bridge.registry.schemas import Schemas
from loader.bridge.stages.flat import Flat
from loader.errors import ConfigurationError

log = logging.getLogger(__name__)

PREFIX_BYTES = 5
COLUMNS_FROM = 32
"""Messages of one schema in a batch; fewer are read one by one, for making columns takes its time."""
_END = b"\xfe\x01AV"
_WRAPPED = "bridge_datum"


def wrapped(schema: Any, end: Any) -> dict[str, Any]:
    """A record of the datum and a mark behind it: bytes that are left over or missing are told by the mark.

    fastavro takes what is there when a text is cut off, and does not say so."""
    fields = [{"name": "datum", "type": schema}, {"name": "end", "type": end}]
    return {"type": "record", "name": _WRAPPED, "fields": fields}


_FIXED_END = {"type": "fixed", "name": "bridge_end", "size": len(_END)}


class Reading:
    """What is needed to read data of one writer's schema."""

    __slots__ = ("_convert", "_copies", "_guard", "_makers", "_reader", "_writer", "columns", "schema")

    def __init__(self, schema: Any, reader: Any = None) -> None:
        """Raises NoSuchSchema for a schema that fastavro does not take."""
        self.schema = schema
        self.columns: Any = None
        """Reads batches (avro_columns.py); False: nothing does. None: not asked yet."""
        converter = Converter(schema if reader is None else reader)
        writer = converter if reader is None else Converter(schema)
        try:
            self._writer = fastavro.parse_schema(wrapped(writer.schema, _FIXED_END))
            self._reader = None if reader is None else fastavro.parse_schema(wrapped(converter.schema, _FIXED_END))
        except (SchemaParseException, KeyError, TypeError, ValueError) as error:
            raise NoSuchSchema(f"the schema cannot be used: {error!r}") from None
        self._convert = converter.convert
        # Defaults of the reader's schema are objects of that schema: they must not be converted in place.
        self._copies = reader is not None and self._convert is not None
        self._guard = Guard(schema) if needs_guard(schema) else None
        self._makers: dict[int, tuple[Maker | None, Flat]] = {}

    def maker(self, plan: Flat) -> Maker | None:
        """What makes rows of a datum at once; None where it has to be decoded first."""
        made = self._makers.get(id(plan))
        if made is None:
            is_record = isinstance(self.schema, dict) and self.schema["type"] == "record" and self._reader is None
            rows = layout(self.schema, plan) if is_record else None
            # The plan is kept along: its id must not become another one's.
            made = self._makers[id(plan)] = (None if rows is None else row_maker(self.schema, rows), plan)
        return made[0]

    def datum(self, value: bytes) -> Any:
        """A framed payload's datum as JSON's values. Raises Undecodable."""
        try:
            if self._guard is not None:
                self._guard.check(value, PREFIX_BYTES)
            found: Any = fastavro.schemaless_reader(BytesIO(value[PREFIX_BYTES:] + _END), self._writer, self._reader)
            if found["end"] != _END:
                raise Undecodable("not of its schema: bytes are missing or left over")
            datum = found["datum"]
            if self._convert is None:
                return datum
            return self._convert(deepcopy(datum) if self._copies else datum)
        except Undecodable:
            raise
        except Suspicious as error:
            raise Undecodable(f"not read: {error}") from None
        except EOFError:
            raise Undecodable("not of its schema: it ends in the middle of a value") from None
        except Exception as error:  # whatever a parser stumbles over in bytes that are no such datum
            raise Undecodable(f"not of its schema: {type(error).__name__} {error}"[:300]) from None


class Avro:
    """One registry. Thread-safe."""

    name = "avro"

    def __init__(
        self, registry: Registry, subject: str | None = None, reader_schema: Any = None, columnar: bool = True
    ) -> None:
        self._subject = subject
        self._reader_schema = reader_schema
        self.schemas: Schemas[Reading] = Schemas(registry, lambda schema: Reading(schema, reader_schema))
        self.columnar = columnar and reader_schema is None
        """Whether whole batches may be read into columns."""
        self._json = Json()

    def start(self) -> None:
        """Load the newest schema of the subject, if one is named, and what reads columns: no message is to wait for
        either. A registry that is down is asked again when the first message comes."""
        if self.columnar:
            _reader_of_columns()
        if self._subject:
            try:
                number = self.schemas.fetch_newest(self._subject)
                log.info("the newest schema of %s is %d", self._subject, number)
            except (NoSuchSchema, Unavailable) as error:
                log.warning("the newest schema of %s is not loaded yet: %s", self._subject, error)

    def decode(self, value: bytes) -> Any:
        """The datum as JSON's values. Raises Undecodable, NotYetFetched."""
        return self.schemas.get(schema_id(value)).datum(value)

    def decode_exactly(self, value: bytes, fields: Any) -> Any:
        """The fields: Avro's numbers are exact already."""
        return fields

    def flattened(self, values: Sequence[bytes], plan: Flat) -> list[Sequence[bytes] | None]:
        """For each value the bodies of its rows, read in columns or by a function made for its schema; None for those
        to be decoded and looked at one by one.

        Raises NotYetFetched."""
        found: list[Sequence[bytes] | None] = [None] * len(values)
        for number, positions in by_schema(values).items():
            try:
                reading = self.schemas.get(number)
            except Undecodable:
                continue  # each of them is refused on its own
            some = values if len(positions) == len(values) else [values[position] for position in positions]
            rows = self._in_columns(reading, some, plan)
            if rows is None:
                make = reading.maker(plan)
                if make is None:
                    continue
                rows = list(map(make, some))
            if some is values:
                return rows
            for position, each in zip(positions, rows, strict=True):
                found[position] = each
        return found

    def _in_columns(self, reading: Reading, values: Sequence[bytes], plan: Flat) -> Any:
        if not self.columnar or len(values) < COLUMNS_FROM:
            return None
        if reading.columns is None:
            reading.columns = _columns(reading.schema)
        return reading.columns.rows(values, plan) if reading.columns else None

    def encode(self, fields: Any) -> bytes:
        """JSON, with null for NaN and the infinities. Raises Undecodable."""
        try:
            return orjson.dumps(fields)
        except TypeError:
            return self._json.encode(fields)


def schema_id(value: bytes) -> int:
    """The id of the writer's schema. Raises Undecodable for another framing."""
    if len(value) < PREFIX_BYTES or value[0]:
        start = value[:PREFIX_BYTES].hex(" ")
        raise Undecodable(f"not framed Avro: it begins with {start or 'nothing'}, not with a zero and a schema id")
    return int.from_bytes(value[1:PREFIX_BYTES], "big")


def _reader_of_columns() -> Any:
    """The module, None without the extra bridge-fast."""
    try:
        from loader.bridge.formats import avro_columns
    except ImportError:
        return None
    return avro_columns


def _columns(schema: Any) -> Any:
    module = _reader_of_columns()
    is_record = isinstance(schema, dict) and schema["type"] == "record"
    return module.Columns(schema) if module and is_record and module.readable(schema) else False


def by_schema(values: Sequence[bytes]) -> dict[int, Sequence[int]]:
    """Positions of the framed values by schema id."""
    starts = [value[:PREFIX_BYTES] for value in values]
    if starts and starts.count(starts[0]) == len(starts) and len(starts[0]) == PREFIX_BYTES and not starts[0][0]:
        return {int.from_bytes(starts[0][1:], "big"): range(len(starts))}  # nearly always
    found: dict[int, list[int]] = {}
    for position, start in enumerate(starts):
        if len(start) == PREFIX_BYTES and not start[0]:
            found.setdefault(int.from_bytes(start[1:], "big"), []).append(position)
    return dict(found)


def make(options: Mapping[str, Any]) -> Avro:
    """The format that `format "avro" { … }` describes. Asks nobody yet. Raises ConfigurationError."""
    access = Access(
        options["registry"],
        options.get("username"),
        options.get("password"),
        options.get("token"),
        options.get("ca_file"),
        options.get("cert_file"),
        options.get("key_file"),
        float(options.get("timeout") or 5.0),
    )
    reader = None
    if path := options.get("reader_schema"):
        try:
            reader = in_one_piece(read(Path(path).read_text(encoding="utf-8")))
            Reading(reader)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"reader_schema {path}: {getattr(error, 'strerror', None) or error}") from None
        except (InvalidSchema, NoSuchSchema) as error:
            raise ConfigurationError(f"reader_schema {path}: {error}") from None
    return Avro(Registry(access), options.get("subject"), reader, options.get("columnar", "auto") == "auto")
