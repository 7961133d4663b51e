"""`loader run`: pull a subscription and load it until told to stop."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from loader.commands.options import Config


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("run")(run)


def run(
    config: Config = None,
    create: Annotated[
        bool, typer.Option("--create", help="Make the topic and the subscription first; on an emulator only.")
    ] = False,
) -> None:
    """Pull the subscription and load it until SIGTERM or SIGINT.

    Exit code 0 after a clean drain, 1 on a fatal fault, 78 when a setting is wrong. Logs go to stdout, one JSON
    object a line.

    Examples:

        LOADER_SUBSCRIPTION=projects/p/subscriptions/s LOADER_DATABASE_URL=postgresql://u@host/db loader run

        loader run --config loader.toml

        PUBSUB_EMULATOR_HOST=127.0.0.1:8085 loader run --create
    """
    from loader.commands.options import read_settings
    from loader.settings.limits import require_consistent, require_subscription
    from loader.worker.service import serve

    settings = read_settings(config)
    subscription = require_subscription(settings)
    require_consistent(settings)
    if create:
        from loader.pull.creation import create_on_emulator

        create_on_emulator(subscription)
    code = serve(settings)
    # All is flushed and closed. Taking down an interpreter with gRPC in it can take seconds on a busy machine, and a
    # spot machine that is preempted has none to spare.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
