"""Makes JSON's values of what fastavro read, by functions that are made once for each schema.

fastavro's own logical types cost more than the rest of the decoding, so it is told of none, and only the places that
need it are visited afterwards, in place. Where the value no longer tells which branch of a union it was of (an int
that is a date, beside a plain long), fastavro must convert while it reads: that is slower and rare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import fastavro.read

from loader.bridge.formats.avro_values import Convert, leaf, millis, millis_in

_CLASSES: Mapping[str, type] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "fixed": bytes,
    "string": str,
    "enum": str,
    "array": list,
    "map": dict,
    "record": dict,
}
_PREFIX = "bridge-"


def types_of(schema: Any, found: dict[str, Any] | None = None) -> dict[str, Any]:
    """Definitions of named types, by name."""
    found = {} if found is None else found
    if isinstance(schema, list):
        for each in schema:
            types_of(each, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[schema["name"]] = schema
        for field in schema.get("fields", ()):
            types_of(field["type"], found)
        for inner in ("items", "values"):
            if inner in schema:
                types_of(schema[inner], found)
    return found


class Converter:
    """For one schema in one piece (loader/bridge/registry/schema.py)."""

    def __init__(self, schema: Any) -> None:
        self._types = types_of(schema)
        self._made: dict[str, list[Convert]] = {}
        self._needed: dict[str, bool] = {}
        self.while_reading = self._ambiguous(schema, set())
        """Whether fastavro converts."""
        self.schema = self._for_fastavro(schema)
        self.convert: Convert | None = None if self.while_reading else self._of(schema)
        """Converts a value in place and returns it; None: nothing is to be done."""

    def _definition(self, schema: Any) -> Any:
        return self._types.get(schema, schema) if isinstance(schema, str) else schema

    def _kind(self, schema: Any) -> str:
        schema = self._definition(schema)
        return schema if isinstance(schema, str) else str(schema["type"])

    # What needs converting

    def _needs(self, schema: Any, seen: frozenset[str] = frozenset()) -> bool:
        schema = self._definition(schema)
        if isinstance(schema, list):
            return any(self._needs(each, seen) for each in schema)
        kind = self._kind(schema)
        if kind == "record":
            name = schema["name"]
            if name in seen:
                return False  # whoever asked looks at its fields already
            known = self._needed.get(name)
            if known is None:
                known = any(self._needs(field["type"], seen | {name}) for field in schema["fields"])
                if not seen or known:
                    self._needed[name] = known
            return known
        if kind in ("array", "map"):
            return self._needs(schema["items" if kind == "array" else "values"], seen)
        return leaf(schema) is not None

    def _ambiguous(self, schema: Any, seen: set[str]) -> bool:
        schema = self._definition(schema)
        if isinstance(schema, list):
            classes = [_CLASSES[self._kind(each)] for each in schema]
            unclear = any(self._needs(each) and classes.count(_CLASSES[self._kind(each)]) > 1 for each in schema)
            return unclear or any(self._ambiguous(each, seen) for each in schema)
        kind = self._kind(schema)
        if kind == "record":
            if schema["name"] in seen:
                return False
            seen.add(schema["name"])
            return any(self._ambiguous(field["type"], seen) for field in schema["fields"])
        if kind in ("array", "map"):
            return self._ambiguous(schema["items" if kind == "array" else "values"], seen)
        return False

    def _for_fastavro(self, schema: Any) -> Any:
        """Without logical types, or with those of our own."""
        if isinstance(schema, list):
            return [self._for_fastavro(each) for each in schema]
        if isinstance(schema, str):
            if schema == "bytes" and self.while_reading:
                return self._for_fastavro({"type": "bytes"})
            return schema
        made = {name: value for name, value in schema.items() if name not in ("logicalType", "precision", "scale")}
        if "fields" in made:
            made["fields"] = [{**field, "type": self._for_fastavro(field["type"])} for field in made["fields"]]
        for inner in ("items", "values"):
            if inner in made:
                made[inner] = self._for_fastavro(made[inner])
        if self.while_reading and made["type"] in ("int", "long", "bytes", "fixed"):
            convert = leaf(schema)
            if convert is not None:
                logical = "-".join(str(schema.get(each)) for each in ("logicalType", "precision", "scale", "size"))
                made["logicalType"] = _PREFIX + logical
                # Names of our own: nobody else's schemas are read differently.
                fastavro.read.LOGICAL_READERS.setdefault(f"{made['type']}-{made['logicalType']}", _reader(convert))
        return made

    # Converting afterwards

    def _of(self, schema: Any) -> Convert | None:
        if not self._needs(schema):
            return None
        schema = self._definition(schema)
        if isinstance(schema, list):
            return _union({_CLASSES[self._kind(each)]: found for each in schema if (found := self._of(each))})
        kind = self._kind(schema)
        if kind == "record":
            return self._record(schema)
        if kind in ("array", "map"):
            inner = schema["items" if kind == "array" else "values"]
            parts = self._direct(inner) if kind == "array" else None
            convert = None if parts is not None else self._of(inner)
            if parts is not None:
                return _array_of_records(parts)
            assert convert is not None
            return _array(convert) if kind == "array" else _map(convert)
        return leaf(schema)

    def _record(self, schema: Any) -> Convert:
        name = schema["name"]
        if name in self._made:  # it holds itself, or is used again
            slot = self._made[name]
            return slot[0] if slot else lambda value: slot[0](value)
        slot = self._made[name] = []
        parts = [(field["name"], found) for field in schema["fields"] if (found := self._of(field["type"]))]
        slot.append(_fields(parts))
        return slot[0]

    def _direct(self, schema: Any) -> list[tuple[str, Convert]] | None:
        """Fields of a record that hold leaves only: arrays of such are common and long."""
        schema = self._definition(schema)
        if isinstance(schema, list) or self._kind(schema) != "record":
            return None
        parts = []
        for field in schema["fields"]:
            if self._needs(field["type"]):
                inner = self._definition(field["type"])
                if isinstance(inner, list) or self._kind(inner) in ("record", "array", "map"):
                    return None
                convert = leaf(inner)
                assert convert is not None
                parts.append((field["name"], convert))
        return parts


def _reader(convert: Convert) -> Callable[..., Any]:
    def read(value: Any, writer_schema: Any = None, reader_schema: Any = None) -> Any:
        return convert(value)

    return read


def _union(by_class: Mapping[type, Convert]) -> Convert:
    get = by_class.get

    def convert(value: Any) -> Any:
        found = get(value.__class__)
        return value if found is None else found(value)

    return convert


def _fields(parts: list[tuple[str, Convert]]) -> Convert:
    def convert(record: Any) -> Any:
        for name, each in parts:
            record[name] = each(record[name])
        return record

    return convert


def _array(inner: Convert) -> Convert:
    def convert(values: Any) -> Any:
        values[:] = [inner(value) for value in values]
        return values

    return convert


def _array_of_records(parts: list[tuple[str, Convert]]) -> Convert:
    if len(parts) == 1:
        [(only, one)] = parts
        if one is millis:
            return partial(millis_in, name=only)

        def convert_one(records: Any) -> Any:
            for record in records:
                record[only] = one(record[only])
            return records

        return convert_one

    def convert(records: Any) -> Any:
        for record in records:
            for name, each in parts:
                record[name] = each(record[name])
        return records

    return convert


def _map(inner: Convert) -> Convert:
    def convert(values: Any) -> Any:
        for name, value in values.items():
            values[name] = inner(value)
        return values

    return convert
