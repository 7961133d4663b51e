"""Text that Postgres cannot hold, and what becomes of it.

Postgres has no U+0000 in any text and no lone surrogate in UTF-8. U+0000 is removed; a lone surrogate becomes
U+FFFD, the replacement character. Both are counted, in keys as in values; nothing else about a text changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_OR_NUL = re.compile("[\0\ud800-\udfff]")

# Backslashes occur in JSON inside strings only and each starts an escape, so reading escapes one after the other
# never takes the text \\u0000 (a backslash, then u0000) for U+0000.
_ESCAPE = re.compile(
    r"\\u0000"
    r"|(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|(?P<other>\\.)",
    re.DOTALL,
)
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_SUSPECT_NUMBER = re.compile(r"[eE][+-]?[0-9]{4}|[0-9]{1000}")


@dataclass(slots=True)
class Cleaned:
    """How many texts were changed so that Postgres can hold them (a text with two U+0000 counts once)."""

    nul: int = 0
    surrogates: int = 0


def clean_text(text: str, counts: Cleaned | None = None) -> str:
    """`text` without U+0000 and with U+FFFD for each lone surrogate; the same object when it has neither."""
    if not _SURROGATE_OR_NUL.search(text):
        return text
    if "\0" in text:
        text = text.replace("\0", "")
        if counts is not None:
            counts.nul += 1
    cleaned, surrogates = _SURROGATE.subn("\ufffd", text)
    if surrogates and counts is not None:
        counts.surrogates += 1
    return cleaned


def clean(value: Any, counts: Cleaned | None = None) -> Any:
    """A parsed JSON value with every key and every text cleaned; containers are changed in place.

    Two keys of one object that become the same key by this do not overwrite each other: the cleaned one becomes
    `key_2`, the next `key_3`, and so on.
    """
    if type(value) is str:
        return clean_text(value, counts)
    stack = [value] if type(value) in (dict, list) else []
    while stack:
        container = stack.pop()
        if type(container) is dict:
            _clean_keys(container, counts)
            items: Any = container.items()
        else:
            items = enumerate(container)
        for key, item in items:
            kind = type(item)
            if kind is str:
                cleaned = clean_text(item, counts)
                if cleaned is not item:
                    container[key] = cleaned  # an existing key: the dict does not change its size
            elif kind is dict or kind is list:
                stack.append(item)
    return value


def _clean_keys(container: dict[str, Any], counts: Cleaned | None) -> None:
    if not any(_SURROGATE_OR_NUL.search(key) for key in container):
        return
    # Keys that are clean already keep their names, wherever they stand.
    taken = {key for key in container if not _SURROGATE_OR_NUL.search(key)}
    last: dict[str, int] = {}  # so that thousands of keys with one name are not tried against each other
    items = list(container.items())
    container.clear()
    for key, item in items:
        name = key
        if _SURROGATE_OR_NUL.search(key):
            name = base = clean_text(key, counts)
            while name in taken:
                last[base] = number = last.get(base, 1) + 1
                name = f"{base}_{number}"
            taken.add(name)
        container[name] = item


def jsonb_text(data: bytes) -> str:
    """An inflated body as text that a jsonb column takes, with every digit of its numbers as written.

    `data` is valid JSON in UTF-8 (it was parsed before), with or without a byte order mark. The escapes of U+0000 are
    removed and those of lone surrogates become U+FFFD. A body with a number beyond what numeric can hold is given as
    one JSON string.
    """
    text = data.decode("utf-8-sig")
    if "\\" in text:
        text = _ESCAPE.sub(_replace_escape, text)
    if _SUSPECT_NUMBER.search(text) and not _numbers_fit(text):
        return _quoted(text)
    return text


def _replace_escape(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind is None:
        return ""
    return "\ufffd" if kind == "lone" else match[0]


def _numbers_fit(text: str) -> bool:
    """Whether numeric holds each number; narrower than its limits (131,072 digits before the point, 16,383 after)."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] != '"' and _SUSPECT_NUMBER.search(token):
            mantissa, _, exponent = token.lower().partition("e")
            if len(mantissa) > 10_000 or len(exponent) > 6 or abs(int(exponent or 0)) > 5_000:
                return False
    return True


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').translate(_CONTROL) + '"'


_CONTROL = {code: f"\\u{code:04x}" for code in range(0x20)}
