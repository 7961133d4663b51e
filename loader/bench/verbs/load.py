"""`loader bench load`: from raw JSON bytes to committed rows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, DatabaseUrl, Prefill, Results, Save, deliver, judged, number
from loader.commands.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("load")(load)


def load(
    shape: Annotated[
        list[str] | None, typer.Option("--shape", metavar="NAME", help="flat, nested, lists or mixed; repeatable.")
    ] = None,
    bundle: Annotated[int, typer.Option("--bundle", min=100, metavar="N", help="Messages a bundle.")] = 20_000,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, metavar="N", help="Bundles a figure.")] = 5,
    prefill: Prefill = 1_000_000,
    columns: Annotated[
        int, typer.Option("--columns", min=0, metavar="N", help="Size of the large schema to learn in; 0 skips it.")
    ] = 11_000,
    stock: Annotated[bool, typer.Option("--stock/--no-stock", help="Measure the baseline too.")] = True,
    profile: Annotated[bool, typer.Option("--profile", help="Print cProfile of one load and nothing else.")] = False,
    database_url: DatabaseUrl = None,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """Raw JSON bytes to committed rows, beside stock dlt and beside COPY of prepared rows.

    CPU is this process's own; Postgres' stands apart. Repetitions are interleaved, figures are medians.

    With --json: {"benchmark", "command", "date", "machine", "cpu", "cores", "load_average", "python", "versions",
    "parameters", "results": {"shapes": {NAME: {"loader", "stock_dlt", "copy_of_prepared_rows",
    "times_less_cpu_than_stock", "share_of_ceiling", "body_bytes", "steps_us_per_message"}}, "learning": [...]}}.

    Examples:

        loader bench load

        loader bench load --shape flat --no-stock --repetitions 9

        loader bench load --profile --shape lists
    """
    from loader.bench.load import LoadPlan, run_load, run_profile
    from loader.bench.messages import SHAPES
    from loader.bench.record import make_record
    from loader.bench.server import database
    from loader.commands.output import note

    shapes = tuple(shape or SHAPES)
    unknown = [name for name in shapes if name not in SHAPES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(SHAPES)}", param_hint="--shape")
    plan = LoadPlan(shapes, bundle, repetitions, prefill, (20, columns) if columns else (20,), stock)
    with database(database_url) as server:
        if profile:
            for text in run_profile(server.url, shapes[0], bundle, prefill):
                typer.echo(text)
            return
        found = run_load(server.url, server.pid, plan, note)
        command = f"loader bench load --bundle {bundle} --repetitions {repetitions} --prefill {prefill}"
        command += f" --columns {columns}" + "".join(f" --shape {name}" for name in shape or ())
        command += "" if stock else " --no-stock"
        parameters = {
            "shapes": list(shapes),
            "bundle": bundle,
            "repetitions": repetitions,
            "prefill": prefill,
            "columns": columns,
            "stock": stock,
        }
        record = make_record("load", command, parameters, found, {"postgres": server.version})
    if not as_json:
        show(found)
    deliver(record, as_json, save, results)


def show(found: dict[str, Any]) -> None:
    """The tables of a run."""
    from loader.bench.load import GOAL_RATIO, GOAL_ROWS_PER_SECOND
    from loader.commands.output import print_table

    rows = []
    for shape, result in found["shapes"].items():
        for key, title in (("loader", "loader"), ("stock_dlt", "stock dlt"), ("copy_of_prepared_rows", "COPY alone")):
            one = result.get(key)
            if one is None:
                continue
            rows.append(
                (
                    shape,
                    title,
                    number(one["rows_per_message"]),
                    number(one["cpu_us_per_message"]),
                    number(one["messages_per_second_one_core"], 0),
                    number(one["rows_per_second_one_core"], 0),
                    number(one["rows_per_second_wall"], 0),
                    number(one["postgres_cpu_us_per_message"]),
                )
            )
    print_table(
        ["SHAPE", "WHAT", "ROWS/MSG", "CPU µs/MSG", "MSG/s A CORE", "ROWS/s A CORE", "ROWS/s WALL", "POSTGRES µs/MSG"],
        rows,
        title="load: raw JSON bytes to committed rows",
    )
    typer.echo()
    goals = []
    for shape, result in found["shapes"].items():
        speed = result["loader"]["rows_per_second_one_core"]
        ratio = result.get("times_less_cpu_than_stock")
        goals.append(
            (
                shape,
                f"{speed:,} rows/s ({judged(speed >= GOAL_ROWS_PER_SECOND)})",
                "-" if ratio is None else f"{ratio:.1f} times ({judged(ratio >= GOAL_RATIO)})",
                f"{result['share_of_ceiling']:.0%}",
            )
        )
    print_table(
        ["SHAPE", f"GOAL {GOAL_ROWS_PER_SECOND:,} ROWS/s", f"GOAL {GOAL_RATIO:g} TIMES STOCK", "OF COPY ALONE"], goals
    )
    typer.echo()
    names = list(next(iter(found["shapes"].values()))["steps_us_per_message"])
    print_table(
        ["STEP, CPU µs/MSG", *found["shapes"]],
        [
            (name, *(number(result["steps_us_per_message"][name], 2) for result in found["shapes"].values()))
            for name in names
        ],
    )
    typer.echo()
    print_table(
        ["LEARNING: COLUMNS", "TABLES", "WHOLE SCHEMA ms", "ONE COLUMN ms"],
        [
            (
                f"{one['columns']:,}",
                one["tables"],
                number(one["whole_schema_seconds"] * 1e3),
                number(one["one_column_seconds"] * 1e3),
            )
            for one in found["learning"]
        ],
    )
