"""`loader bench gps`: Avro records to one message a road link."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from loader.bench.verbs.report import DEFAULT_RESULTS, Results, Save, deliver, judged
from loader.commands.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb to `loader bench`."""
    app.command("gps")(gps)


def gps(
    records: Annotated[int, typer.Option("--records", min=20_000, metavar="N", help="Records a figure.")] = 150_000,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, metavar="N", help="Runs a figure.")] = 3,
    way: Annotated[
        list[str] | None, typer.Option("--way", metavar="NAME", help="records or columns; repeatable.")
    ] = None,
    processes: Annotated[
        list[int] | None, typer.Option("--processes", min=1, metavar="N", help="Bridges; repeatable.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", min=0, metavar="N", help="Measure ages at so many records a second too.")
    ] = 0.0,
    save: Save = False,
    results: Results = DEFAULT_RESULTS,
    as_json: Json = False,
) -> None:
    """GPS records (about 5 links of 6 points) a minute of CPU: read one by one, and in columns; by 1 and 2 processes.

    With --rate also how old records are when Pub/Sub has them (10 s), and a burst of ten times that rate (2 s).

    CPU is that of the bridge processes; broker, registry and Pub/Sub are processes of their own. Figures are medians.
    Beside each stands how it compares with a bare loop that reads, decodes by fastavro, flattens and publishes, and
    does nothing else: that one runs in turn with the others, so that the ratio holds on any machine.

    With --json: {"benchmark", "command", "date", "machine", "cpu", "cores", "load_average", "python", "versions",
    "parameters", "results": {"bare": {"records_per_minute_of_cpu", "rows_per_minute_of_cpu", "cpu_us_per_record",
    "spread"}, "ways": {NAME: {as bare, "times_bare", "records_per_minute_wall", "peak_bytes_a_process"}},
    "ages": {NAME: {"rate", "p50_age_seconds", "p99_age_seconds", "peak_bytes_before_burst", "burst_drain_seconds",
    "peak_bytes_after_burst"}}}}.

    Examples:

        loader bench gps

        loader bench gps --way columns --processes 1 --records 100000 --repetitions 1
    """
    import importlib.metadata
    import importlib.util

    from loader.bench.gps import GOAL_AGE_SECONDS, GOALS, GpsPlan, run_age, run_gps
    from loader.bench.record import make_record
    from loader.commands.output import note, print_table

    ways = tuple(way or GOALS)
    for name in ways:
        if name not in GOALS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(GOALS)}", param_hint="--way")
    if "columns" in ways and importlib.util.find_spec("polars") is None:
        note("columns are left out: pip install 'pubsub-postgres-loader[bridge-fast]'")
        ways = tuple(name for name in ways if name != "columns")
    plan = GpsPlan(records, repetitions, ways, tuple(processes or (1, 2)))
    found = run_gps(plan, note)
    ages = {name: run_age(name, rate, 10.0, 2.0) for name in ways} if rate else {}
    parts = ["loader bench gps", f"--records {records}", f"--repetitions {repetitions}"]
    parts += [f"--way {name}" for name in plan.ways] + [f"--processes {number}" for number in plan.processes]
    parameters = {
        "records": records,
        "repetitions": repetitions,
        "ways": list(plan.ways),
        "processes": list(plan.processes),
    }
    packages = ("confluent-kafka", "fastavro", *(("polars",) if "columns" in ways else ()))
    versions = {name: importlib.metadata.version(name) for name in packages}
    if rate:
        parts.append(f"--rate {rate:g}")
        parameters["rate"] = rate
    record = make_record("gps", " ".join(parts), parameters, {**found, "ages": ages}, versions)
    if not as_json:
        print_table(
            [
                "WAY",
                "RECORDS/min OF CPU",
                "µs/RECORD",
                "OF BARE",
                "LINKS/min OF CPU",
                "RECORDS/min WALL",
                "MiB",
                "GOAL",
            ],
            [
                _line("bare loop", found["bare"], ""),
                *(
                    _line(name, one, judged(one["records_per_minute_of_cpu"] >= GOALS[name.partition(",")[0]]))
                    for name, one in found["ways"].items()
                ),
            ],
        )
        for name, one in ages.items():
            typer.echo(
                f"{name}: at {one['rate']:,}/s p50 {one['p50_age_seconds']:g} s, p99 {one['p99_age_seconds']:g} s"
                f" at most ({judged(one['p99_age_seconds'] <= GOAL_AGE_SECONDS)}); after the burst caught up in"
                f" {one['burst_drain_seconds']:g} s, peak {one['peak_bytes_before_burst'] / 2**20:,.0f} →"
                f" {one['peak_bytes_after_burst'] / 2**20:,.0f} MiB"
            )
    deliver(record, as_json, save, results)


def _line(name: str, one: dict[str, Any], goal: str) -> list[str]:
    bare = "times_bare" not in one
    return [
        name,
        f"{one['records_per_minute_of_cpu']:,.0f}",
        f"{one['cpu_us_per_record']:,.1f}",
        "1.00" if bare else f"{one['times_bare']:.2f}",
        f"{one['rows_per_minute_of_cpu']:,.0f}",
        "" if bare else f"{one['records_per_minute_wall']:,.0f}",
        "" if bare else f"{one['peak_bytes_a_process'] / 2**20:,.0f}",
        goal,
    ]
