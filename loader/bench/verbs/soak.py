"""`loader bench soak`: does anything of a worker grow."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, DatabaseUrl, Results, Save, deliver, judged, number
from loader.commands.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("soak")(soak)


def soak(
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, metavar="N", help="How long.")] = 5.0,
    rate: Annotated[int, typer.Option("--rate", min=20, metavar="N", help="Messages a second.")] = 2_000,
    body_bytes: Annotated[int, typer.Option("--bytes", min=250, metavar="N", help="Size of a body.")] = 1_000,
    window: Annotated[float, typer.Option("--window", min=0.1, metavar="SECONDS", help="LOADER_WINDOW_SECONDS.")] = 5.0,
    quiet: Annotated[float, typer.Option("--quiet", min=1, metavar="SECONDS", help="Silence afterwards.")] = 30.0,
    backlog: Annotated[
        int, typer.Option("--backlog", min=1000, metavar="N", help="Messages of the memory measurement.")
    ] = 100_000,
    database_url: DatabaseUrl = None,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """Memory, file descriptors, threads, connections and disk of a worker over many windows.

    First a backlog at the default limits (peak memory), then a steady rate (slopes), then silence (CPU at rest). The
    worker has the default settings, and its metrics are read every 2 s. Verdicts: flat (within two standard errors),
    small (a slope below the bound), grows, falls. Postgres takes the rows: about 2.5 MB a second on disk by default.

    With --json: {"benchmark", …, "results": {"series": {NAME: {"first", "last", "least", "most", "slope_per_hour",
    "slope_error_per_hour", "bound_per_hour", "verdict", "flat"}}, "grows": [NAME], "quiet_cpu_share",
    "backlog_peak_resident_bytes", "published", "published_per_second", "samples"}}.

    Examples:

        loader bench soak --minutes 30

        loader bench soak --minutes 5 --rate 200 --window 1
    """
    from loader.bench.record import make_record
    from loader.bench.server import database
    from loader.bench.soak import SoakPlan, run_soak
    from loader.commands.output import note

    plan = SoakPlan(minutes, rate, body_bytes, window, quiet_seconds=quiet, backlog=backlog)
    with database(database_url) as server:
        found = run_soak(server.url, plan, note)
        command = f"loader bench soak --minutes {minutes:g} --rate {rate} --bytes {body_bytes} --window {window:g}"
        command += f" --quiet {quiet:g} --backlog {backlog}"
        parameters = {
            "minutes": minutes,
            "rate": rate,
            "bytes": body_bytes,
            "window_seconds": window,
            "quiet_seconds": quiet,
            "backlog": backlog,
        }
        record = make_record("soak", command, parameters, found, {"postgres": server.version})
    if not as_json:
        show(found)
    deliver(record, as_json, save, results)


def show(found: dict[str, Any]) -> None:
    """The tables of a run."""
    from loader.bench.soak import GOAL_PEAK_BYTES, GOAL_QUIET
    from loader.commands.output import print_table

    print_table(
        ["OF THE WORKER", "FIRST", "LAST", "LEAST", "MOST", "SLOPE AN HOUR", "± ERROR", "BOUND", ""],
        [
            (
                name,
                *(number(one[key], 0) for key in ("first", "last", "least", "most")),
                number(one["slope_per_hour"]),
                number(one["slope_error_per_hour"]),
                number(one["bound_per_hour"], 0),
                one["verdict"].upper() if one["verdict"] == "grows" else one["verdict"],
            )
            for name, one in found["series"].items()
        ],
        title=f"soak: {found['published']:,} messages, {found['samples']} samples",
    )
    quiet, peak = found["quiet_cpu_share"], found["backlog_peak_resident_bytes"]
    goals = [("nothing grows", ", ".join(found["grows"]) or "nothing", judged(not found["grows"]))]
    goals += [(f"at rest under {GOAL_QUIET:.0%} of a core", f"{quiet:.2%}", judged(quiet < GOAL_QUIET))]
    if peak is not None:
        title = f"resident memory under {GOAL_PEAK_BYTES / 1e6:.0f} MB on a backlog"
        goals.append((title, f"{peak / 1e6:.0f} MB", judged(peak < GOAL_PEAK_BYTES)))
    print_table(["GOAL", "MEASURED", ""], goals, title="goals")
