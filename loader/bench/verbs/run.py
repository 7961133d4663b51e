"""`loader bench run`: a worker process end to end."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, DatabaseUrl, Prefill, Results, Save, deliver, judged, number
from loader.commands.options import Json

_MEASURED = (
    ("loader", "loader"),
    ("baseline", "baseline"),
    ("pull_and_ack_only", "pull and ack alone"),
    ("copy_of_prepared_rows", "COPY of ready rows alone"),
)


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("run")(run)


def run(
    messages: Annotated[
        int, typer.Option("--messages", min=1000, metavar="N", help="Backlog of the worker.")
    ] = 300_000,
    stock_messages: Annotated[
        int, typer.Option("--stock-messages", min=1000, metavar="N", help="Backlog of the baseline, which is slow.")
    ] = 20_000,
    shape: Annotated[str, typer.Option("--shape", metavar="NAME", help="flat, nested, lists or mixed.")] = "flat",
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, metavar="N", help="Backlogs a figure.")] = 3,
    prefill: Prefill = 1_000_000,
    pubsub: Annotated[
        str, typer.Option("--pubsub", metavar="KIND", help="memory, official, or auto: both where installed.")
    ] = "auto",
    stock: Annotated[bool, typer.Option("--stock/--no-stock", help="Measure the baseline too.")] = True,
    database_url: DatabaseUrl = None,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """A backlog through a real worker: pull, parse, copy, commit, ack.

    CPU is the worker process's, from the moment at which it starts to pull until the last ack; imports are left out.
    The baseline is the convenience client with one stock `pipeline.run` a window of 5 s or 5,000 messages.

    With --json: {"benchmark", …, "parameters", "results": {SERVER: {"loader", "baseline", "pull_and_ack_only",
    "copy_of_prepared_rows", "share_of_ceilings": {"slower", "wall", "cpu", "cpu_of_both"},
    "times_less_cpu_than_baseline", "pubsub", "streams"}}}.

    Examples:

        loader bench run

        loader bench run --pubsub memory --messages 1000000 --repetitions 1
    """
    from loader.bench.messages import SHAPES
    from loader.bench.record import make_record
    from loader.bench.run import RunPlan, run_end_to_end
    from loader.bench.server import database
    from loader.commands.output import note

    if shape not in SHAPES:
        raise typer.BadParameter(f"{shape!r} is none of {', '.join(SHAPES)}", param_hint="--shape")
    plan = RunPlan(shape, messages, stock_messages, repetitions, prefill, _servers(pubsub), stock=stock)
    with database(database_url) as server:
        found = run_end_to_end(server.url, server.pid, plan, note)
        command = f"loader bench run --messages {messages} --stock-messages {stock_messages} --shape {shape}"
        command += f" --repetitions {repetitions} --prefill {prefill} --pubsub {pubsub}"
        command += "" if stock else " --no-stock"
        parameters = {
            "shape": shape,
            "messages": messages,
            "stock_messages": stock_messages,
            "repetitions": repetitions,
            "prefill": prefill,
            "servers": list(plan.servers),
            "window_seconds": plan.window_seconds,
            "stock": stock,
        }
        record = make_record("run", command, parameters, found, {"postgres": server.version})
    if not as_json:
        show(found)
    deliver(record, as_json, save, results)


def _servers(kind: str) -> tuple[str, ...]:
    from loader.bench.pubsub import KINDS
    from loader.errors import LoaderError
    from loader.local.emulator import find_emulator

    if kind in KINDS:
        return (kind,)
    if kind != "auto":
        raise typer.BadParameter(f"{kind!r} is none of memory, official, auto", param_hint="--pubsub")
    try:
        find_emulator()
    except LoaderError:
        return ("memory",)
    return KINDS


def show(found: dict[str, Any]) -> None:
    """The tables of a run."""
    from loader.bench.ceiling import GOAL
    from loader.bench.run import FEWEST, GOAL_MICROS, GOAL_RATE, GOAL_RATIO
    from loader.commands.output import print_table

    rows = []
    goals = []
    for kind, result in found.items():
        for key, title in _MEASURED:
            one = result.get(key)
            if one is None:
                continue
            rows.append(
                (
                    kind,
                    title,
                    f"{one['messages']:,}" if "messages" in one else "",
                    number(one["cpu_us_per_message"]),
                    number(one["messages_per_second_one_core"], 0),
                    number(one["messages_per_second_wall"], 0),
                    number(one["postgres_cpu_us_per_message"]),
                    number(one.get("peak_resident_mb"), 0),
                )
            )
        mine = result["loader"]
        ratio = result.get("times_less_cpu_than_baseline")
        micros = mine["cpu_us_per_message"]
        goals.append(
            (kind, f"CPU at most {GOAL_MICROS[kind]:g} µs", f"{micros:.1f}", judged(micros <= GOAL_MICROS[kind]))
        )
        if ratio is not None:
            goals.append((kind, f"{GOAL_RATIO:g} times less", f"{ratio:.1f}", judged(ratio >= GOAL_RATIO)))
        if kind == "memory":  # the emulator's own pace is the ceiling of everything else
            share, rate = result["share_of_ceilings"]["wall"], mine["messages_per_second_wall"]
            # The last of few bundles closes by its window, not by its size.
            few = "too few messages to judge" if mine["messages"] < FEWEST else None
            goals.append((kind, f"{GOAL:.0%} of the slower ceiling", f"{share:.0%}", few or judged(share >= GOAL)))
            goals.append((kind, f"{GOAL_RATE:,} msg/s sustained", f"{rate:,}", few or judged(rate >= GOAL_RATE)))
    print_table(
        ["PUB/SUB", "WHAT", "MESSAGES", "CPU µs/MSG", "MSG/s A CORE", "MSG/s WALL", "POSTGRES µs/MSG", "PEAK MB"],
        rows,
        title="run: a backlog through a worker process",
    )
    print_table(["PUB/SUB", "GOAL", "MEASURED", ""], goals, title="goals")
