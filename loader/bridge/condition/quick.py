"""The most usual conditions as functions of decoded fields: what a filter asks of every message, without a frame.

Measured on a comparison of one field: 0.1 µs against 0.35 µs by closures over a frame that stands for the message.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from loader.bridge.condition.nodes import Binary, Constant, Node, Path, Unary
from loader.bridge.condition.read import LARGEST_EXACT

Quick = Callable[[Any], "bool | None"]
"""Whether the condition holds; None when only the general way can tell (rounded numbers, payloads of other kinds)."""

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def quick(node: Node) -> Quick | None:
    """None for a condition that reads more than fields of the payload, or says something less usual of them."""
    match node:
        case Binary("&&", left, right):
            return _both(quick(left), quick(right))
        case Binary("||", left, right):
            return _either(quick(left), quick(right))
        case Unary("!", operand):
            return _not(quick(operand))
        case Binary("==", Path("payload", (str(name),)), Constant(str(wanted))):
            return _equals(name, wanted)
        case Binary("!=", Path("payload", (str(name),)), Constant(str(wanted))):
            return _not(_equals(name, wanted))
        case Binary(sign, Path("payload", (str(name),)), Constant(wanted)) if sign in _COMPARE:
            return _compares(_COMPARE[sign], name, wanted) if type(wanted) in (int, float) else None
    return None


def _equals(name: str, wanted: str) -> Quick:
    def holds(fields: Any) -> bool | None:
        return fields.get(name) == wanted if type(fields) is dict else None

    return holds


def _compares(compare: Callable[[Any, Any], bool], name: str, wanted: float) -> Quick:
    def holds(fields: Any) -> bool | None:
        if type(fields) is not dict:
            return None
        got: Any = fields.get(name)
        kind = type(got)
        if kind is int or (kind is float and -LARGEST_EXACT < got < LARGEST_EXACT):
            return compare(got, wanted)
        return False if kind is str or got is None else None

    return holds


def _both(a: Quick | None, b: Quick | None) -> Quick | None:
    if a is None or b is None:
        return None

    def holds(fields: Any) -> bool | None:
        first = a(fields)
        return b(fields) if first else first

    return holds


def _either(a: Quick | None, b: Quick | None) -> Quick | None:
    if a is None or b is None:
        return None

    def holds(fields: Any) -> bool | None:
        first = a(fields)
        return b(fields) if first is False else first

    return holds


def _not(a: Quick | None) -> Quick | None:
    if a is None:
        return None

    def holds(fields: Any) -> bool | None:
        said = a(fields)
        return None if said is None else not said

    return holds
