"""Sections of what takes long: ages at steady rates, half an hour of one worker, and a fleet under fire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loader.bench.report.records import Record
from loader.bench.report.section import Section, figure, whole

NAMES = {
    "resident_bytes": "resident memory, MB",
    "open_files": "file descriptors",
    "threads": "threads",
    "connections": "database connections",
    "temporary_bytes": "temporary files, MB",
    "written_bytes": "written to disk, MB",
}


def latency_section(record: Record) -> Section:
    """`bench latency`."""
    cells = record["results"]["cells"]
    rates = sorted({cell["rate"] for cell in cells})
    found = {(cell["window_seconds"], cell["rate"]): cell for cell in cells}
    rows = []
    for window in sorted({cell["window_seconds"] for cell in cells}):
        ages = [found.get((window, rate)) for rate in rates]
        row = [
            f"{cell['p50_age_seconds']:.2f} / {cell['p99_age_seconds']:.2f}" if cell is not None else "–"
            for cell in ages
        ]
        rows.append((f"window {window:g} s", *row))
    text = (
        "Age from publish to commit, p50 / p99 in seconds, by the times that Pub/Sub and Postgres recorded, "
        f"{record['parameters']['seconds']:g} s each."
    )
    return Section("Ages", text, ("", *(f"{rate:,} messages/s" for rate in rates)), tuple(rows), record)


def _ages(cell: Mapping[str, Any] | None) -> str:
    return "–" if cell is None else f"{cell['p50_age_seconds']:.2f} / {cell['p99_age_seconds']:.2f}"


def soak_section(record: Record) -> Section:
    """`bench soak`."""
    found, values = record["results"], record["parameters"]
    rows = []
    for name, one in found["series"].items():
        scale, digits = (1e6, 1) if name.endswith("_bytes") else (1, 0)
        rows.append(
            (
                NAMES.get(name, name),
                *(figure(one[key] / scale, digits) for key in ("first", "last", "least", "most")),
                f"{figure(one['slope_per_hour'] / scale, 2)} ± {figure(one['slope_error_per_hour'] / scale, 2)}",
                one.get("verdict") or ("flat" if one["flat"] else "not flat"),
            )
        )
    text = (
        f"{values['minutes']:g} minutes at {values['rate']:,} messages/s of {values['bytes']:,} bytes "
        f"({found['published']:,} in all), windows of {values['window_seconds']:g} s. Slopes are by the hour, "
        f"with their standard error, once the worker is warm; *small* is a slope below what anybody would notice. At "
        f"rest afterwards the worker takes {found['quiet_cpu_share']:.2%} of a core."
    )
    peak = found["backlog_peak_resident_bytes"]
    if peak is not None:
        text += f" On a backlog of {values['backlog']:,} such messages its memory peaks at {peak / 1e6:,.0f} MB."
    columns = ("of the worker", "first", "last", "least", "most", "slope an hour", "verdict")
    return Section("Half an hour" if values["minutes"] == 30 else "Over time", text, columns, tuple(rows), record)


def fleet_section(record: Record) -> Section:
    """`bench fleet`."""
    found, values = record["results"], record["parameters"]
    drain, faults, receipt, ideal = found["drain"], found["faults"], found["receipt"], found["ideal"]
    kills = faults["killed_outright"] + faults["killed_after_grace"]
    rows = [
        ("drained in", f"{figure(drain['seconds'])} s, {whole(drain['messages_per_second'])} messages/s"),
        ("a worker", f"{whole(drain['messages_per_second_a_worker'])} messages/s"),
    ]
    if ideal:
        alone, together = ideal["one_worker_messages_per_second"], ideal["workers_together_messages_per_second"]
        rates = f"one alone {whole(alone)} messages/s, {ideal['workers']} together {whole(together)} on this machine"
        took = f"{figure(ideal['seconds'])} s ({rates}); the fleet took {figure(ideal['times_ideal'], 2)} times that"
        rows.append(("undisturbed, all workers there from the start", took))
    reference = found.get("reference") or {}
    if reference.get("minutes_at_our_rate_a_worker") is not None:
        rows.append(
            (
                "the reference's backlog by as many workers of this rate",
                f"{figure(reference['minutes_at_our_rate_a_worker'])} minutes",
            )
        )
    restarts = faults["postgres_restarts"] + faults["postgres_kills"]
    fire = f"{faults['preempted_with_warning']} workers preempted, {kills} killed, "
    fire += f"{restarts} restarts of Postgres ({faults['postgres_kills']} by kill -9), "
    fire += f"{faults['streams_cut']} times all streams cut, {faults['deliveries_doubled']:,} deliveries doubled"
    rows += [
        ("workers", f"up to {drain['workers_most']}, {figure(drain['worker_hours_fleet'], 2)} hours of fleet time"),
        ("under fire", fire),
        ("duplicates averted", f"{receipt['duplicates_averted']:,}"),
    ]
    rows += [(line["demand"], f"{line['found']}: {'met' if line['met'] else 'NOT MET'}") for line in receipt["lines"]]
    text = (
        f"A backlog of {values['messages']:,} messages over {found['tables']} tables with drifting schemas, while a "
        f"controller plays the managed instance group by Google's rule in time compressed {values['compress']:g} times "
        "and breaks things. The contents of every event are compared with what was published."
    )
    return Section("A fleet under fire", text, ("", "found"), tuple(rows), record)
