"""`loader status`: backlog, tables, rates, ages, workers, dead letters, schema; once, again and again, or as a page."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from loader.commands.interrupt import Interrupt
from loader.commands.options import Config, Json

if TYPE_CHECKING:
    from loader.settings.declaration import Settings
    from loader.status.picture import Picture


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("status")(status)


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again until interrupted.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=1.0, help="Pause between two looks of --watch.")
    ] = 5.0,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the status page until interrupted.")] = False,
    host: Annotated[str, typer.Option("--host", help="Address of --serve.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of --serve; 0 takes a free one.")] = 8081,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show how the fleet does: what waits, what was loaded, how old it was, who works, what was refused.

    Rates and ages are over the last five minutes; ages are from publish to commit, their percentiles estimated from
    each load's youngest and oldest event (never beyond these). Rows are counted in tables below 10 MB, in others they
    are Postgres' estimate. What a worker holds is as of when it was seen, every 15 seconds. The backlog comes from
    Cloud Monitoring (role monitoring.viewer) and is a few minutes old.

    With --json one document, with --watch one a look: {"dataset", "taken_at", "schema_version", "open_letters",
    "backlog": {"messages", "oldest_seconds", "note"}, "tables": [{"name", "rows", "rows_per_minute", "age_p50",
    "age_p99", "last_load", "last_load_at", …}], "loads", "letters", "workers", "changes", "history"}.

    Examples:

        loader status

        loader status --watch --json | jq '{at: .taken_at, letters: .open_letters}'

        loader status --serve --port 8081
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json
    from loader.errors import ConfigurationError, LoaderError

    if serve and (watch or as_json):
        raise typer.BadParameter("--serve goes without --watch and --json")
    settings = read_settings(config)
    if serve:
        _serve(settings, host, port)
        return
    with Interrupt() as interrupt:
        while True:
            try:
                picture = _look(settings)
            except LoaderError as error:
                # Who watches through a failover wants to see its end.
                if not watch or isinstance(error, ConfigurationError):
                    raise
                note(f"{datetime.datetime.now(datetime.UTC):%H:%M:%S} {error}")
            else:
                if as_json:
                    print_json(picture.as_dict())
                else:
                    _show(picture, clear=watch)
            if not watch:
                return
            interrupt.pause(interval)


def _look(settings: Settings) -> Picture:
    import dataclasses

    from loader.commands.parts import connected
    from loader.status.monitoring import read_backlog
    from loader.status.read import read_picture

    with connected(settings, "status") as conn:
        picture = read_picture(conn, settings.dataset)
    return dataclasses.replace(picture, backlog=read_backlog(settings.subscription, picture.taken_at))


def _show(picture: Picture, *, clear: bool) -> None:
    from loader.commands.output import print_table, terminal
    from loader.status.words import ago, count, headline, held, size, span

    now = picture.taken_at
    if clear and terminal():
        print("\x1b[2J\x1b[H", end="")
    print_table(["", picture.taken_at.strftime("%Y-%m-%d %H:%M:%S UTC")], headline(picture))
    print()
    print_table(
        ["TABLE", "ROWS ≈", "SIZE", "ROWS/MIN", "AGE P50", "AGE P99", "LAST LOAD"],
        [
            (
                table.name,
                count(table.rows),
                size(table.size),
                count(table.rows_per_minute),
                span(table.age_p50),
                span(table.age_p99),
                ago(table.last_load_at, now) if table.last_load_at else "none in a day",
            )
            for table in picture.tables
        ],
    )
    if picture.letters:
        print()
        print_table(
            ["OPEN DEAD LETTERS", "REASON", "TABLE", "NEWEST"],
            [(count(each.count), each.reason, each.table, ago(each.newest_at, now)) for each in picture.letters],
        )
    if picture.workers:
        print()
        print_table(
            ["WORKER", "VERSION", "UP FOR", "SEEN", "HELD", "ALERT"],
            [
                (
                    each.worker,
                    each.version,
                    span((now - each.started_at).total_seconds()),
                    ago(each.seen_at, now),
                    held(each, now),
                    each.alert,
                )
                for each in picture.workers
            ],
        )


def _serve(settings: Settings, host: str, port: int) -> None:
    import threading

    from loader.commands.output import note
    from loader.commands.parts import make_database
    from loader.observe.http import HttpServer
    from loader.observe.page_source import PageSource
    from loader.worker.signals import StopSignals

    source = PageSource(make_database(settings), settings.dataset, settings.subscription)
    server = HttpServer(host, port, {"/": source.page})
    stop = threading.Event()
    StopSignals(stop.set)
    server.start()
    try:
        note(f"http://{f'[{host}]' if ':' in host else host}:{server.port}/ until interrupted")
        stop.wait()
    finally:
        server.close()
