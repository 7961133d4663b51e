"""What a column takes: a value is stored only if it comes back from the column exactly as it went in."""

from __future__ import annotations

import datetime
import json
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from loader.plan.timestamp import instant

MIN_BIGINT = -(2**63)
MAX_BIGINT = 2**63 - 1

SUSPECT = float(2**63)
"""orjson reads integers beyond 64 bit as floats; any float that large may have been one."""

REFUSED = object()
"""Answer of `accept` for a value that does not fit the column exactly."""

# How the hot loop of fit.py handles a slot. Everything else goes through `accept`.
DIRECT, INT, FLOAT, TIME, DICT, LIST, SLOW = range(7)


class Kind(NamedTuple):
    """A Postgres column type as the loader sees it."""

    data_type: str
    """dlt's name of the type; empty for types that dlt does not know."""
    fast: int
    """DIRECT … SLOW, above."""
    python: type | None
    """The class that the fast way takes."""
    accept: Callable[[Any], Any]
    """The value to send, or REFUSED."""


class InexactNumber(Exception):
    """A number that orjson turned into a float may have been an integer beyond 64 bit: parse the body again."""


_SUSPECT_NUMBER = re.compile(rb"\de\+?(?:1[89]|[2-9]\d|\d{3})").search


def json_text(value: Any, exact: bool = False) -> str:
    """JSON text of a value for a jsonb column.

    Raises InexactNumber when it cannot tell (exact=False) whether orjson rounded an integer in `value`, or when that
    holds an integer beyond 64 bit already; ValueError when it is nested too deeply to be written.
    """
    if not exact:
        try:
            data = orjson.dumps(value)
        except TypeError:  # an integer beyond 64 bit, or nested more than 254 levels deep: the exact way can
            raise InexactNumber from None
        if _SUSPECT_NUMBER(data):
            raise InexactNumber
        return data.decode()
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise ValueError("nested too deeply to be written as JSON") from error


def _integer(low: int, high: int) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        return value if value.__class__ is int and low <= value <= high else REFUSED

    return accept


def _double(value: Any) -> Any:
    if value.__class__ is float:
        return value
    if value.__class__ is int:
        try:
            return value if int(float(value)) == value else REFUSED
        except OverflowError:
            return REFUSED
    return REFUSED


def _real(value: Any) -> Any:
    if value.__class__ not in (float, int):
        return REFUSED
    try:
        return value if struct.unpack("f", struct.pack("f", value))[0] == value else REFUSED
    except (OverflowError, struct.error):
        return REFUSED


def _boolean(value: Any) -> Any:
    return value if value.__class__ is bool else REFUSED


def _text(value: Any) -> Any:
    return value if value.__class__ is str else REFUSED


def _varchar(length: int) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        return value if value.__class__ is str and len(value) <= length else REFUSED

    return accept


def _char(length: int) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        # Shorter texts would be padded with blanks, trailing blanks are dropped on reading.
        fits = value.__class__ is str and len(value) == length and not value.endswith(" ")
        return value if fits else REFUSED

    return accept


def _timestamptz(value: Any) -> Any:
    if value.__class__ is not str:
        return REFUSED
    text = instant(value)
    return REFUSED if text is None else text


_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII).match


def _date(value: Any) -> Any:
    if value.__class__ is not str or not _DATE(value):
        return REFUSED
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return REFUSED
    return value


def _json(value: Any) -> Any:
    return value if value.__class__ is dict or value.__class__ is list else REFUSED


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z").match


def _uuid(value: Any) -> Any:
    return value if value.__class__ is str and _UUID(value) else REFUSED


def _numeric(precision: int | None, scale: int) -> Callable[[Any], Any]:
    def accept(value: Any) -> Any:
        if value.__class__ not in (int, float):
            return REFUSED
        if precision is None:
            return repr(value)
        number = Decimal(repr(value))
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int) or -exponent > scale or number.adjusted() >= precision - scale:
            return REFUSED
        return repr(value)

    return accept


def _refuse(value: Any) -> Any:
    return REFUSED


TEXT = Kind("text", DIRECT, str, _text)
BOOLEAN = Kind("bool", DIRECT, bool, _boolean)
BIGINT = Kind("bigint", INT, int, _integer(MIN_BIGINT, MAX_BIGINT))
DOUBLE = Kind("double", FLOAT, float, _double)
TIMESTAMPTZ = Kind("timestamp", TIME, str, _timestamptz)
JSONB = Kind("json", SLOW, None, _json)

BY_DATA_TYPE = {kind.data_type: kind for kind in (TEXT, BOOLEAN, BIGINT, DOUBLE, TIMESTAMPTZ, JSONB)}

_BY_PG_TYPE: dict[str, Kind] = {
    "text": TEXT,
    "character varying": TEXT,
    "boolean": BOOLEAN,
    "bigint": BIGINT,
    "integer": Kind("bigint", SLOW, None, _integer(-(2**31), 2**31 - 1)),
    "smallint": Kind("bigint", SLOW, None, _integer(-(2**15), 2**15 - 1)),
    "double precision": DOUBLE,
    "real": Kind("double", SLOW, None, _real),
    "timestamp with time zone": TIMESTAMPTZ,
    "timestamp(6) with time zone": TIMESTAMPTZ,
    "date": Kind("date", SLOW, None, _date),
    "jsonb": JSONB,
    "json": JSONB,
    "uuid": Kind("text", SLOW, None, _uuid),
    "numeric": Kind("decimal", SLOW, None, _numeric(None, 0)),
    "bytea": Kind("binary", SLOW, None, _refuse),
}

_SIZED = re.compile(r"(character varying|character|numeric)\((\d+)(?:,(-?\d+))?\)\Z").match


@lru_cache(maxsize=1024)
def kind_of(pg_type: str) -> Kind:
    """The kind of a column from `format_type(atttypid, atttypmod)`; a type that we cannot fill exactly refuses all."""
    kind = _BY_PG_TYPE.get(pg_type)
    if kind is not None:
        return kind
    sized = _SIZED(pg_type)
    if sized is None:
        return Kind("", SLOW, None, _refuse)
    name, first, second = sized[1], int(sized[2]), int(sized[3] or 0)
    if name == "character varying":
        return Kind("text", SLOW, None, _varchar(first))
    if name == "character":
        return Kind("text", SLOW, None, _char(first))
    return Kind("decimal", SLOW, None, _numeric(first, second))


_DATA_TYPES: dict[type, str] = {str: "text", float: "double", bool: "bool", dict: "json", list: "json"}


def data_type_of(value: Any) -> str:
    """dlt's type of a variant column for this value. Text stays text even if it looks like an instant."""
    if value.__class__ is int:
        return "bigint" if MIN_BIGINT <= value <= MAX_BIGINT else "text"
    return _DATA_TYPES[value.__class__]


def base_type_of(value: Any) -> str:
    """dlt's type of a new column that starts with this value. Integers beyond 64 bit begin a bigint all the same:
    the digits go to its text variant, so that the order of messages does not decide the column's type."""
    if value.__class__ is str:
        return "text" if instant(value) is None else "timestamp"
    if value.__class__ is int:
        return "bigint"
    return _DATA_TYPES[value.__class__]


def variant_value(value: Any) -> Any:
    """What a variant column stores: integers beyond 64 bit as text with every digit."""
    if value.__class__ is int and BIGINT.accept(value) is REFUSED:
        return str(value)
    return value
