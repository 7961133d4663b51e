"""`loader demo`: everything on this machine for a few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loader.commands.options import Json

if TYPE_CHECKING:
    import threading


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("demo")(demo)


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", min=1, max=3600, help="How long to publish.")
    ] = 15.0,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=1, max=20_000, help="Messages to publish a second.")
    ] = 500.0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave Postgres and Pub/Sub up, in .local/demo, and print how to connect.")
    ] = False,
    as_json: Json = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines even on a terminal.")] = False,
) -> None:
    """Load a shop's events on this machine, from Pub/Sub into Postgres, and show what came of them.

    Needs no account and nothing that runs: Postgres and Pub/Sub are started, a worker loads what is published, and
    all of it is gone afterwards. Among the messages are columns that arrive late, a number that turns into text,
    repeats, and two that are broken. Pub/Sub is PUBSUB_EMULATOR_HOST if set, the official emulator if installed, else
    a server of our own. Ctrl-C ends early, with the receipt; a second Ctrl-C does not wait for what is on the way.

    Exit code 0 if published = loaded + duplicates + dead letters + discarded, 1 if not, 130 when interrupted before
    anything was published.

    With --json: {"seconds", "rate", "interrupted", "pubsub", "postgres", "published": {"messages", "repeats",
    "poison", "bytes", "seconds"}, "tables": [{"name", "parent", "rows", "columns": [{"name", "type", "late",
    "variant", "first_event"}], "sample": [{COLUMN: VALUE}]}], "changes": [{"table", "column", "data_type",
    "variant", "first_event", "columns"}], "dead_letters": [{"event_id", "reason", "detail", "body"}], "ages":
    {TABLE: {"events", "p50", "p99"}}, "drain_seconds", "stop_seconds", "receipt": {"published", "repeats", "loaded",
    "duplicates", "dead_lettered", "discarded", "redelivered", "difference", "balanced"}, "kept": null or {"folder",
    "environment"}}. Ages and times are in seconds. Progress goes to stderr.

    Examples:

        loader demo

        loader demo --seconds 60 --rate 2000

        loader demo --keep

        loader demo --json > demo.json
    """
    import threading

    from rich.console import Console

    # NO_COLOR is rich's own business; a terminal that cannot move its cursor gets lines.
    console = Console(stderr=as_json, highlight=False)
    fancy = console.is_terminal and not console.is_dumb_terminal and not plain and not as_json
    console.print("The loader in a nutshell: JSON from Pub/Sub becomes typed tables in Postgres.", soft_wrap=True)

    # What follows takes a second to import: the first word comes before it.
    from loader.commands.output import print_json
    from loader.demo.demo import Wish, run
    from loader.demo.events import FEWEST
    from loader.demo.report import as_document, print_report
    from loader.demo.view import LiveView, PlainView

    if seconds * rate < FEWEST:
        raise typer.BadParameter(
            f"{seconds:g} s of {rate:g} messages a second are too few to show anything: at least {FEWEST}",
            param_hint="--seconds, --rate",
        )
    stop, hurry = threading.Event(), threading.Event()
    with _Signals(stop, hurry):
        outcome = run(Wish(seconds, rate, keep), LiveView(console) if fancy else PlainView(console), stop, hurry)
    if as_json:
        print_json(as_document(outcome))
    else:
        print_report(console, outcome)
    if not outcome.receipt.balanced:
        raise typer.Exit(1)


class _Signals:
    """While it lasts, the first SIGINT, SIGTERM or SIGHUP sets `stop`, the second `hurry`."""

    def __init__(self, stop: threading.Event, hurry: threading.Event) -> None:
        import signal

        self._stop, self._hurry = stop, hurry
        self._numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._previous: dict[int, object] = {}

    def __enter__(self) -> None:
        import signal

        self._previous = {number: signal.signal(number, self._take) for number in self._numbers}

    def _take(self, number: int, frame: object) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()

    def __exit__(self, *_: object) -> None:
        import signal

        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
