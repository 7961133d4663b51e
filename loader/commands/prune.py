"""`loader prune`: deletes old bookkeeping, never events."""

from __future__ import annotations

import datetime
from typing import Annotated

import typer

from loader.commands.options import Config, Json
from loader.words import counted


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("prune")(prune)


def prune(
    older_than: Annotated[str, typer.Option("--older-than", metavar="SPAN", help="What is older goes, such as 30d.")],
    keep_versions: Annotated[
        int, typer.Option("--keep-versions", metavar="N", min=1, help="Schema versions that stay, the newest.")
    ] = 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go; delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Delete old rows of _dlt_loads and _receipts, resolved dead letters, all but the last 20 rows of _dlt_version
    (of any age), and workers not seen for a day.

    In small transactions, beside running workers. Events, open dead letters and the schema log stay. `loader
    reconcile` says nothing about loads whose receipts are gone. Asks first; without a terminal it wants --yes.

    With --json: {"dry_run": bool, "deleted": {TABLE: int}}.

    Examples:

        loader prune --older-than 90d --dry-run

        loader prune --older-than 90d --yes
    """
    import sys

    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, print_table
    from loader.commands.parts import connected
    from loader.dead_letter.period import parse_moment
    from loader.errors import LoaderError
    from loader.prune.prune import prune as delete

    now = datetime.datetime.now(datetime.UTC)
    try:
        cutoff = parse_moment(older_than, now)
        if cutoff > now:
            raise ValueError(f"--older-than {cutoff.isoformat()} is in the future: what is new would go as well")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    settings = read_settings(config)
    if not dry_run and not yes:
        question = f"delete bookkeeping of {settings.dataset} from before {cutoff:%Y-%m-%d %H:%M} UTC for good"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise LoaderError(
                f"this would {question}, and there is no terminal to ask on: give --yes, "
                "or --dry-run to see how much it is"
            )
        typer.confirm(f"{question[0].upper()}{question[1:]}?", abort=True, err=True)
    deleted: dict[str, int] = {}
    with connected(settings, "prune") as conn:
        for pruned in delete(conn, settings.dataset, cutoff, kept_versions=keep_versions, dry_run=dry_run):
            deleted[pruned.table] = deleted.get(pruned.table, 0) + pruned.rows
    if as_json:
        print_json({"dry_run": dry_run, "deleted": deleted})
        return
    print_table(["TABLE", "WOULD GO" if dry_run else "DELETED"], sorted(deleted.items()))
    note(f"{counted(sum(deleted.values()), 'row')} {'would be ' if dry_run else ''}deleted")
