"""`loader bench latency`: ages from publish to commit."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, DatabaseUrl, Results, Save, deliver, judged, number
from loader.commands.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("latency")(latency)


def latency(
    rate: Annotated[
        list[int] | None,
        typer.Option("--rate", min=1, metavar="N", help="Messages a second; repeatable. Default: 100, 1000, 10000."),
    ] = None,
    window: Annotated[
        list[float] | None,
        typer.Option(
            "--window", min=0.1, metavar="SECONDS", help="LOADER_WINDOW_SECONDS; repeatable. Default: 0.5, 1, 5."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, metavar="N", help="How long each is measured.")] = 20.0,
    database_url: DatabaseUrl = None,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """Ages from publish to commit, p50 and p99, at steady rates, for several windows, with a real worker process.

    Pub/Sub is the in-memory server, a process of its own; Postgres is durable and records when it committed each row.
    The first 2 s of each rate and the last window are not counted. With --database-url that server needs
    track_commit_timestamp = on.

    With --json: {"benchmark", …, "parameters", "results": {"cells": [{"window_seconds", "rate", "published_per_second",
    "messages", "p50_age_seconds", "p99_age_seconds", "max_age_seconds", "commits", "worker_cpu_share"}]}}.

    Examples:

        loader bench latency

        loader bench latency --rate 1000 --window 1 --seconds 60
    """
    from dataclasses import asdict

    from loader.bench.latency import SETTINGS, LatencyPlan, run_latency
    from loader.bench.record import make_record
    from loader.bench.server import database
    from loader.commands.output import note

    default = LatencyPlan()
    plan = LatencyPlan(tuple(rate or default.rates), tuple(window or default.windows), seconds)
    with database(database_url, SETTINGS) as server:
        cells = run_latency(server.url, plan, note)
        parts = ["loader bench latency", *(f"--rate {one}" for one in plan.rates)]
        parts += [*(f"--window {one:g}" for one in plan.windows), f"--seconds {seconds:g}"]
        found = {"cells": [asdict(cell) for cell in cells]}
        record = make_record("latency", " ".join(parts), asdict(plan), found, {"postgres": server.version})
    if not as_json:
        show(found)
    deliver(record, as_json, save, results)


def show(found: dict[str, Any]) -> None:
    """The table of a run."""
    from loader.bench.latency import GOAL_P99_SECONDS, GOAL_WINDOW_SECONDS
    from loader.commands.output import print_table

    rows = []
    for cell in found["cells"]:
        goal = cell["window_seconds"] == GOAL_WINDOW_SECONDS
        rows.append(
            (
                f"{cell['window_seconds']:g}",
                f"{cell['rate']:,}",
                number(cell["published_per_second"], 0),
                f"{cell['messages']:,}",
                *(number(cell[f"{name}_age_seconds"], 2) for name in ("p50", "p99", "max")),
                cell["commits"],
                f"{cell['worker_cpu_share']:.1%}",
                judged(cell["p99_age_seconds"] < GOAL_P99_SECONDS) if goal else "",
            )
        )
    print_table(
        ["WINDOW s", "RATE", "PUBLISHED/s", "MESSAGES", "p50 s", "p99 s", "MOST s", "COMMITS", "WORKER CPU", "GOAL"],
        rows,
        title=f"latency: ages from publish to commit; with {GOAL_WINDOW_SECONDS:g} s p99 under {GOAL_P99_SECONDS:g} s",
    )
