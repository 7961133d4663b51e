"""A part of the report: a table, for a terminal or for Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under their columns; `text` says what they are, `record` which run they are from."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    record: Mapping[str, Any] = field(default_factory=dict)


def figure(value: float | None, digits: int = 1) -> str:
    """A number with separators; a dash when there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def whole(value: float | None) -> str:
    """A number without a fraction; large ones in three digits, for no figure of a benchmark is better than that."""
    if value is None:
        return "–"
    digits = max(0, len(str(int(abs(value)))) - 3)
    return f"{round(value, -digits):,.0f}" if digits else f"{value:,.0f}"


def share(value: float | None) -> str:
    """Per cent."""
    return "–" if value is None else f"{value:.0%}"


def micros(one: Mapping[str, Any] | None) -> str:
    """CPU a message: the median, and in brackets the least and the most where they differ."""
    if one is None:
        return "–"
    middle, least, most = (one.get(f"cpu_us_{name}") for name in ("per_message", "min", "max"))
    text = figure(middle)
    return text if least is None or figure(least) == figure(most) else f"{text} ({figure(least)}–{figure(most)})"


def megabytes(value: float | None) -> str:
    """Bytes as MB."""
    return "–" if value is None else f"{value / 1e6:,.0f}"


def wrapped(text: str) -> str:
    """Prose in lines of at most 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def markdown(section: Section) -> str:
    """As Markdown: a heading of the third level, the text, the table."""
    cells: Sequence[Sequence[str]] = [section.columns, ["---"] * len(section.columns), *section.rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)
    text = f"{wrapped(section.text)}\n\n" if section.text else ""
    return f"### {section.title}\n\n{text}{table}\n"
