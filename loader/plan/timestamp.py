"""Which texts are instants: the ones that dlt detects as timestamps, and only those that Postgres stores unchanged."""

from __future__ import annotations

import datetime
import re
from collections import deque
from collections.abc import Sequence

from dlt.common.schema.detections import is_iso_timestamp
from dlt.common.time import parse_iso_like_datetime

_UTC = datetime.UTC
_LONGEST = 64

# The everyday spellings, which Postgres reads as Python does. Offsets beyond 15 hours are left to the slow road:
# Postgres refuses them (SQLSTATE 22009) although Python does not.
_COMMON = re.compile(
    r"\d{4}-\d\d-\d\d[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)?\Z", re.ASCII
).match
_fromisoformat = datetime.datetime.fromisoformat


def instant(text: str) -> str | None:
    """The text to store for an instant, or None when `text` is not one.

    A time without a zone is UTC (as in dlt); digits beyond microseconds are cut, for Postgres would round them.
    An instant outside the years 1 to 9999 UTC is text: Python, Java and JavaScript readers fail on it.
    """
    if _COMMON(text):
        try:
            moment = _fromisoformat(text)
        except ValueError:
            return None
        if 1 < moment.year < 9999:
            return text
        return _in_utc(moment)
    if len(text) > _LONGEST or is_iso_timestamp(str, text) is None:
        return None
    try:
        parsed = parse_iso_like_datetime(text)
    except (ValueError, OverflowError):
        return None
    if not isinstance(parsed, datetime.datetime):
        return None
    return _in_utc(parsed)


def instants(texts: Sequence[str]) -> Sequence[str | None]:
    """`instant` of each text; `texts` itself when all are stored as they stand, which few calls of C code can tell."""
    first, last = min(texts), max(texts)
    # Neither the year 0001 nor 9999, where another zone than UTC may leave the years that all readers know.
    if first > "0001~" and last < "9999" and all(map(_COMMON, texts)):
        try:
            deque(map(_fromisoformat, texts), maxlen=0)
        except ValueError:
            pass
        else:
            return texts
    return list(map(instant, texts))


def _in_utc(moment: datetime.datetime) -> str | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_UTC)
    try:
        moment = moment.astimezone(_UTC)
    except (OverflowError, ValueError):  # beyond the years, or an offset of a day and more
        return None
    return moment.isoformat(sep=" ")


_prefixes: dict[str, str] = {}


def texts_from_micros(moments: Sequence[int]) -> list[str]:
    """`from_micros` of each; messages that were published together have one publish time."""
    texts = {moment: from_micros(moment) for moment in set(moments)}
    return [texts[moment] for moment in moments]


def from_micros(micros: int) -> str:
    """Text of an instant in microseconds since the epoch. The second is remembered: publish times cluster."""
    # The digits are cut from the number's own text: formatting a fraction costs twice as much.
    digits = str(micros)
    prefix = _prefixes.get(digits[:-6])
    if prefix is None:
        seconds, fraction = divmod(micros, 1_000_000)
        prefix = datetime.datetime.fromtimestamp(seconds, _UTC).strftime("%Y-%m-%d %H:%M:%S")
        if micros < 1_000_000:
            return f"{prefix}.{fraction:06d}+00"
        if len(_prefixes) > 4096:
            _prefixes.clear()
        _prefixes[digits[:-6]] = prefix
    return f"{prefix}.{digits[-6:]}+00"
