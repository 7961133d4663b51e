"""Checks the options of a block against their declaration: types, names, defaults; text to plain values.

`takes` of an Option is one of the names in `TYPES`, `list(TYPE)`, `map(TYPE)`, `one of a|b|c`, or `blocks` (the
option is then a list of nested blocks, read by the declared options in `inner`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loader.bridge.condition.compile import check_expression
from loader.bridge.condition.parse import InvalidExpression
from loader.bridge.config.finding import Findings, allowed
from loader.bridge.config.model import Place
from loader.bridge.config.reference import Reference
from loader.bridge.config.tree import Block, Expression, expressions
from loader.bridge.stages.stage import Option
from loader.settings.sizes import parse_size

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SECRET_KEYS = re.compile(r"password|passwd|secret|token|credential|authorization|api[-_.]?key|key\.pem", re.IGNORECASE)
_PATH = re.compile(r"[^.\s]+(\.[^.\s]+)*")


def read_options(
    block: Block, options: Sequence[Option], findings: Findings, others: Sequence[str] = ()
) -> dict[str, Any]:
    """Every declared option with its value or default. What is wrong goes to `findings`; `others` are
    kinds of blocks that somebody else reads."""
    declared = {option.name: option for option in options}
    values: dict[str, Any] = {}
    for name, attribute in block.attributes.items():
        option = declared.get(name)
        if option is None or option.takes == "blocks":
            hint = allowed(name, [*declared, *others])
            if option or name in others:
                hint = f"; write it as a block: {name} {{ … }}"
            findings.error(attribute.place, f"{_title(block)} has no attribute {name!r}{hint}")
            continue
        values[name] = read_value(attribute.value, option, attribute.value_place, findings)
    nested: dict[str, list[dict[str, Any]]] = {}
    for inner in block.blocks:
        if inner.kind in others:
            continue
        option = declared.get(inner.kind)
        if option is None or option.takes != "blocks":
            hint = f"; write it as an attribute: {inner.kind} = …" if option else ""
            names = allowed(inner.kind, [o.name for o in options if o.takes == "blocks"] + list(others))
            findings.error(inner.place, f"{_title(block)} has no block {inner.kind!r}{hint or names}")
            continue
        for label in inner.labels:
            findings.error(label.place, f"{inner.kind} blocks have no label")
        nested.setdefault(inner.kind, []).append(read_options(inner, option.inner, findings))
    for option in options:
        if option.takes == "blocks":
            values[option.name] = tuple(nested.get(option.name, ()))
            given = bool(values[option.name])
        else:
            given = values.get(option.name) is not None
            if not given:
                values[option.name] = option.default
        written = block.attributes.get(option.name)
        if option.required and not given and (written is None or written.value is None):
            findings.error(block.place, f"{_title(block)} needs {option.name} ({option.takes}): {option.help}")
    return values


def read_value(value: Any, option: Option, place: Place, findings: Findings) -> Any:
    """One value of the type that the option takes; None and a finding when it is another."""
    if value is None:
        return None
    if option.secret and not isinstance(value, Reference):
        # The value is not shown: it may be the secret itself.
        findings.error(place, f'{option.name} is a secret; write secret("env:NAME") or secret("file:/path")')
        return None
    try:
        read = _read(value, option.takes, place)
        if option.file and isinstance(read, str | Reference):
            return Reference(read.parts if isinstance(read, Reference) else (read,), place, file=True)
        return {_field(name): each for name, each in read.items()} if option.by_path else read
    except InvalidExpression as error:
        findings.error(error.place, f"{option.name}: {error}")
    except ValueError as error:
        findings.error(place, f"{option.name} {error}")
    return None


def _read(value: Any, takes: str, place: Place) -> Any:
    if takes.startswith("one of "):
        choices = takes.removeprefix("one of ").split("|")
        if isinstance(value, str) and value in choices:
            return value
        raise ValueError(f"cannot be {_shown(value)}{allowed(str(value), choices)}")
    inner = re.fullmatch(r"(list|map)\((.+)\)", takes)
    if inner and inner[1] == "list":
        # One value stands for a list of one: sinks = "a".
        values = value if isinstance(value, list) else [value]
        return tuple(_read(each, inner[2], place) for each in values)
    if inner:
        if not isinstance(value, dict):
            raise ValueError(f"must be a map {{ name = value }}, not {_shown(value)}")
        for name, each in value.items():
            if _SECRET_KEYS.search(name) and isinstance(each, str) and each and inner[2] != "value":
                raise ValueError(f'has {name}, a secret; write {name} = secret("env:NAME") or secret("file:/path")')
        return {name: _read(each, inner[2], place) for name, each in value.items()}
    if isinstance(value, Reference) and takes in _REFERABLE:
        return value
    return TYPES[takes](value, place)


def duration(value: Any, place: Place | None = None) -> float:
    """Seconds from `30s`, `250ms`, `5m`, `1h`, `1d` or a plain number of seconds. Raises ValueError."""
    if type(value) in (int, float) and value >= 0:
        return float(value)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"must be a duration such as 30s, 250ms or 5m, not {_shown(value)}")
    return float(found[1]) * _SECONDS[found[2]]


def _string(value: Any, place: Place) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f'must be a text in "…", not {_shown(value)}')


def _scalar(value: Any, place: Place) -> Any:
    if isinstance(value, str | int | float) or value is None:
        return value
    raise ValueError(f"must hold texts, numbers and bools, not {_shown(value)}")


def _bool(value: Any, place: Place) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"must be true or false, not {_shown(value)}")


def _number(value: Any, place: Place) -> float:
    if type(value) in (int, float):
        return value
    raise ValueError(f"must be a number, not {_shown(value)}")


def _positive(value: Any, place: Place) -> float:
    if type(value) in (int, float) and value > 0:
        return value
    raise ValueError(f"must be a number above 0, not {_shown(value)}")


def _count(value: Any, place: Place) -> int:
    if type(value) is int and value >= 1:
        return value
    raise ValueError(f"must be a whole number from 1, not {_shown(value)}")


def _fraction(value: Any, place: Place) -> float:
    if type(value) in (int, float) and 0 <= value <= 1:
        return value
    raise ValueError(f"must be a number from 0 to 1, not {_shown(value)}")


def _size(value: Any, place: Place) -> int:
    try:
        return parse_size(value)
    except ValueError as error:
        raise ValueError(f"{error}, not {_shown(value)}") from None


def _path(value: Any, place: Place) -> tuple[str, ...]:
    if isinstance(value, Expression):
        value = value.text
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise ValueError(f'must be the path of a field such as "customer.id", not {_shown(value)}')
    names = tuple(value.split("."))
    return names[1:] if names[0] == "payload" and len(names) > 1 else names


def _field(name: str) -> str:
    """A path as the name in a map, where blanks may be part of it."""
    names = name.split(".")
    if not all(names):
        raise ValueError(f'must have paths of fields such as "customer.id" as names, not {name!r}')
    return ".".join(names[1:] if names[0] == "payload" and len(names) > 1 else names)


def _condition(value: Any, place: Place) -> Expression | bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Expression | str):
        expression = value if isinstance(value, Expression) else Expression(value, place)
        check_expression(expression.text, expression.place)
        return expression
    raise ValueError(f'must be a condition such as payload.country == "FR", not {_shown(value)}')


def _expression(value: Any, place: Place) -> Expression:
    if isinstance(value, Expression | str):
        return _condition(value, place)  # type: ignore[return-value]
    raise ValueError(f"must be an expression such as payload.session, not {_shown(value)}")


def _value(value: Any, place: Place) -> Any:
    for expression in expressions(value):
        check_expression(expression.text, expression.place)
    return value


TYPES: Mapping[str, Callable[[Any, Place], Any]] = {
    "string": _string,
    "scalar": _scalar,
    "bool": _bool,
    "number": _number,
    "rate": _positive,
    "count": _count,
    "fraction": _fraction,
    "duration": duration,
    "size": _size,
    "path": _path,
    "condition": _condition,
    "expression": _expression,
    "value": _value,
    "endpoint": _string,
}
_REFERABLE = {"string", "scalar"}


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a map"
    return repr(value) if isinstance(value, str) else str(value)


def _title(block: Block) -> str:
    return " ".join([block.kind, *(f'"{label.text}"' for label in block.labels)])
