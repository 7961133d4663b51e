"""The bridge's metrics as a Markdown table, made from what the bridge serves.

`python -m loader.observability.reference README.md` renews it there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from loader.bridge.metrics import render

BEGIN = "<!-- bridge metrics: begin (made from loader/bridge/metrics.py) -->"
END = "<!-- bridge metrics: end -->"


def markdown() -> str:
    """The reference as a Markdown table."""
    served = render([], {}, {}).decode()
    meanings = dict(re.findall(r"^# HELP (\S+) (.*)$", served, re.M))
    lines = ["| Metric | Kind | Meaning |", "|---|---|---|"]
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", served, re.M):
        lines.append(f"| `{name}` | {kind} | {meanings[name]} |")
    return "\n".join(lines) + "\n"


def renew(document: str) -> str:
    """The document with the table between its markers renewed. Raises ValueError if it has no markers."""
    head, begin, rest = document.partition(BEGIN)
    _old, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{markdown()}{END}{tail}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renew(path.read_text(encoding="utf-8")), encoding="utf-8")
