"""What becomes of Avro's values in JSON, type by type; the table in the README says the same in words.

Avro's own types are JSON's, but for these: bytes and fixed are base64, NaN and the infinities null (orjson writes them
so), decimals texts with every digit, dates and times ISO 8601. A logical type that its base type does not carry, or
with a precision or scale that is none, counts as absent, as the specification wants it.
"""

from __future__ import annotations

import datetime
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

Convert = Callable[[Any], Any]

_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
"""The Gregorian calendar begins anew after 400 years: any year is told by one that Python's dates can hold."""
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_DAY = 86_400
_MOST_REMEMBERED = 100_000

MILLIS_ENDS = ["+00:00", *(f".{rest:03d}+00:00" for rest in range(1, 1_000))]
"""How a timestamp ends, by its thousandths."""
_seconds: dict[int, str] = {}


def _day(days: int) -> str:
    """ISO 8601 of a day since the epoch; years beyond four digits have a sign: +10000-01-01, -0044-03-15."""
    cycles, within = divmod(days + _EPOCH_ORDINAL - 1, _CYCLE_DAYS)
    day = datetime.date.fromordinal(within + 1)
    year = day.year + cycles * _CYCLE_YEARS
    spelled = f"{year:04d}" if 0 <= year <= 9_999 else f"{year:+05d}"
    return f"{spelled}-{day.month:02d}-{day.day:02d}"


def second(seconds: int) -> str:
    """ISO 8601 of a second since the epoch, without a zone."""
    text = _seconds.get(seconds)
    if text is None:
        days, rest = divmod(seconds, _DAY)
        text = f"{_day(days)}T{rest // 3_600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
        if len(_seconds) >= _MOST_REMEMBERED:
            _seconds.clear()
        # Devices report within the same few minutes: most seconds are met again and again.
        _seconds[seconds] = text
    return text


def _fraction(value: int, digits: int) -> str:
    """As many groups of three digits as there is something to tell."""
    if not value:
        return ""
    text = f"{value:0{digits}d}"
    while text.endswith("000"):
        text = text[:-3]
    return "." + text


def millis(value: int) -> str:
    """A timestamp in milliseconds since the epoch: 2026-11-30T16:00:00.125+00:00."""
    seconds = value // 1_000
    return (_seconds.get(seconds) or second(seconds)) + MILLIS_ENDS[value - seconds * 1_000]


def millis_in(records: Any, name: str) -> Any:
    """`millis` of one field of many records, in place: points of a track are most of what there is to convert."""
    known = _seconds.get
    for record in records:
        value = record[name]
        seconds = value // 1_000
        record[name] = (known(seconds) or second(seconds)) + MILLIS_ENDS[value - seconds * 1_000]
    return records


def _timestamp(units: int, digits: int, zone: str, value: int) -> str:
    seconds, rest = divmod(value, units)
    return f"{second(seconds)}{_fraction(rest, digits)}{zone}"


def _time(units: int, digits: int, value: int) -> Any:
    """A time of day; a number that is beyond the day is no time and stays one."""
    seconds, rest = divmod(value, units)
    if not 0 <= seconds < _DAY:
        return value
    clock = f"{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return clock + _fraction(rest, digits)


def _bytes(value: bytes | str) -> bytes:
    """Defaults of a reader schema are texts whose characters are bytes."""
    return value.encode("latin-1") if isinstance(value, str) else value


def _decimal(scale: int, value: bytes) -> str:
    number = int.from_bytes(_bytes(value), "big", signed=True)
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    if not scale:
        return sign + digits
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _base64(value: bytes) -> str:
    return b64encode(_bytes(value)).decode()


def _duration(value: bytes) -> str:
    """Months, days and milliseconds, as ISO 8601 spells a duration: P1M2DT3.004S."""
    value = _bytes(value)
    months, days, thousandths = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    seconds, rest = divmod(thousandths, 1_000)
    return f"P{months}M{days}DT{seconds}{_fraction(rest, 3)}S"


def _uuid(value: bytes) -> str:
    return str(UUID(bytes=_bytes(value)))


_LONG: Mapping[str, Convert] = {
    "timestamp-millis": millis,
    "timestamp-micros": partial(_timestamp, 1_000_000, 6, "+00:00"),
    "timestamp-nanos": partial(_timestamp, 1_000_000_000, 9, "+00:00"),
    "local-timestamp-millis": partial(_timestamp, 1_000, 3, ""),
    "local-timestamp-micros": partial(_timestamp, 1_000_000, 6, ""),
    "local-timestamp-nanos": partial(_timestamp, 1_000_000_000, 9, ""),
    "time-micros": partial(_time, 1_000_000, 6),
}
_INT: Mapping[str, Convert] = {"date": _day, "time-millis": partial(_time, 1_000, 3)}


def leaf(schema: Any) -> Convert | None:
    """How a value of a type without inner types is converted; None: it is as it is."""
    kind, logical = (schema, None) if isinstance(schema, str) else (schema["type"], schema.get("logicalType"))
    if kind == "long":
        return _LONG.get(str(logical))
    if kind == "int":
        return _INT.get(str(logical))
    if kind not in ("bytes", "fixed"):
        return None
    size = schema.get("size") if kind == "fixed" else None
    if logical == "decimal" and (scale := _scale(schema, size)) is not None:
        return partial(_decimal, scale)
    if logical == "duration" and size == 12:
        return _duration
    if logical == "uuid" and size == 16:
        return _uuid
    return _base64


def _scale(schema: Mapping[str, Any], size: int | None) -> int | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if size is not None and precision > len(str(2 ** (8 * size - 1) - 1)) - (size > 0):
        return None
    return scale
