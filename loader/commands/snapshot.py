"""`loader snapshot`: mark where the subscription is, to replay from there later."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from loader.commands.options import Config, Json

if TYPE_CHECKING:
    from loader.backfill.service import Service
    from loader.settings.declaration import Settings

app = typer.Typer(no_args_is_help=True, help="Create, list and delete snapshots of the subscription.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Short name, or projects/P/snapshots/NAME.")]


def register(parent: typer.Typer) -> None:
    """Add the verb to the command."""
    parent.add_typer(app, name="snapshot")


@app.command("create")
def create(name: Name, config: Config = None, as_json: Json = False) -> None:
    """Keep what is unacked now, and all that is published from now on, for 7 days at most.

    Before a deployment, say: `loader backfill --snapshot NAME` replays everything since. It costs storage. Needs no
    retention of acked messages.

    With --json: {"name", "topic", "oldest", "expires"}.

    Examples:

        loader snapshot create before-deploy
    """
    from loader.commands.output import note, print_json
    from loader.errors import LoaderError

    with _service(config) as (service, _):
        full = service.snapshot_name(name)
        if any(found.name == full for found in service.snapshots()):
            raise LoaderError(f"snapshot {full} is there already: choose another name, or delete it first")
        made = service.create_snapshot(full)
    if as_json:
        print_json({"name": made.name, "topic": made.topic, "oldest": made.oldest, "expires": made.expires})
        return
    note(f"{made.name} keeps what was unacked and all that comes, until {made.expires.isoformat(timespec='seconds')}")


@app.command("list")
def list_snapshots(config: Config = None, as_json: Json = False) -> None:
    """List the snapshots of the subscription's topic, the oldest first. OLDEST is the earliest that one brings back.

    With --json: {"snapshots": [{"name", "topic", "oldest", "expires"}]}.

    Examples:

        loader snapshot list
    """
    from loader.commands.output import print_json, print_table

    with _service(config) as (service, _):
        subscription, _retention = service.describe()
        found = service.snapshots(subscription.topic)
    if as_json:
        entries = [{"name": s.name, "topic": s.topic, "oldest": s.oldest, "expires": s.expires} for s in found]
        print_json({"snapshots": entries})
        return
    print_table(
        ["SNAPSHOT", "OLDEST", "EXPIRES"],
        [(s.name, s.oldest.isoformat(timespec="seconds"), s.expires.isoformat(timespec="seconds")) for s in found],
    )


@app.command("delete")
def delete(name: Name, config: Config = None) -> None:
    """Delete a snapshot. What it alone retained is gone.

    Examples:

        loader snapshot delete before-deploy
    """
    from loader.commands.output import note

    with _service(config) as (service, _):
        full = service.snapshot(name).name  # says so when there is none
        service.delete_snapshot(full)
    note(f"{full} is deleted")


@contextlib.contextmanager
def _service(config: Config) -> Iterator[tuple[Service, Settings]]:
    from loader.backfill.service import Service
    from loader.commands.options import read_settings
    from loader.pull.channel import Stub, open_channel
    from loader.settings.limits import require_subscription

    settings = read_settings(config)
    subscription = require_subscription(settings)
    with open_channel() as channel:
        yield Service(Stub(channel), subscription), settings
