"""`loader bench all` and `loader bench report`: every benchmark in one run, and one report of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, Results, Save
from loader.commands.options import Json

Markdown = Annotated[bool, typer.Option("--markdown", help="Print the report as the README's page.")]
Write = Annotated[
    Path | None,
    typer.Option("--write", metavar="FILE", help="Renew the page between FILE's markers, from the kept records."),
]


def register(app: typer.Typer) -> None:
    """Add the verbs to `loader bench`."""
    app.command("all")(everything)
    app.command("report")(report)


def everything(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="VERB", help="These parts alone; repeatable.")
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="The slow parts instead: ages, half an hour, a fleet.")] = False,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
    markdown: Markdown = False,
    write: Write = None,
) -> None:
    """Run load, run, bridge, gps and a small fleet, each in a process of its own, and print one report.

    Exit code 1 when a part fails; a goal that is missed is no failure.

    The report says for each what ours costs, what the baseline does, their ratio, the ceilings and how far from them we
    are, and which goals are reached. It takes 10 to 15 minutes on two quiet cores; with --long an hour.

    --save keeps the record of each part; --write does so too and then renews the README's page from the kept records.

    With --json: {"goals": [{"benchmark", "what", "goal", "measured", "reached", "why"}], "ceilings": {SERVER:
    {"slower", "wall", "cpu", "cpu_of_both", …}}, "records": {VERB: …}, "seconds": {VERB: N}, "failed": [TEXT]}.

    Examples:

        loader bench all --save

        loader bench all --only load --only run

        loader bench all --long --write README.md
    """
    from loader.bench.record import save as keep
    from loader.bench.report.records import newest
    from loader.bench.suite import LONG, SHORT, Outcome, ended_in_order, run_suite, there
    from loader.commands.output import note
    from loader.errors import LoaderError

    parts = there(LONG if long else SHORT)
    unknown = set(only or ()) - {part.name for part in parts}
    if unknown:
        names = ", ".join(part.name for part in parts)
        raise typer.BadParameter(f"{sorted(unknown)[0]!r} is none of {names}", param_hint="--only")
    if only:
        parts = [part for part in parts if part.name in only]

    def finished(outcome: Outcome) -> None:
        # At once: an hour's run that is interrupted has lost nothing that was measured. What failed is not kept.
        if (save or write) and outcome.record is not None and not outcome.complaint:
            note(f"kept as {keep(outcome.record, results)}")

    with ended_in_order():
        outcomes = run_suite(parts, note, finished)
    failed = [outcome.complaint for outcome in outcomes if outcome.complaint]
    records = newest([outcome.record for outcome in outcomes if outcome.record is not None])
    seconds = {outcome.part.name: round(outcome.seconds) for outcome in outcomes}
    _deliver(records, as_json, markdown, {"seconds": seconds, "failed": failed})
    if write is not None:
        _write(write, results)
    if failed:
        raise LoaderError("; ".join(failed))


def report(
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
    markdown: Markdown = False,
    write: Write = None,
) -> None:
    """One report of the kept records: the newest of each benchmark, of fleet and soak the newest of the largest.

    With --json: {"goals": [{"benchmark", "what", "goal", "measured", "reached", "why"}], "ceilings": {SERVER:
    {"slower", "wall", "cpu", "cpu_of_both", …}}, "records": {VERB: …}}.

    Examples:

        loader bench report

        loader bench report --write README.md
    """
    from loader.bench.report.records import newest, read_records

    if write is not None:
        _write(write, results)
        return
    _deliver(newest(read_records(results)), as_json, markdown, {})


def _deliver(records: dict[str, Any], as_json: bool, markdown: bool, more: dict[str, Any]) -> None:
    from loader.bench.report.goals import goals
    from loader.bench.report.loading import ceilings
    from loader.bench.report.page import page
    from loader.commands.output import print_json

    if as_json:
        found = [goal.as_dict() for goal in goals(records)]
        print_json({"goals": found, "ceilings": ceilings(records), "records": records, **more})
    elif markdown:
        typer.echo(page(records), nl=False)
    else:
        show(records)


def show(records: dict[str, Any]) -> None:
    """The report for a terminal; goals come last, where they are seen."""
    from loader.bench.report.goals import goals
    from loader.bench.report.page import goal_section, record_section, sections
    from loader.commands.output import print_table

    for section in [*sections(records), record_section(records), goal_section(goals(records))]:
        rows = [[_plain(cell) for cell in row] for row in section.rows]
        print_table(section.columns, rows, title=section.title.upper())
        typer.echo(f"{_plain(section.text)}\n")


def _plain(text: str) -> str:
    """Without Markdown's marks."""
    return text.replace("**missed**", "MISSED").replace("`", "").replace("*small*", "small")


def _write(file: Path, results: Path) -> None:
    from loader.bench.report.page import renew
    from loader.bench.report.records import newest, read_records
    from loader.commands.output import note
    from loader.errors import LoaderError

    records = newest(read_records(results))
    try:
        file.write_text(renew(file.read_text(encoding="utf-8"), records), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise LoaderError(f"cannot renew the figures in {file}: {error}") from error
    note(f"renewed the figures in {file} from {len(records)} records of {results}")
