"""The metrics as a Markdown table for people, made from their declarations."""

from __future__ import annotations

from loader.observe.declaration import METRICS

BEGIN = "<!-- metrics: begin (made from loader/observe/declaration.py) -->"
END = "<!-- metrics: end -->"


def markdown() -> str:
    """The reference as a Markdown table."""
    lines = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def renew(document: str) -> str:
    """The document with the table between its markers renewed. Raises ValueError if it has no markers."""
    head, begin, rest = document.partition(BEGIN)
    _old, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{markdown()}{END}{tail}"
