"""What the verbs of `loader bench` share: their options and the way a record is shown and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url", metavar="URL", help="Use this Postgres (a fresh database of it) instead of our own."
    ),
]
Save = Annotated[bool, typer.Option("--save", help="Keep the record under --results.")]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where --save keeps records.")]
Prefill = Annotated[int, typer.Option("--prefill", min=0, metavar="N", help="Rows in the tables beforehand.")]
DEFAULT_RESULTS = Path("tests/benchmarks/results")


def deliver(record: dict[str, Any], as_json: bool, save: bool, results: Path) -> None:
    """Print the record as JSON if that is wanted, and keep it if that is."""
    from loader.bench.record import save as keep
    from loader.commands.output import note, print_json

    if as_json:
        print_json(record)
    else:
        note(f"repeat with: {record['command']}")
    if save:
        note(f"kept as {keep(record, results)}")


def number(value: float | None, digits: int = 1) -> str:
    """A figure for a table; a dash when there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def judged(reached: bool) -> str:
    """Whether a goal was reached."""
    return "reached" if reached else "MISSED"
