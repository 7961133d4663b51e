"""`loader schema`: how a dataset's schema came to be, and what a table looks like now."""

from __future__ import annotations

import datetime
from typing import Annotated

import typer

from loader.commands.options import Config, Json

app = typer.Typer(no_args_is_help=True, help="The schema's history and its tables.", rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Add the verb to the command."""
    parent.add_typer(app, name="schema")


@app.command("log")
def log(
    table: Annotated[str | None, typer.Option("--table", metavar="T", help="Only this table.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Only since a time (2030-01-31) or span (24h).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many, the newest.")] = 100,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List the columns that were ever added, the newest first: when, which, its type, the event that first asked.

    An empty event stands for a column of the loader's own.

    With --json: {"columns": [{"added_at", "table", "column", "data_type", "is_variant", "new_table", "first_event",
    "worker", "version"}]}.

    Examples:

        loader schema log --since 24h

        loader schema log --table orders --json | jq '.columns[] | select(.is_variant)'
    """
    from loader.commands.options import read_settings
    from loader.commands.output import print_json, print_table
    from loader.commands.parts import connected
    from loader.dead_letter.period import parse_moment
    from loader.status.read import read_schema_log

    try:
        moment = parse_moment(since, datetime.datetime.now(datetime.UTC)) if since else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    settings = read_settings(config)
    with connected(settings, "schema", read_only=True) as conn:
        columns = read_schema_log(conn, settings.dataset, table, moment, limit)
    if as_json:
        import dataclasses

        print_json({"columns": [dataclasses.asdict(column) for column in columns]})
        return
    print_table(
        ["ADDED", "TABLE", "COLUMN", "TYPE", "FIRST EVENT", "WORKER", "VERSION"],
        [
            (
                each.added_at.strftime("%Y-%m-%d %H:%M:%S"),
                each.table + (" (new)" if each.new_table else ""),
                each.column,
                each.data_type + (" (variant)" if each.is_variant else ""),
                each.first_event,
                each.worker,
                each.version,
            )
            for each in columns
        ],
    )


@app.command("show")
def show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the dataset.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show a table's columns as they are in the database, each with when and for which event it was added.

    With --json: {"table", "columns": [{"name", "type", "nullable", "added_at", "first_event", "is_variant",
    "version"}]}; the last four are null for columns that the loader did not add.

    Examples:

        loader schema show orders
    """
    from loader.commands.options import read_settings
    from loader.commands.output import print_json, print_table
    from loader.commands.parts import connected
    from loader.errors import LoaderError
    from loader.status.columns import read_columns

    settings = read_settings(config)
    with connected(settings, "schema", read_only=True) as conn:
        columns = read_columns(conn, settings.dataset, table)
    if not columns:
        raise LoaderError(f"dataset {settings.dataset} has no table {table!r}: `loader status` lists them")
    if as_json:
        print_json({"table": table, "columns": [column.as_dict() for column in columns]})
        return
    print_table(
        ["COLUMN", "TYPE", "NULL", "ADDED", "FIRST EVENT", "VERSION"],
        [
            (
                each.name,
                each.type + (" (variant)" if each.is_variant else ""),
                "yes" if each.nullable else "no",
                each.added_at.strftime("%Y-%m-%d %H:%M:%S") if each.added_at else "",
                each.first_event,
                each.version,
            )
            for each in columns
        ],
    )
