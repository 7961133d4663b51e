"""`loader adopt`: take over a dataset that a stock dlt pipeline wrote."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from loader.commands.options import Config, Json

if TYPE_CHECKING:
    from collections.abc import Callable

    from loader.adopt.index import Progress
    from loader.adopt.inventory import RootTable

_PLAIN_SECONDS = 5.0  # between two lines of progress where nobody looks at a terminal


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("adopt")(adopt)


def adopt(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Prepare the tables of a dataset that a stock dlt pipeline wrote. Rows stay as they are.

    Root tables gain the columns of the loader, nullable, and a unique index on _dlt_id where one is missing, built
    without holding up readers or writers. `loader run` does the same in passing for small tables; this is for those
    that need time. It can be interrupted and run again. Exit code 1 when a table could not be prepared.

    The moment of the takeover is in the schema log. Messages that were published before it may be among the rows that
    are there, which have no event id: loaded again, they would be doubled.

    With --json: {"dataset", "dry_run", "tables": [{"name", "rows", "size", "missing", "keyed", "leftovers", "ready",
    "taken_over_at", …}], "problems": [{"table", "problem"}]}.

    Examples:

        loader adopt --dry-run

        LOADER_DATASET=legacy loader adopt
    """
    import psycopg

    from loader.adopt.takeover import Takeover
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, printable
    from loader.commands.parts import connected, make_database
    from loader.errors import LoaderError
    from loader.worker.assembly import plan_rules

    settings = read_settings(config)
    database = make_database(settings)
    takeover = Takeover(database, settings.dataset, plan_rules(settings))
    problems: dict[str, str] = {}
    with connected(settings, "adopt", read_only=dry_run) as conn:
        if conn.execute("select from pg_catalog.pg_namespace where nspname = %s", (settings.dataset,)).rowcount == 0:
            raise LoaderError(  # a misspelt name must not make a dataset
                f"there is no schema {settings.dataset} at {database.describe()}, so nothing to take over: "
                "correct LOADER_DATASET, or start afresh with `loader run`, which makes it"
            )
        tables = takeover.inventory(conn)
        if not dry_run:
            takeover.prepare(conn)
            for table in tables:
                # Ready ones too: their columns may still have to be entered in the stored schema.
                try:
                    takeover.take(conn, table, _watch())
                except (LoaderError, psycopg.Error) as error:
                    if conn.closed or conn.broken:
                        raise
                    problems[table.name] = " ".join(str(error).split())
            tables = takeover.inventory(conn)
    if as_json:
        print_json(
            {
                "dataset": settings.dataset,
                "dry_run": dry_run,
                "tables": [table.as_dict() for table in tables],
                "problems": [{"table": name, "problem": text} for name, text in problems.items()],
            }
        )
    else:
        _print(tables, dry_run)
        for name, text in problems.items():
            note(f"{printable(name)}: {text}")
        ready = sum(table.ready for table in tables)
        note(f"{ready} of {len(tables)} root tables of {settings.dataset} are ready")
    raise typer.Exit(1 if problems else 0)


def _print(tables: list[RootTable], dry_run: bool) -> None:
    from loader.commands.output import print_table

    print_table(
        ["TABLE", "ROWS ≈", "SIZE", "INDEX ON _dlt_id", "COLUMNS " + ("TO ADD" if dry_run else "MISSING"), "SINCE"],
        [
            (
                table.name,
                f"{table.rows:,}",
                f"{table.size / 1_000_000:,.1f} MB",
                _index(table),
                ", ".join(table.missing) or "none",
                table.taken_over_at.isoformat(timespec="seconds") if table.taken_over_at else "",
            )
            for table in tables
        ],
    )


def _index(table: RootTable) -> str:
    if table.keyed:
        return "ok"
    if table.building:
        return "being built"
    return "invalid: left by an interrupted build" if table.leftovers else "missing"


def _watch() -> Callable[[Progress], None]:
    """Progress on stderr: one line that renews itself on a terminal, a line now and then elsewhere."""
    import sys

    from loader.commands.output import note, printable

    alive = sys.stderr.isatty()
    last = [time.monotonic() if not alive else 0.0]

    def watch(progress: Progress) -> None:
        share = f" {100 * progress.done // progress.total} %" if progress.total else ""
        text = printable(f"{progress.table}: {progress.phase}{share}")
        if alive:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif time.monotonic() - last[0] >= _PLAIN_SECONDS:
            last[0] = time.monotonic()
            note(text)

    return watch
