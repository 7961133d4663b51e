"""What a command prints: one JSON document, or a table that is rich on a terminal and plain elsewhere.

Results go to stdout, remarks to stderr. What comes from messages or a database is shown with its control characters
escaped: a value must not move the cursor of the terminal that it is read on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

WHOLE = ("LETTER",)
"""Columns whose values are given to other commands: a terminal shows them on one line."""


def print_json(document: Any) -> None:
    """The document on stdout, indented on a terminal. Dates become ISO texts, what JSON has no type for, texts."""
    import orjson

    option = orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    if terminal():
        option |= orjson.OPT_INDENT_2
    try:
        data = orjson.dumps(document, default=str, option=option)
    except orjson.JSONEncodeError:
        # Integers beyond 64 bit and lone surrogates, which the standard encoder writes as they are.
        data = json.dumps(document, default=_plain).encode() + b"\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """Rows under their columns. On a terminal in colour unless NO_COLOR is set."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if terminal():
        _print_rich(columns, cells, title)
        return
    if title:
        print(title)
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    for line in [list(columns), *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def note(text: str) -> None:
    """A remark for the user, on stderr, so that it never mixes with the result."""
    print(printable(text, keep="\n"), file=sys.stderr, flush=True)


def terminal() -> bool:
    """True if a person looks at stdout."""
    return sys.stdout.isatty()


def printable(value: Any, keep: str = "") -> str:
    """The text of a value, control characters and lone surrogates as escapes; None is empty."""
    if value is None:
        return ""
    return _CONTROL.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), str(value))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _print_rich(columns: Sequence[str], cells: list[list[str]], title: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        # A folded id cannot be copied.
        table.add_column(column, overflow="fold", no_wrap=column in WHOLE)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))  # Text, not str: brackets in a value are no markup
    Console().print(table)


def _plain(value: Any) -> Any:
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
