"""Looks through a datum before fastavro reads it, where the schema allows small bytes to become a large thing.

Two kinds do: types that hold themselves (fastavro recurses in C: some thousand levels, a byte each, end the process)
and arrays of what takes no bytes (a trillion nulls in six bytes). Other schemas bound both by themselves."""

from __future__ import annotations

from typing import Any

from loader.bridge.formats.avro_convert import types_of
from loader.message.limits import MAX_DEPTH

MOST_EMPTY = 100_000
"""Elements of an array whose elements take no bytes."""


class Suspicious(Exception):
    """The datum would become too deep or too large, or is none of this schema."""


def needs_guard(schema: Any) -> bool:
    """Whether data of this schema is to be looked through."""
    return _Look(types_of(schema)).risky(schema, frozenset())


class _Look:
    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types

    def risky(self, schema: Any, inside: frozenset[str]) -> bool:
        if isinstance(schema, str):
            if schema in inside:
                return True
            schema = self._types.get(schema, schema)
        if isinstance(schema, list):
            return any(self.risky(each, inside) for each in schema)
        if isinstance(schema, str):
            return False
        kind = schema["type"]
        if kind == "record":
            inside = inside | {schema["name"]}
            return any(self.risky(field["type"], inside) for field in schema["fields"])
        if kind == "array":
            return self.empty(schema["items"], frozenset()) or self.risky(schema["items"], inside)
        return kind == "map" and self.risky(schema["values"], inside)

    def empty(self, schema: Any, inside: frozenset[str]) -> bool:
        """Whether a value may take no bytes. A union takes one at least."""
        if isinstance(schema, str):
            if schema in inside:
                return True
            schema = self._types.get(schema, schema)
        if isinstance(schema, list):
            return False
        if isinstance(schema, str):
            return schema == "null"
        if schema["type"] == "record":
            inside = inside | {schema["name"]}
            return all(self.empty(field["type"], inside) for field in schema["fields"])
        return schema["type"] == "null" or (schema["type"] == "fixed" and not schema["size"])


class Guard:
    """For one schema in one piece."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._types = types_of(schema)

    def check(self, data: bytes, start: int) -> None:
        """Raises Suspicious."""
        try:
            self._skip(self._schema, data, start, 0)
        except IndexError:
            raise Suspicious("it ends in the middle of a value") from None

    def _skip(self, schema: Any, data: bytes, at: int, depth: int) -> int:
        if isinstance(schema, str):
            schema = self._types.get(schema, schema)
        if isinstance(schema, list):
            branch, at = _number(data, at)
            if not 0 <= branch < len(schema):
                raise Suspicious(f"a union has no branch {branch}")
            return self._skip(schema[branch], data, at, depth)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "null":
            return at
        if kind == "boolean":
            return at + 1
        if kind in ("int", "long", "enum"):
            return _number(data, at)[1]
        if kind in ("float", "double"):
            return at + (4 if kind == "float" else 8)
        if kind in ("bytes", "string"):
            size, at = _number(data, at)
            if not 0 <= size <= len(data) - at:
                raise Suspicious(f"a text or bytes of {size} bytes is not there")
            return at + size
        if kind == "fixed":
            return at + int(schema["size"])
        if depth >= MAX_DEPTH:
            raise Suspicious(f"it nests deeper than {MAX_DEPTH} levels")
        if kind == "record":
            for field in schema["fields"]:
                at = self._skip(field["type"], data, at, depth + 1)
            return at
        return self._blocks(schema, data, at, depth + 1)

    def _blocks(self, schema: Any, data: bytes, at: int, depth: int) -> int:
        is_map = schema["type"] == "map"
        inner = schema["values" if is_map else "items"]
        while True:
            count, at = _number(data, at)
            if count == 0:
                return at
            if count < 0:
                count = -count
                _, at = _number(data, at)
            for number in range(count):
                before = at
                if is_map:
                    at = self._skip("string", data, at, depth)
                at = self._skip(inner, data, at, depth)
                if at == before and number >= MOST_EMPTY:
                    raise Suspicious(f"an array of {count} elements that take no bytes")
                if at > len(data):
                    raise IndexError


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise Suspicious("a number of more than 64 bit")
