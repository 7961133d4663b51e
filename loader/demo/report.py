"""The results: tables with their columns and rows, dead letters, the receipt; for people or as one document."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from rich.console import Console
from rich.text import Text

from loader.commands.output import printable
from loader.demo import words
from loader.demo.demo import Outcome
from loader.demo.receipt import Receipt
from loader.demo.survey import Column, Table

_CELL = 26


def print_report(console: Console, outcome: Outcome) -> None:
    """All of it, for people."""
    width = min(console.width, 100)
    _print_tables(console, outcome, width)
    _print_letters(console, outcome, width)
    _print_receipt(console, outcome)
    if outcome.parts.folder is not None:
        _print_kept(console, outcome)
    else:
        _line(console, "All of it is gone again. To look around in it: `loader demo --keep`.")


def as_document(outcome: Outcome) -> dict[str, Any]:
    """All of it, as data."""
    parts, found = outcome.parts, outcome.survey
    return {
        "seconds": outcome.wish.seconds,
        "rate": outcome.wish.rate,
        "interrupted": outcome.interrupted,
        "pubsub": parts.pubsub,
        "postgres": parts.postgres,
        "published": dataclasses.asdict(outcome.published),
        "tables": [
            {
                "name": table.name,
                "parent": table.parent or None,
                "rows": table.rows,
                "columns": [dataclasses.asdict(column) for column in table.columns],
                "sample": table.sample,
            }
            for table in found.tables
        ],
        "changes": [dataclasses.asdict(change) for change in outcome.progress.changes],
        "dead_letters": [dataclasses.asdict(letter) for letter in found.letters],
        "ages": {
            table: {"events": ages.count, "p50": _rounded(ages.quantile(0.5)), "p99": _rounded(ages.quantile(0.99))}
            for table, ages in sorted(outcome.progress.ages.items())
        },
        "drain_seconds": round(outcome.drain_seconds, 3),
        "stop_seconds": round(outcome.stop_seconds, 3),
        "receipt": outcome.receipt.as_dict(),
        "kept": None if parts.folder is None else {"folder": str(parts.folder), "environment": parts.environment},
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _line(console: Console, text: str = "", style: str = "") -> None:
    console.print(Text(printable(text), style=style), soft_wrap=True)


def _heading(console: Console, title: str, remark: str = "") -> None:
    console.print(Text.assemble((title, "bold underline"), (f"  {remark}" if remark else "", "dim")), soft_wrap=True)


def _print_tables(console: Console, outcome: Outcome, width: int) -> None:
    tables = outcome.survey.tables
    _heading(console, "Tables", "inferred by dlt from the messages: nobody wrote a schema")
    for table in tables:
        _line(console)
        ages = outcome.progress.ages.get(table.name)
        remark = f"rows {table.rows:,}"
        if ages is not None:
            remark += f", publish to commit p50 {words.age(ages.quantile(0.5))}, p99 {words.age(ages.quantile(0.99))}"
        if table.parent:
            remark += f", one for each element of a list in {table.parent}"
        _print_name(console, table.name, remark, width)
        _print_columns(console, table.columns, width)
        _print_rows(console, table, width)
    _line(console)
    _line(console, "The loader's own columns are left out here: _event_id, _event_digest and", "dim")
    _line(console, "_published_at; _dlt_id and _dlt_load_id; in child tables _dlt_parent_id and", "dim")
    _line(console, "_dlt_list_idx.", "dim")
    _line(console)


def _print_name(console: Console, name: str, remark: str, width: int) -> None:
    if len(name) + 2 + len(remark) <= width:
        console.print(Text.assemble((printable(name), "bold cyan"), (f"  {remark}", "dim")), soft_wrap=True)
        return
    _line(console, name, "bold cyan")
    _line(console, f"  {remark}", "dim")


def _print_columns(console: Console, columns: list[Column], width: int) -> None:
    """`name type` side by side, broken between columns only."""
    text = Text("  ")
    used = 2
    for position, column in enumerate(columns):
        last = position == len(columns) - 1
        mark = f" ← {'variant' if column.variant else 'new'}, {column.first_event}" if column.late else ""
        piece = f"{printable(column.name)} {column.type}{mark}" + ("" if last else ",")
        if used > 2 and used + len(piece) + 1 > width:
            text.append("\n  ")
            used = 2
        elif used > 2:
            text.append(" ")
            used += 1
        style = "yellow" if column.variant else ("green" if column.late else "")
        text.append(piece, style)
        used += len(piece)
    console.print(text, soft_wrap=True)


def _print_rows(console: Console, table: Table, width: int) -> None:
    """A few rows, with as many columns as fit: those first that came late."""
    late = {column.name for column in table.columns if column.late}
    bases = {name.partition("__v_")[0] for name in late if "__v_" in name}
    # The type is the table's name again.
    names = [column.name for column in table.columns if column.name != "type"]
    names.sort(key=lambda name: name not in late and name not in bases)
    cells = {name: [words.cut(words.value(row[name]), _CELL) for row in table.sample] for name in names if table.sample}
    used = 2
    shown: list[tuple[str, int]] = []
    for name in names:
        if name not in cells:
            continue
        wide = max(len(name), *(len(cell) for cell in cells[name]))
        if used + wide > width:
            continue
        shown.append((name, wide))
        used += wide + 2
    # In the order in which the table has them.
    order = [column.name for column in table.columns]
    shown.sort(key=lambda one: order.index(one[0]))
    if not shown:
        return
    _line(console, ("    " + "  ".join(name.ljust(wide) for name, wide in shown))[2:].rstrip(), "dim")
    for index in range(len(table.sample)):
        _line(console, ("    " + "  ".join(cells[name][index].ljust(wide) for name, wide in shown))[2:].rstrip())


def _print_letters(console: Console, outcome: Outcome, width: int) -> None:
    letters = outcome.survey.letters
    _heading(console, "Dead letters", "kept with their bodies, to be replayed once they fit")
    if not letters:
        _line(console, "  none")
    for letter in letters[:10]:
        _line(console, f"  {letter.event_id}  {letter.reason}", "red")
        _line(console, f"    {letter.detail}")
        _line(console, "    " + words.cut(printable(letter.body), width - 4), "dim")
    if len(letters) > 10:
        _line(console, f"  and {len(letters) - 10:,} more")
    _line(console)


def _print_receipt(console: Console, outcome: Outcome) -> None:
    receipt = outcome.receipt
    _heading(console, "Receipt", "each figure counted on its own, after the worker had ended")
    for label, number, remark in _receipt_lines(receipt):
        _line(console, f"  {label:<18}{number:>10}   {remark}".rstrip())
    style = "bold green" if receipt.balanced else "bold red"
    _line(console, f"  {receipt.verdict}", style)
    _line(console)


def _receipt_lines(receipt: Receipt) -> list[tuple[str, str, str]]:
    lines = [("published", f"{receipt.published:,}", "messages, confirmed to the publisher")]
    if receipt.redelivered:
        lines.append(("+ redelivered", f"{receipt.redelivered:,}", "delivered twice by Pub/Sub, as it may"))
    lines += [
        ("= loaded", f"{receipt.loaded:,}", "rows of the root tables, by count(*)"),
        ("+ duplicates", f"{receipt.duplicates:,}", f"left out; {receipt.repeats:,} published on purpose"),
        ("+ dead letters", f"{receipt.dead_lettered:,}", "open ones, by count(*)"),
        ("+ discarded", f"{receipt.discarded:,}", "by a schema contract; none is set here"),
    ]
    return lines


def _print_kept(console: Console, outcome: Outcome) -> None:
    parts = outcome.parts
    _heading(console, "Still up", "Postgres and Pub/Sub; the worker has ended")
    _line(console, "To use them, for example with `loader run` or `loader dead-letters list`:")
    for name, value in parts.environment.items():
        _line(console, f"  export {name}={shlex.quote(value)}")
    _line(console, "To look at the tables, after these lines:")
    _line(console, f"  PGOPTIONS='-c search_path={parts.dataset}' psql \"$LOADER_DATABASE_URL\"")
    _line(console, "To stop both:")
    _line(console, f"  loader local down --dir {shlex.quote(str(parts.folder))}")
    _line(console, f"Postgres keeps its data in {parts.data}.")
