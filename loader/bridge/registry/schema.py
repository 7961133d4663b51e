"""A schema in one piece: names in full, references resolved, nothing left that only a registry could tell.

Avro 1.12, "Schema Declaration" and "Names": https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
_KEPT = ("logicalType", "precision", "scale", "symbols", "size", "default", "order", "doc")


class InvalidSchema(ValueError):
    """The text is no Avro schema; says why."""


def read(text: str) -> Any:
    """The schema as plain data. A bare name such as `string` is one, too. Raises InvalidSchema."""
    try:
        return json.loads(text)
    except ValueError:
        name = text.strip()
        if name in PRIMITIVES:
            return name
        raise InvalidSchema("it is not JSON") from None


def in_one_piece(schema: Any, references: Sequence[Any] = ()) -> Any:
    """The schema with full names everywhere and each referenced type defined where it is first used.

    `references` are the schemas that it refers to, those that they refer to before them. Raises InvalidSchema for
    names that nobody defines and for what is no schema."""
    outside: dict[str, tuple[Any, str]] = {}
    for each in references:
        _collect(each, "", outside)
    return _Resolver(outside).resolve(schema, "")


def _collect(schema: Any, namespace: str, found: dict[str, tuple[Any, str]]) -> None:
    """Named definitions with the namespace that they stand in."""
    if isinstance(schema, list):
        for each in schema:
            _collect(each, namespace, found)
    elif isinstance(schema, Mapping):
        kind = schema.get("type")
        if kind in NAMED:
            name = full_name(schema, namespace)
            found.setdefault(name, (schema, namespace))
            for field in schema.get("fields") or ():
                if isinstance(field, Mapping):
                    _collect(field.get("type"), name.rpartition(".")[0], found)
        elif isinstance(kind, dict | list):
            _collect(kind, namespace, found)
        else:
            _collect(schema.get("items"), namespace, found)
            _collect(schema.get("values"), namespace, found)


def full_name(schema: Mapping[str, Any], namespace: str) -> str:
    """The name of a record, enum or fixed with its namespace. Raises InvalidSchema."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"a type {schema.get('type')!r} has no name")
    if "." in name:
        return name
    own = schema.get("namespace", namespace)
    return f"{own}.{name}" if own else name


class _Resolver:
    def __init__(self, outside: Mapping[str, tuple[Any, str]]) -> None:
        self._outside = outside
        self._defined: set[str] = set()

    def resolve(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.resolve(each, namespace) for each in schema]
        if not isinstance(schema, Mapping):
            raise InvalidSchema(f"{schema!r} is no type")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.resolve(kind, namespace)
        kept = {name: schema[name] for name in _KEPT if name in schema}
        if kind in NAMED:
            return self._define(schema, str(kind), kept, namespace)
        if kind == "array" or kind == "map":
            inner = "items" if kind == "array" else "values"
            if inner not in schema:
                raise InvalidSchema(f"a type {kind} has no {inner}")
            return {"type": kind, **kept, inner: self.resolve(schema[inner], namespace)}
        if kind in PRIMITIVES:
            return {"type": kind, **kept}
        if isinstance(kind, str):
            return self._named(kind, namespace)
        raise InvalidSchema(f"{kind!r} is no type")

    def _named(self, name: str, namespace: str) -> Any:
        if name in PRIMITIVES:
            return name
        candidates = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        for each in candidates:
            if each in self._defined:
                return each
            if each in self._outside:
                return self.resolve(*self._outside[each])
        raise InvalidSchema(f"the type {name!r} is not defined")

    def _define(self, schema: Mapping[str, Any], kind: str, kept: dict[str, Any], namespace: str) -> Any:
        name = full_name(schema, namespace)
        if name in self._defined:
            raise InvalidSchema(f"the type {name!r} is defined twice")
        self._defined.add(name)
        inner = name.rpartition(".")[0]
        made = {"type": "record" if kind == "error" else kind, "name": name, **kept}
        if schema.get("aliases"):
            made["aliases"] = [a if "." in a or not inner else f"{inner}.{a}" for a in schema["aliases"]]
        if made["type"] == "record":
            made["fields"] = [self._field(name, field, inner) for field in schema.get("fields") or ()]
        return made

    def _field(self, record: str, field: Any, namespace: str) -> dict[str, Any]:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or "type" not in field:
            raise InvalidSchema(f"a field of {record} has no name or no type")
        kept = {name: field[name] for name in ("name", "default", "aliases", "order", "doc") if name in field}
        return {**kept, "type": self.resolve(field["type"], namespace)}
