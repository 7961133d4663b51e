"""Turns `mirror` and `replicate` blocks into the pipelines that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from loader.bridge.config.finding import Findings
from loader.bridge.config.model import Pipeline, StageSpec
from loader.bridge.config.tree import Block

Make = Callable[[str, str, tuple[str, ...], tuple[StageSpec, ...], Mapping[str, Any], Block], Pipeline]


def expand_mirror(
    name: str, options: Mapping[str, Any], stages: tuple[StageSpec, ...], block: Block, findings: Findings, make: Make
) -> Iterator[Pipeline]:
    """Two pipelines, one each way: NAME.TO.

    Each message carries the names of the endpoints it has been to, and is sent to none of them again. So it ends
    even where several mirrors, of this file or another one, make a ring."""
    rest = dict(options)
    ends: tuple[str, ...] = rest.pop("between") or ()
    header = rest.pop("header")
    if len(set(ends)) != 2 or len(ends) != 2:
        if "between" in block.attributes:
            findings.error(block.attributes["between"].value_place, "between takes two different endpoints")
        return
    first, second = ends
    for here, there in ((first, second), (second, first)):
        trail = StageSpec("trail", {"header": header, "here": here, "there": there}, block.place)
        yield make(f"{name}.{there}", here, (there,), (trail, *stages), rest, block)


def expand_replicate(
    name: str, options: Mapping[str, Any], stages: tuple[StageSpec, ...], block: Block, make: Make
) -> Iterator[Pipeline]:
    """One pipeline for each endpoint, NAME.TO: a target that is down must not hold up the others."""
    rest = dict(options)
    source = rest.pop("source") or ""
    for target in dict.fromkeys(rest.pop("to") or ()):
        yield make(f"{name}.{target}", source, (target,), stages, rest, block)
