"""The functions that an expression may call. Pure, total (a wrong type gives null or false), and quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

NUMBERS = (int, float, Decimal)


@dataclass(frozen=True, slots=True)
class Function:
    """How a function is used and what it does with values."""

    usage: str
    help: str
    least: int
    most: int
    call: Callable[..., Any]


def is_number(value: Any) -> bool:
    """A number, and true is none."""
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    """Equality without surprises: true is not 1, "1" is not 1; 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def text(value: Any) -> str | None:
    """A value as the text that keys of lookups are written in; null for null, lists and maps."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, NUMBERS):
        # 7.0 and 7 are one number, and so one key.
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return str(value)
    return None


def contains(container: Any, value: Any) -> bool:
    """Whether a list has the value, a text has it inside, or a map has it as a key."""
    if isinstance(container, list | tuple):
        return any(equal(each, value) for each in container)
    if isinstance(container, str):
        return isinstance(value, str) and value in container
    return isinstance(container, Mapping) and isinstance(value, str) and value in container


def _startswith(value: Any, prefix: Any) -> bool:
    return isinstance(value, str) and isinstance(prefix, str) and value.startswith(prefix)


def _endswith(value: Any, suffix: Any) -> bool:
    return isinstance(value, str) and isinstance(suffix, str) and value.endswith(suffix)


def _number(value: Any) -> Any:
    if is_number(value):
        return value
    if not isinstance(value, str) or len(value) > 300:
        return None
    try:
        return int(value)
    except ValueError:
        pass
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number - number == 0 else None  # not NaN, not infinite


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, str | list | tuple | Mapping) else None


_MATCHES = (
    "Whether the expression (Python's) is found in it. One whose time may double with each character, as that of "
    "`(a+)+$`, is refused. One whose time grows faster than the text is searched for in long texts by a slower way "
    "that takes time as the text does. That way knows no word boundaries, lookarounds, references, possessive repeats, "
    "`(?m)`, and no expression of more than 100 characters once its repeats are written out: of these `--check` names "
    "the longest text that it is tried on, and a message with a longer one is refused; a `^` before it often helps."
)

FUNCTIONS: Mapping[str, Function] = {
    "coalesce": Function("coalesce(a, b, …)", "The first that is not null.", 1, 20, _coalesce),
    "contains": Function("contains(LIST or TEXT or MAP, value)", "Whether it is in there.", 2, 2, contains),
    "endswith": Function("endswith(text, suffix)", "Whether the text ends so.", 2, 2, _endswith),
    "has": Function("has(payload.a)", "Whether it is there and not null.", 1, 1, lambda v: v is not None),
    "length": Function("length(TEXT or LIST or MAP)", "Characters, items or keys.", 1, 1, _length),
    "lower": Function("lower(text)", "In lower case.", 1, 1, lambda v: v.lower() if isinstance(v, str) else None),
    "matches": Function('matches(text, "REGEX")', _MATCHES, 2, 2, lambda v, p: False),
    "number": Function("number(text)", "The number that a text spells; null if it does not.", 1, 1, _number),
    "startswith": Function("startswith(text, prefix)", "Whether the text begins so.", 2, 2, _startswith),
    "text": Function("text(value)", "A number or bool as text.", 1, 1, text),
    "upper": Function("upper(text)", "In upper case.", 1, 1, lambda v: v.upper() if isinstance(v, str) else None),
}  # fmt: skip
