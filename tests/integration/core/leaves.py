"""Every scalar of JSON records against every scalar of the tables that they were loaded into, as exact texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from loading_harness import OWN, Loading
from psycopg import sql

from loader.plan.timestamp import instant

_NO_WANTED = frozenset({"_wanted_table"})


def leaf(value: Any) -> str:
    """A text that differs between any two different JSON scalars, and between their types."""
    if isinstance(value, bool):
        return f"bool {value}"
    if isinstance(value, int):
        return f"number {_integer(value)}"
    if isinstance(value, float):
        return f"number {_integer(int(value))}" if value.is_integer() else f"number {value!r}"
    return f"text {value}"


def _integer(value: int) -> str:
    """Equal numbers are one leaf: a double column gives 2**64 back as 1.8446744073709552e+19, jsonb gives 1e22 back
    with all its zeros. An integer that no float is equal to keeps its digits, and so shows when it was rounded."""
    if -(2**53) <= value <= 2**53:
        return str(value)
    try:
        nearest = float(value)
    except OverflowError:
        return str(value)
    return repr(nearest) if value in (int(nearest), int(Decimal(repr(nearest)))) else str(value)


def leaves_of(value: Any) -> Iterable[str]:
    """The scalars of a JSON value; nulls and empty containers have none."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves_of(item)
    elif value is not None:
        yield leaf(value)


def sent(records: Iterable[dict[str, Any]]) -> Counter[str]:
    """The leaves of records; texts that are instants as the instant."""
    found: Counter[str] = Counter()
    for record in records:
        found.update(map(_alike, leaves_of(record)))
    return found


def _alike(text: str) -> str:
    """Instants and integers beyond 64 bit may be kept as text or not, by column: both spellings count as one."""
    kind, _, value = text.partition(" ")
    if kind != "text":
        return text
    if (moment := instant(value)) is not None:
        parsed = datetime.fromisoformat(moment)
        return f"instant {(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC).isoformat()}"
    digits = value.removeprefix("-")
    if 19 <= len(digits) < 4_000 and digits.isascii() and digits.isdigit() and not -(2**63) <= int(value) < 2**63:
        return f"number {_integer(int(value))}"
    return text


def stored(loading: Loading) -> Counter[str]:
    """The leaves of all tables of a dataset, without the loader's and dlt's own columns."""
    found: Counter[str] = Counter()
    for table in loading.tables():
        columns = {name: kind for name, kind in loading.columns(table).items() if name not in OWN | _NO_WANTED}
        if not columns:
            continue
        # Text, not psycopg's Python values: they cannot hold every instant and round every jsonb number.
        query = sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in columns),
            sql.Identifier(loading.dataset, table),
        )
        for row in loading.conn.execute(query):
            for kind, text in zip(columns.values(), row, strict=True):
                if text is not None:
                    found.update(map(_alike, _cell(kind, text)))
    return found


def _cell(kind: str, text: str) -> Iterable[str]:
    if kind == "text":
        return [f"text {text}"]
    if kind == "boolean":
        return [leaf(text == "true")]
    if kind == "bigint":
        return [leaf(int(text))]
    if kind == "double precision":
        return [leaf(float(text))]
    if kind == "jsonb":
        return leaves_of(json.loads(text, parse_float=_number))
    assert kind == "timestamp with time zone", kind
    return [f"text {_iso(text)}"]


def _number(text: str) -> int | float:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(text)


def _iso(text: str) -> str:
    assert text.endswith("+00"), text
    return (datetime.fromisoformat(text + ":00") + timedelta()).isoformat()
