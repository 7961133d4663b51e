"""What a body is by Python's own JSON parser: whether it is JSON, what it holds, and how much of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
DEEPEST = 200
"""As loader/message/limits.py documents it."""
LONGEST_INTEGER = 4300


@dataclass
class Reading:
    """One strict reading. `value` is None (and `why` says it) for what is not JSON."""

    value: Any = None
    why: str = ""
    keys: int = 0
    """Keys as written, so that one that comes twice counts twice."""
    elements: int = 0
    largest_array: int = 0
    depth: int = 0
    longest_integer: int = 0

    def exceeds(self, max_keys: int, max_elements: int) -> bool:
        """Whether a limit of the decoder is exceeded by what is written."""
        return (
            self.depth > DEEPEST
            or self.keys > max_keys
            or self.largest_array > max_elements
            or self.elements > 10 * max_elements
            or self.longest_integer > LONGEST_INTEGER
        )


class _Wrong(ValueError):
    pass


def read(body: bytes) -> Reading:
    """Read an inflated body. RFC 8259 and UTF-8 strictly, a byte order mark is passed over."""
    reading = Reading(depth=_depth(body))
    if reading.depth > DEEPEST:  # the parser recurses
        reading.why = "too deep"
        return reading

    def integer(digits: str) -> Any:
        length = len(digits.lstrip("-"))
        reading.longest_integer = max(reading.longest_integer, length)
        return int(digits) if length <= LONGEST_INTEGER else 0

    def number(text: str) -> float:
        found = float(text)
        if found in (float("inf"), float("-inf")):
            raise _Wrong(f"{text[:20]} is beyond double precision")
        return found

    def constant(text: str) -> Any:
        raise _Wrong(text)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        reading.keys += len(found)
        for _, value in found:
            _count(reading, value)
        return dict(found)

    try:
        text = body.decode("utf-8-sig")
        decoder = json.JSONDecoder(
            parse_int=integer, parse_float=number, parse_constant=constant, object_pairs_hook=pairs
        )
        reading.value = decoder.decode(text)
        _count(reading, reading.value)
    except ValueError as error:
        reading.why = str(error)
        reading.value = None
    return reading


def _count(reading: Reading, value: Any) -> None:
    """Arrays below a value, down to the objects, which were counted before."""
    if type(value) is list:
        reading.elements += len(value)
        reading.largest_array = max(reading.largest_array, len(value))
        for item in value:
            _count(reading, item)


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for byte in _STRING.sub(b"", body):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def cleaned(value: Any) -> Any:
    """The value as Postgres can hold it: without U+0000, and U+FFFD for each lone surrogate. Of keys that become one
    key by that, each keeps its value, under some name."""
    if type(value) is str:
        return _SURROGATE.sub("\ufffd", value.replace("\0", ""))
    if type(value) is list:
        return [cleaned(item) for item in value]
    if type(value) is dict:
        return {key: cleaned(item) for key, item in value.items()}
    return value
