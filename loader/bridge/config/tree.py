"""What stands in an HCL file before anybody asks what it means: blocks, attributes and values, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loader.bridge.config.model import Place


@dataclass(frozen=True, slots=True)
class Expression:
    """A value that is worked out for each message, as its text stands in the file."""

    text: str
    place: Place = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name = value`. A value is a str, int, float, bool, None, list, dict, Reference or Expression."""

    name: str
    value: Any
    place: Place = field(compare=False)
    value_place: Place


@dataclass(frozen=True, slots=True)
class Label:
    """A block's label."""

    text: str
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """`kind "label" … { attributes and blocks }`, blocks in the order of the file."""

    kind: str
    labels: tuple[Label, ...]
    attributes: Mapping[str, Attribute]
    blocks: tuple[Block, ...]
    place: Place = field(compare=False)


def expressions(value: Any) -> Iterator[Expression]:
    """Every expression in a value or in a block's options."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from expressions(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from expressions(each)
