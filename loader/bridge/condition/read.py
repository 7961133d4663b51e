"""Reads one value of a frame: a field of the payload, a header, the key, where it came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loader.bridge.frame import Frame

LARGEST_EXACT = 2.0**63
"""A float from here on may be an integer that decoding rounded."""


def reader(root: str, names: tuple[str | int, ...]) -> Callable[[Frame], Any]:
    """A function that reads `root` and what is below it; null for what is not there."""
    if root == "payload":
        return field_reader(names) if names else lambda frame: frame.fields
    if root == "headers":
        return _header_reader(str(names[0])) if len(names) == 1 else _headers if not names else lambda frame: None
    if names:
        return lambda frame: None  # a text has no fields
    return _OTHERS[root]


def field_reader(names: tuple[str | int, ...]) -> Callable[[Frame], Any]:
    """Reads a field of the payload by path."""
    first, *rest = names

    def one(frame: Frame) -> Any:
        fields = frame._changed
        if fields is None:
            payload = frame.payload
            fields = payload._fields if payload.decoded else payload.fields()
        return fields.get(first) if type(fields) is dict else _below(fields, first)

    def several(frame: Frame) -> Any:
        value = one(frame)
        for name in rest:
            value = value.get(name) if type(value) is dict else _below(value, name)
            if value is None:
                return None
        return value

    return several if rest else one


def _below(value: Any, name: str | int) -> Any:
    if isinstance(value, list):
        number = name if isinstance(name, int) else int(name) if name.isascii() and name.isdigit() else -1
        return value[number] if 0 <= number < len(value) else None
    if isinstance(value, dict):
        return value.get(name)
    return None


def _header_reader(name: str) -> Callable[[Frame], Any]:
    def read(frame: Frame) -> str | None:
        found = None
        # Kafka allows a name several times; the last one counts, as in Pub/Sub attributes made from it.
        for each, value in frame.headers:
            if each == name:
                found = value
        return _text(found)

    return read


def _headers(frame: Frame) -> dict[str, str | None]:
    return {name: _text(value) for name, value in frame.headers}


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


_OTHERS: dict[str, Callable[[Frame], Any]] = {
    "key": lambda frame: _text(frame.key),
    "offset": lambda frame: frame.offset,
    "partition": lambda frame: frame.partition,
    "timestamp": lambda frame: frame.timestamp,
    "topic": lambda frame: frame.topic,
}
