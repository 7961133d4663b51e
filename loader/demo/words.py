"""How the demo words figures, changes and values; the same in the live view, in plain lines and in the end."""

from __future__ import annotations

import datetime
from typing import Any

from loader.commands.output import printable
from loader.demo.progress import Change


def age(seconds: float | None) -> str:
    """An age for a narrow column."""
    if seconds is None:
        return "–"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def change(one: Change) -> str:
    """A schema change, and who asked for it."""
    asked = f"  ({one.first_event})" if one.first_event else ""
    if not one.column:
        return printable(f"+ table {one.table}, {one.columns} columns{asked}")
    why = ", variant" if one.variant else ""
    return printable(f"+ column {one.table}.{one.column} {one.data_type}{why}{asked}")


def value(item: Any) -> str:
    """A cell. NULL is a dot: empty texts must not look the same."""
    if item is None:
        return "·"
    if isinstance(item, datetime.datetime):
        moment = item.astimezone(datetime.UTC)
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return ("true" if item else "false") if isinstance(item, bool) else printable(item)


def cut(text: str, width: int) -> str:
    """At most `width` characters, with an ellipsis where something is missing."""
    return text if len(text) <= width else text[: width - 1] + "…"
