"""Sections of the loader on one worker: from bytes to rows, end to end, and beside the ceilings."""

from __future__ import annotations

from typing import Any

from loader.bench.report.records import Record
from loader.bench.report.section import Section, figure, micros, share, whole

SHAPES = {"flat": "flat, 10 keys", "nested": "nested objects", "lists": "lists", "mixed": "a mix"}
_CEILINGS = {"pull_and_ack_only": "pull and acknowledge", "copy_of_prepared_rows": "COPY rows that are ready"}
SERVERS = {"memory": "our in-memory server", "official": "the official emulator"}


def load_section(record: Record) -> Section:
    """`bench load`."""
    rows = []
    for name, one in record["results"]["shapes"].items():
        ours, stock, copy = one["loader"], one.get("stock_dlt"), one["copy_of_prepared_rows"]
        rows.append(
            (
                f"{SHAPES.get(name, name)}; {figure(ours['rows_per_message'])} rows",
                micros(ours),
                whole(ours["rows_per_second_one_core"]),
                micros(stock),
                figure(one.get("times_less_cpu_than_stock")),
                micros(copy),
                share(one["share_of_ceiling"]),
            )
        )
    learning = " and ".join(
        f"{figure(one['one_column_seconds'] * 1e3, 0)} ms in a schema of {one['columns']:,} columns"
        for one in record["results"]["learning"]
    )
    text = (
        f"Raw JSON to committed rows, in bundles of {record['parameters']['bundle']:,} messages into tables with their "
        f"unique index and {record['parameters']['prefill']:,} rows. Learning one new column takes {learning}."
    )
    columns = (
        "message",
        "CPU µs a message",
        "rows/s on one core",
        "stock dlt, µs",
        "times less",
        "COPY of ready rows alone, µs",
        "of COPY alone, by time",
    )
    return Section("Loading", text, columns, tuple(rows), record)


def run_section(record: Record) -> Section:
    """`bench run`."""
    rows = []
    for kind, one in record["results"].items():
        ours, baseline = one["loader"], one.get("baseline")
        rows.append(
            (
                SERVERS.get(kind, kind),
                micros(ours),
                whole(ours["messages_per_second_one_core"]),
                whole(ours["messages_per_second_wall"]),
                micros(baseline),
                whole(baseline["messages_per_second_wall"] if baseline else None),
                figure(one.get("times_less_cpu_than_baseline")),
                figure(ours["peak_resident_mb"], 0),
            )
        )
    values = record["parameters"]
    text = (
        f"A backlog of {values['messages']:,} messages ({values['shape']}) through one worker process: pull, parse, "
        f"COPY, commit, acknowledge, into a table of {values['prefill']:,} rows. The baseline is the convenience "
        f"client with one stock `pipeline.run` a window of {values['window_seconds']:g} s or 5,000 messages."
    )
    columns = (
        "Pub/Sub",
        "CPU µs a message",
        "messages/s on one core",
        "messages/s by time",
        "baseline, µs",
        "baseline, messages/s",
        "times less CPU",
        "peak MB",
    )
    return Section("End to end", text, columns, tuple(rows), record)


def ceilings(records: dict[str, Record]) -> dict[str, dict[str, Any]]:
    """For each server of `bench run`: the ceilings and the shares of them. A record without COPY borrows that of
    `bench load`, which was measured in other minutes."""
    from loader.bench.ceiling import shares

    found: dict[str, dict[str, Any]] = {}
    run = records.get("run")
    for kind, one in (run["results"] if run else {}).items():
        copy = one.get("copy_of_prepared_rows")
        if copy is None and "load" in records and run is not None:
            shape = records["load"]["results"]["shapes"].get(run["parameters"]["shape"])
            copy = shape["copy_of_prepared_rows"] if shape else None
        if copy is None:
            continue
        pull = one["pull_and_ack_only"]
        found[kind] = {
            "pull_and_ack_only": pull,
            "copy_of_prepared_rows": copy,
            "loader": one["loader"],
            **(one.get("share_of_ceilings") or shares(one["loader"], pull, copy)),
        }
    return found


def ceiling_section(records: dict[str, Record]) -> Section | None:
    """How far a worker is from pulling alone and from COPY alone."""
    found = ceilings(records)
    if not found:
        return None
    rows = []
    for kind, one in found.items():
        for name, title in (
            ("pull_and_ack_only", "pull and acknowledge"),
            ("copy_of_prepared_rows", "COPY ready rows"),
        ):
            ceiling = one[name]
            mark = ", the slower" if one["slower"] == name else ""
            by_time = one["loader"]["messages_per_second_wall"] / ceiling["messages_per_second_wall"]
            by_cpu = ceiling["cpu_us_per_message"] / one["loader"]["cpu_us_per_message"]
            rows.append(
                (
                    SERVERS.get(kind, kind),
                    title + mark,
                    micros(ceiling),
                    whole(ceiling["messages_per_second_wall"]),
                    share(by_time),
                    share(by_cpu),
                )
            )
    both = ", ".join(f"{share(one['cpu_of_both'])} ({SERVERS.get(kind, kind)})" for kind, one in found.items())
    text = (
        "What no worker can do without, each done alone. How far a worker is from the best there can be: its messages "
        "a second between the first commit and the last, over those of the slower ceiling (by time); the ceiling's "
        f"CPU a message over the worker's (by CPU). Both ceilings together are {both} of a worker's CPU; the rest is "
        "parsing, identity, types and rows."
    )
    columns = ("Pub/Sub", "ceiling", "CPU µs a message", "messages/s by time", "a worker reaches, by time", "by CPU")
    return Section("Ceilings", text, columns, tuple(rows), records["run"])
