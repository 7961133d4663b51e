"""The JSON of a body: strict, with every digit of its integers, and a reason that names what else was there."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

import orjson

from loader.message.limits import is_too_deep, too_deep
from loader.message.message import Refused
from loader.message.text import Cleaned, clean

MAX_DIGITS = 4300
"""Most digits of one integer, as in Python (`sys.int_info.default_max_str_digits`); a longer one is refused."""

LARGEST_EXACT = 2.0**63
"""A float from here on, or below the negative, may be an integer that orjson made a float of: see `parse_exactly`."""

_BOM = b"\xef\xbb\xbf"
_LONG_INTEGER = re.compile(rb"[0-9]{19}")
_BLANK = b" \t\r\n"


class Parsed(NamedTuple):
    """A parsed body. `dirty`: it may hold U+0000 or lone surrogates and has to go through `text.clean`."""

    value: Any
    dirty: bool


def parse(data: bytes, exactly: bool = False) -> Parsed:
    """Parse an inflated body as `loads` or `parse_exactly` do, but leave the cleaning to the caller."""
    if exactly and _LONG_INTEGER.search(data):
        return _parse_by_stdlib(data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _parse_by_stdlib(data)
    # Most bodies hold no backslash, and looking for one byte is several times faster than looking for six.
    return Parsed(value, b"\\" in data and b"\\u0000" in data)


def loads(data: bytes, counts: Cleaned | None = None) -> Any:
    """The value of an inflated body of whatever size its limits allowed.

    Integers from -2**63 to 2**64-1 are exact. Longer ones may come out as floats of at least LARGEST_EXACT: whoever
    meets such a float calls `parse_exactly`. U+0000 is removed from keys and texts, lone surrogates become U+FFFD,
    a byte order mark is skipped; of two equal keys in one object the last one counts, as in every common parser.
    Raises Refused, and nothing else, for everything that is not JSON (RFC 8259): NaN, Infinity and numbers beyond
    double precision among it.
    """
    value, dirty = parse(data)
    return clean(value, counts) if dirty else value


def parse_exactly(data: bytes, counts: Cleaned | None = None) -> Any:
    """As `loads`, and every integer keeps all its digits (up to MAX_DIGITS of them), at ten times the cost."""
    value, dirty = parse(data, exactly=True)
    return clean(value, counts) if dirty else value


def _parse_by_stdlib(data: bytes) -> Parsed:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if named := _name_bytes(data):
            raise Refused("not JSON", named) from None
        raise Refused("not UTF-8", f"not UTF-8 at byte {error.start}") from None
    # The depth comes first: the parser below recurses, and its C stack must not depend on what somebody sends.
    if is_too_deep(data):
        raise too_deep()
    try:
        return Parsed(_strict.decode(text), b"\\u" in data)
    except json.JSONDecodeError as error:
        _refuse(data, text, error)


def _integer(digits: str) -> int:
    count = len(digits.lstrip("-"))
    try:
        if count <= MAX_DIGITS:
            return int(digits)
    except ValueError:
        pass  # the interpreter runs with a lower limit (PYTHONINTMAXSTRDIGITS)
    raise Refused("number too long", f"an integer of {count} digits; at most {MAX_DIGITS} can be kept")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise Refused("not JSON", f"the number {text[:40]} is beyond double precision")
    return number


def _constant(text: str) -> NoReturn:
    raise Refused("not JSON", f"{text} is not JSON")


_strict = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _refuse(data: bytes, text: str, error: json.JSONDecodeError) -> NoReturn:
    """Say what a body is that does not parse."""
    if not text.strip(" \t\r\n"):
        raise Refused("empty body", "the body is blank" if text else "the body has no bytes") from None
    if named := _name_bytes(data):
        raise Refused("not JSON", named) from None
    # Positions count bytes: that is what a dead letter shows.
    offset = len(text[: error.pos].encode()) + (3 if data.startswith(_BOM) else 0)
    if error.pos >= len(text.rstrip(" \t\r\n")) or error.msg.startswith("Unterminated string"):
        raise Refused("not JSON", f"ends early at byte {len(data)}") from None
    if error.msg == "Extra data":
        raise Refused("not JSON", f"more follows the JSON value at byte {offset}") from None
    message = error.msg[0].lower() + error.msg[1:]
    raise Refused("not JSON", f"{message} at byte {offset}") from None


def _name_bytes(data: bytes) -> str | None:
    """What bytes that are not JSON look like, or None."""
    if data[:2] == b"\x1f\x8b":
        return "looks like gzip but has no content-encoding attribute"
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return "looks like Zstandard, which is not supported"
    if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "looks like UTF-32; JSON in a message is UTF-8"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or (
        len(data) > 3
        and ((data[1:4:2] == b"\0\0" and data[0] and data[2]) or (data[0:3:2] == b"\0\0" and data[1] and data[3]))
    ):
        return "looks like UTF-16; JSON in a message is UTF-8"
    if len(data) > 5 and data[0] == 0:
        schema = int.from_bytes(data[1:5], "big")
        return f"Confluent wire format (magic byte 0, schema id {schema}): decode it in the bridge"
    if data[:4] == b"Obj\x01":
        return "an Avro file; decode it before it is published"
    if re.search(rb"[\x00-\x08\x0e-\x1f]", data[:64]):
        return "binary data (perhaps Protobuf or Avro); decode it before it is published"
    return None


def kind_of(value: Any) -> str:
    """What a JSON value is, in words for a reason."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an array" if isinstance(value, list) else "an object"
