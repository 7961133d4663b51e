"""The content of an event as one number: of the record that was published, and of the rows that it became.

A row is spelled as its table, its place in its list and each value with its path and kind of type, NULLs left out; the
digest of that text, 64 bits, is the row's. An event is the sum of its rows, child rows included. A value that moved to
a variant column has the path of its own column, but keeps its kind: '5' is not 5, and true is not 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

MASK = 2**64 - 1
_VARIANT = re.compile(r"__v_[a-z]+\Z")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z").match


def row_digest(table: str, place: str, values: Iterable[tuple[str, str]]) -> int:
    """Of one row. `place` is its index in the list, empty for a root row; `values` are sorted by path."""
    text = "\x1f".join([table, place, *(f"{path}={value}" for path, value in values)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def record_digest(table: str, record: dict[str, Any]) -> int:
    """Of a record that is to be stored under this root table: keys in snake case, lists of objects at the top."""
    values: list[tuple[str, str]] = []
    total = 0
    for key, value in record.items():
        if type(value) is list:
            for index, element in enumerate(value):
                total += row_digest(f"{table}__{key}", str(index), sorted(_flat("", element)))
        else:
            values += _flat(key, value)
    values.sort()
    return (total + row_digest(table, "", values)) & MASK


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if type(value) is dict:
        for key, inner in value.items():
            yield from _flat(f"{path}__{key}" if path else key, inner)
    elif value is not None:
        yield path, spelled(value)


def spelled(value: Any) -> str:
    """A published value with its kind."""
    if type(value) is str:
        return f"t:{_utc(value)}" if _INSTANT(value) else f"s:{value}"
    if type(value) is bool:
        return "b:t" if value else "b:f"
    return f"n:{_number(value)}"


def _utc(text: str) -> str:
    """An instant with milliseconds as Postgres prints it in UTC."""
    return f"{text[:10]} {text[11:23].rstrip('0').rstrip('.')}+00"


def _number(value: float) -> str:
    if type(value) is float and value.is_integer():
        return str(int(value))  # a whole number fits a column of either type
    return repr(value)


def path_of(column: str) -> str:
    """The path of a column, without the mark of a variant."""
    return _VARIANT.sub("", column)


_SPELLINGS: dict[str, Callable[[str], str]] = {
    "text": lambda text: f"s:{text}",
    "character varying": lambda text: f"s:{text}",
    "boolean": lambda text: f"b:{text}",
    "bigint": lambda text: f"n:{text}",
    "double precision": lambda text: f"n:{_number(float(text))}",
    "timestamp with time zone": lambda text: f"t:{text}",
}


def spelling_of(type_name: str) -> Callable[[str], str]:
    """How Postgres' text of a column of this type is spelled; a type that no published value has is spelled apart."""
    return _SPELLINGS.get(type_name, lambda text: f"{type_name}:{text}")
