"""Sections of the bridge: routing JSON, and the GPS feed."""

from __future__ import annotations

from loader.bench.report.records import Record
from loader.bench.report.section import Section, figure, megabytes, share, whole

VARIANTS = {
    "ceiling": "consume and publish alone, without attributes",
    "pass_through": "pass-through",
    "filter_orjson": "JSON filter, lazy copy, orjson",
    "filter_stdlib": "JSON filter, lazy copy, standard library",
    "always_rewrite_orjson": "decode and encode always, orjson",
    "always_rewrite_stdlib": "decode and encode always, standard library",
    "convenience_client": "pass-through by the convenience publisher",
    "five_pipelines_shared": "five pipelines, one consumer",
    "five_pipelines_apart": "five pipelines, five consumers",
}


def bridge_section(record: Record) -> Section:
    """`bench bridge`."""
    found = record["results"]
    rates, spread = found["messages_per_second_of_cpu"], found["spread"]
    base = rates["convenience_client"]
    rows = tuple(
        (
            VARIANTS.get(name, name),
            whole(rate) + _range(spread[name]),
            figure(rate / base),
            share(rate / rates["ceiling"]),
        )
        for name, rate in rates.items()
    )
    text = (
        f"Messages of 200 bytes from Kafka to Pub/Sub. Lazy copy saves {share(found['lazy_saves_orjson'])} of the CPU "
        f"with orjson and {share(found['lazy_saves_stdlib'])} with the standard library; five pipelines that share a "
        f"consumer read {found['reads_shared']:,} messages instead of {found['reads_apart']:,}."
    )
    if found.get("stalled_sink_peak_bytes"):
        text += f" Before a stalled sink the process peaks at {megabytes(found['stalled_sink_peak_bytes'])} MB."
    columns = ("variant", "messages a second of CPU", "times the convenience publisher", "of the ceiling")
    return Section("The bridge", text, columns, rows, record)


def gps_section(record: Record) -> Section:
    """`bench gps`."""
    found = record["results"]
    rows = []
    bare = found.get("bare")
    if bare:
        rows.append(
            (
                "a bare loop that does no more",
                whole(bare["records_per_minute_of_cpu"]),
                whole(bare["rows_per_minute_of_cpu"]),
                figure(bare["cpu_us_per_record"]),
                "1.00",
                "–",
            )
        )
    for name, one in found["ways"].items():
        rows.append(
            (
                name,
                whole(one["records_per_minute_of_cpu"]),
                whole(one["rows_per_minute_of_cpu"]),
                figure(one["cpu_us_per_record"]),
                figure(one.get("times_bare"), 2),
                megabytes(one["peak_bytes_a_process"]),
            )
        )
    ages = "".join(
        f" At {one['rate']:,} records/s {name} are published after {one['p50_age_seconds']:g} s (p50) and "
        f"{one['p99_age_seconds']:g} s (p99)."
        for name, one in found.get("ages", {}).items()
    )
    text = (
        "Avro records of about 5 links of 6 points from Kafka, one JSON message a link to Pub/Sub, read record by "
        f"record and in columns (extra `bridge-fast`).{ages}"
    )
    columns = ("way", "records a minute of CPU", "links a minute of CPU", "CPU µs a record", "of bare", "peak MB")
    return Section("The GPS feed", text, columns, tuple(rows), record)


def _range(values: list[float]) -> str:
    least, most = values
    return "" if whole(least) == whole(most) else f" ({whole(least)}–{whole(most)})"
