"""Sizes in bytes as people write them: 16MiB, 10 MB, 1048576."""

from __future__ import annotations

import re

UNITS = {
    "": 1,
    "b": 1,
    "k": 1024,
    "kb": 1000,
    "kib": 1024,
    "m": 1024**2,
    "mb": 1000**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gb": 1000**3,
    "gib": 1024**3,
}

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(value: object) -> int:
    """Bytes from an int or a text such as `16MiB` (1024-based), `16MB` (1000-based) or `16M` (as MiB).

    Raises ValueError for anything else, a fraction of a byte included."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a size such as 16MiB")
    if isinstance(value, int):
        return value
    match = _SIZE.fullmatch(value)
    factor = UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError("must be a size such as 16MiB, 10MB or 1048576")
    whole, _, fraction = match[1].partition(".")
    scale = 10 ** len(fraction)
    size, rest = divmod(int(whole + fraction) * factor, scale)
    if rest:
        raise ValueError("must be a whole number of bytes")
    return size


def format_size(size: int) -> str:
    """The shortest exact text of a size: 16777216 → `16 MiB`, 1000 → `1000 B`."""
    for unit in ("GiB", "MiB", "KiB"):
        factor = UNITS[unit.lower()]
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
