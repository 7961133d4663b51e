"""Reads a line of COPY's text format back, by its documentation and not by the code that wrote it.

https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-TEXT-FORMAT: fields stand between tabs, `\\N` is null,
a backslash stands before b, f, n, r, t, v or itself; a row ends with a line feed."""

from __future__ import annotations

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}


def parse_row(line: bytes) -> list[str | None]:
    """The fields of one row, its line feed included. Raises AssertionError for what COPY would read differently."""
    assert line.endswith(b"\n"), f"a row without its line feed: {line!r}"
    inner = line[:-1]
    for stray in (b"\n", b"\r", b"\0"):
        assert stray not in inner, f"a stray {stray!r} in {line!r}"
    assert inner != b"\\.", "a row that reads as the end of the data"
    return [_field(field) for field in inner.decode().split("\t")]


def _field(text: str) -> str | None:
    if text == "\\N":
        return None
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while (found := text.find("\\", position)) >= 0:
        parts.append(text[position:found])
        escape = text[found + 1 : found + 2]
        assert escape in _ESCAPES, f"a stray backslash at {found} of {text!r}"
        parts.append(_ESCAPES[escape])
        position = found + 2
    return "".join(parts) + text[position:]
