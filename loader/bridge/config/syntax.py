"""Says in plain words what an HCL parser did not like, and where."""

from __future__ import annotations

from typing import Any

_VALUES = {"FLOAT_LITERAL", "INT_LITERAL", "DBLQUOTE", "TRUE", "FALSE", "NULL", "LSQB", "LBRACE"}
_WORDS = {
    "RBRACE": "}",
    "LBRACE": "{",
    "RSQB": "]",
    "LSQB": "[",
    "RPAR": ")",
    "LPAR": "(",
    "COMMA": ",",
    "EQ": "=",
    "COLON": ":",
    "DBLQUOTE": 'a text in "…"',
    "NL_OR_COMMENT": "a new line",
    "NAME": "a name",
    "STRING_CHARS": "text",
    "$END": "the end of the file",
}


def explain(source: str, error: Any) -> tuple[int, int, str]:
    """Line, column and reason of a lark `UnexpectedInput`."""
    line, column = max(error.line, 1), max(error.column, 1)
    token = getattr(error, "token", None)
    expected = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    where = _open_brackets(source)
    if isinstance(where, _Text):
        return where.line, where.column, 'the text that begins here is not closed; end it with " in the same line'
    if token is not None and token.type == "$END":
        if where:
            bracket, line, column = where[-1]
            return line, column, f"{bracket} is never closed; add {_CLOSING[bracket]}"
        return line, column, f"the file ends early; expected {_expected(expected)}"
    found = str(token) if token is not None else str(getattr(error, "char", "this"))
    shown = found.strip().split("\n")[0].strip()[:30]
    what = f"unexpected {shown!r}" if shown else "unexpected end of line"
    return line, column, f"{what}; expected {_expected(expected)}"


def _expected(names: set[str]) -> str:
    words = []
    if names >= {"INT_LITERAL", "TRUE"} or names >= {"INT_LITERAL", "DBLQUOTE"}:
        words.append("a value")
        names = names - _VALUES - {"NAME", "LPAR"}
    words += [_WORDS[name] for name in sorted(names) if name in _WORDS]
    return " or ".join(words) if words else "another thing here"


_CLOSING = {"{": "}", "[": "]", "(": ")"}


class _Text:
    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column


def _open_brackets(source: str) -> list[tuple[str, int, int]] | _Text:
    """Brackets that are open at the end, or the place of a text that a line break cuts.

    The parser names the end of the file for an unclosed block, or some later line for an unclosed text: neither
    helps whoever has to find it."""
    opened: list[tuple[str, int, int]] = []
    lines = source.split("\n")
    number = 0
    comment = False
    while number < len(lines):
        line = lines[number]
        number += 1
        at = 0
        while at < len(line):
            char = line[at]
            if comment:
                end = line.find("*/", at)
                if end < 0:
                    break
                comment, at = False, end + 2
                continue
            if char == "#" or line.startswith("//", at):
                break
            if line.startswith("/*", at):
                comment, at = True, at + 2
                continue
            if line.startswith("<<", at):
                end_word = line[at:].lstrip("<-").strip()
                while number < len(lines) and lines[number].strip() != end_word:
                    number += 1
                number += 1
                break
            if char == '"':
                end = _end_of_text(line, at + 1)
                if end < 0:
                    return _Text(number, at + 1)
                at = end
            elif char in _CLOSING:
                opened.append((char, number, at + 1))
            elif char in _CLOSING.values() and opened:
                opened.pop()
            at += 1
    return opened


def _end_of_text(line: str, at: int) -> int:
    depth = 0
    quoted = False
    while at < len(line):
        if line[at] == "\\":
            at += 2
            continue
        if depth == 0 and line[at] == '"':
            return at
        if line.startswith("${", at) and (at == 0 or line[at - 1] != "$"):
            depth, at = depth + 1, at + 1
        elif depth and line[at] == '"':
            quoted = not quoted
        elif depth and line[at] == "}" and not quoted:
            depth -= 1
        at += 1
    return -1
