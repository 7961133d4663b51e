"""`loader bench VERB`: the claims of the README, as programs that anyone can run."""

from __future__ import annotations

import importlib
import importlib.util

import typer

VERBS = ("load", "run", "soak", "bridge", "gps", "latency", "fleet", "simulate", "suite")


def register(app: typer.Typer) -> None:
    """Add the verbs that there are to the command."""
    bench = typer.Typer(
        name="bench",
        help="Measure what a message costs, beside the baseline, on this machine.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for verb in VERBS:
        name = f"loader.bench.verbs.{verb}"
        # Only a module that is not there is left out; one that fails to import is a fault to be seen.
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name).register(bench)
    app.add_typer(bench)
