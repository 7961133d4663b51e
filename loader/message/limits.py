"""What one message may hold: depth, keys and array elements, checked before anything else sees the record."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from loader.message.message import Refused

MAX_DEPTH = 200
"""Deepest nesting of objects and arrays; the outermost object is level 1."""

TOTAL_ELEMENTS = 10
"""All arrays of a message together may hold this many times what one array may hold."""

_STRING_OR_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[,:\[{]', re.DOTALL)
_STRING_OR_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]+', re.DOTALL)


class Limits(NamedTuple):
    """The limits that a setting can change, and the sizes up to which a body cannot exceed them."""

    max_array_elements: int
    max_keys: int
    narrow: int
    """Up to this many bytes no body holds too many keys or elements, though it may be too deep."""
    harmless: int
    """Up to this many bytes no body exceeds any limit."""

    @classmethod
    def of(cls, max_array_elements: int, max_keys: int) -> Limits:
        # An array element takes two bytes at least (`0,`), a key four (`"":0`), a level of depth two.
        narrow = min(2 * max_array_elements, 4 * max_keys)
        return cls(max_array_elements, max_keys, narrow, min(narrow, 2 * MAX_DEPTH))


def check_before_parsing(data: bytes, limits: Limits) -> bool:
    """Refuse a body that would fill the memory when parsed; True if `check_parsed` has to look at the result.

    Counting bytes is cheap and never counts too little (strings can hold these bytes too). Bodies far over the limits
    by that count have what stands outside strings counted, which stops at the limit: three million `{}` never
    become objects.
    """
    if len(data) <= limits.narrow:
        # Finding a byte is several times cheaper than counting it, and most records are flat.
        if data.find(b"{", 1) < 0 and data.find(b"[") < 0:
            return False
        return data.count(b"[") + data.count(b"{") > MAX_DEPTH
    commas = data.count(b",")
    colons = data.count(b":")
    opened = data.count(b"[") + data.count(b"{")
    most_elements = TOTAL_ELEMENTS * limits.max_array_elements
    if commas > most_elements or opened > most_elements or colons > TOTAL_ELEMENTS * limits.max_keys:
        _count_tokens(data, limits)
    return commas >= limits.max_array_elements or colons > limits.max_keys or opened > MAX_DEPTH


def _count_tokens(data: bytes, limits: Limits) -> None:
    commas = colons = opened = 0
    # Each comma outside strings stands between two elements or two keys; each object and array but the outermost
    # is an element or the value of a key.
    most = TOTAL_ELEMENTS * limits.max_array_elements + limits.max_keys
    for match in _STRING_OR_TOKEN.finditer(data):
        byte = data[match.start()]
        if byte == 0x2C:
            commas += 1
        elif byte == 0x3A:
            colons += 1
            if colons > limits.max_keys:
                raise _too_many_keys(limits)
        elif byte != 0x22:
            opened += 1
        if commas > most or opened > most + 1:
            raise _too_many_elements(limits)


def check_parsed(value: Any, limits: Limits) -> None:
    """Refuse a parsed body that is deeper than MAX_DEPTH or holds more keys or array elements than the limits.

    Walks level by level and never recurses.
    """
    keys = elements = depth = 0
    level = [value]
    while level:
        depth += 1
        deeper: list[Any] = []
        for container in level:
            if type(container) is dict:
                keys += len(container)
                values: Any = container.values()
            elif type(container) is list:
                count = len(container)
                if count > limits.max_array_elements:
                    raise Refused(
                        "too many elements",
                        f"an array of {count} elements; LOADER_MAX_ARRAY_ELEMENTS is {limits.max_array_elements}",
                    )
                elements += count
                values = container
            else:
                continue
            deeper.extend([item for item in values if type(item) is dict or type(item) is list])
        if deeper and depth == MAX_DEPTH:
            raise too_deep()
        level = deeper
    if keys > limits.max_keys:
        raise _too_many_keys(limits)
    if elements > TOTAL_ELEMENTS * limits.max_array_elements:
        raise _too_many_elements(limits)


def is_too_deep(data: bytes) -> bool:
    """Whether JSON text is deeper than MAX_DEPTH, by its brackets outside strings alone. Never recurses."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _STRING_OR_BRACKETS.finditer(data):
        if data[match.start()] == 0x22:
            continue
        for byte in match[0]:
            if byte == 0x5B or byte == 0x7B:
                depth += 1
                if depth > MAX_DEPTH:
                    return True
            else:
                depth -= 1
    return False


def too_deep() -> Refused:
    """The refusal of a body that nests deeper than MAX_DEPTH."""
    return Refused("too deep", f"objects and arrays nest deeper than {MAX_DEPTH} levels")


def _too_many_keys(limits: Limits) -> Refused:
    return Refused("too many keys", f"more than {limits.max_keys} keys in one message (LOADER_MAX_KEYS)")


def _too_many_elements(limits: Limits) -> Refused:
    return Refused(
        "too many elements",
        f"more than {TOTAL_ELEMENTS * limits.max_array_elements} elements in the arrays of one message, "
        f"{TOTAL_ELEMENTS} times LOADER_MAX_ARRAY_ELEMENTS",
    )
