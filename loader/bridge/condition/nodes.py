"""What a parsed expression is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROOTS = ("headers", "key", "lookup", "offset", "partition", "payload", "timestamp", "topic")


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, number, true, false or null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Path:
    """A root and the constant names below it: payload.user.id, headers["x"], topic."""

    root: str
    names: tuple[str | int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Index:
    """`base[key]` with a key that is worked out: lookup.customers[payload.id], and `.names` below it."""

    base: Node
    key: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function's call."""

    name: str
    arguments: tuple[Node, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Unary:
    """`!x` or `-x`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`; operators are named as HCL spells them, and `in`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Items:
    """`[a, b]`."""

    items: tuple[Node, ...]


Node = Constant | Path | Index | Call | Unary | Binary | Choice | Items
