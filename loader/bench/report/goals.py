"""What was asked of each benchmark, what was measured, and why where it is missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loader.bench.report.loading import SERVERS, ceilings
from loader.bench.report.records import Record
from loader.bench.report.section import figure, share, whole


@dataclass(frozen=True, slots=True)
class Goal:
    """One demand. `why` is there when it was missed and the reason is known."""

    benchmark: str
    what: str
    goal: str
    measured: str
    reached: bool
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


WHY = {
    "official": "pulling is half of it: the emulator answers with small responses",
    "ceiling": "parsing, identity and types come on top of what the ceilings do, and share the cores with both servers",
    "peak": "imports, and what flow control lets a worker hold: `LOADER_MAX_OUTSTANDING_BYTES` lowers it",
    "gps": "compare with the bare loop, which reads, decodes and publishes and does nothing else",
}
_LONG_ENOUGH_MINUTES = 5
"""In less a worker is not warm, and any slope may be found."""
_LARGE_ENOUGH = 200_000
"""A smaller backlog is gone before a fleet is up: its rate says nothing of a worker's."""


def goals(records: dict[str, Record]) -> list[Goal]:
    """All goals that the records can answer."""
    return [
        goal
        for name, make in _GOALS.items()
        if name in records
        for goal in make(records[name], records)
        if goal.measured
    ]


def steps(shape: Mapping[str, Any]) -> str:
    """Where the CPU of a load goes, from the steps that `bench load` measured; those within another are left out."""
    found = {name: cost for name, cost in shape["steps_us_per_message"].items() if not name.startswith(" ")}
    parts = [f"{name} {figure(cost)}" for name, cost in sorted(found.items(), key=lambda each: -each[1]) if cost >= 0.1]
    return f"µs a message in `bench load`: {', '.join(parts)}"


def _goal(
    benchmark: str, what: str, limit: float, value: float, text: Callable[[float], str], why: str, most: bool = False
) -> Goal:
    reached = value <= limit if most else value >= limit
    demand = f"{'at most' if most else 'at least'} {text(limit)}"
    return Goal(benchmark, what, demand, text(value), reached, "" if reached else WHY.get(why, why))


def _load(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    from loader.bench.load import GOAL_RATIO, GOAL_ROWS_PER_SECOND

    for shape, one in record["results"]["shapes"].items():
        rows = one["loader"]["rows_per_second_one_core"]
        yield _goal("load", f"rows/s on one core, {shape}", GOAL_ROWS_PER_SECOND, rows, whole, steps(one))
        if "times_less_cpu_than_stock" in one:
            ratio = one["times_less_cpu_than_stock"]
            yield _goal("load", f"times less CPU than stock dlt, {shape}", GOAL_RATIO, ratio, figure, "")


def _run(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    from loader.bench.ceiling import GOAL
    from loader.bench.run import GOAL_MICROS, GOAL_RATE, GOAL_RATIO

    shares = ceilings(records)
    for kind, one in record["results"].items():
        where, ours = SERVERS.get(kind, kind), one["loader"]
        same = records.get("load", {"results": {"shapes": {}}})["results"]["shapes"].get(record["parameters"]["shape"])
        why = "official" if kind == "official" else steps(same) if same else ""
        micros = ours["cpu_us_per_message"]
        yield _goal("run", f"CPU µs a message, {where}", GOAL_MICROS[kind], micros, figure, why, most=True)
        if "times_less_cpu_than_baseline" in one:
            ratio = one["times_less_cpu_than_baseline"]
            yield _goal("run", f"times less CPU than the baseline, {where}", GOAL_RATIO, ratio, figure, why)
        if kind == "memory":
            yield _goal("run", "messages/s through one worker", GOAL_RATE, ours["messages_per_second_wall"], whole, "")
            if kind in shares:
                what = "of the slower ceiling, messages/s of one worker"
                yield _goal("run", what, GOAL, shares[kind]["wall"], share, "ceiling")


def _latency(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    from loader.bench.latency import GOAL_P99_SECONDS, GOAL_WINDOW_SECONDS

    for cell in record["results"]["cells"]:
        if cell["window_seconds"] == GOAL_WINDOW_SECONDS:
            what = f"p99 age in s at {cell['rate']:,} messages/s, window {GOAL_WINDOW_SECONDS:g} s"
            yield _goal("latency", what, GOAL_P99_SECONDS, cell["p99_age_seconds"], figure, "", most=True)


def _soak(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    from loader.bench.soak import GOAL_PEAK_BYTES, GOAL_QUIET

    found = record["results"]
    grows = found.get("grows", [name for name, one in found["series"].items() if not one["flat"]])
    if record["parameters"]["minutes"] >= _LONG_ENOUGH_MINUTES:
        yield Goal("soak", "what grows", "nothing", ", ".join(grows) or "nothing", not grows)
    quiet = found["quiet_cpu_share"]
    yield _goal("soak", "of a core at rest", GOAL_QUIET, quiet, lambda value: f"{value:.2%}", "", most=True)
    peak = found["backlog_peak_resident_bytes"]
    if peak is not None:
        text = lambda value: f"{value / 1e6:,.0f} MB"  # noqa: E731
        yield _goal("soak", "resident memory on a backlog", GOAL_PEAK_BYTES, peak, text, "peak", most=True)


def _fleet(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    found = record["results"]
    balanced = found["receipt"]["balanced"]
    yield Goal("fleet", "the receipt", "balances to the message", "balances" if balanced else "does not", balanced)
    if record["parameters"]["messages"] < _LARGE_ENOUGH:
        return
    reference = found.get("reference") or {}
    rate = found["drain"]["messages_per_second_a_worker"]
    if rate and "messages_per_second_a_worker" in reference:
        limit = reference["messages_per_second_a_worker"]
        yield _goal("fleet", "messages/s of a worker under fire; the reference's", limit, rate, whole, "")
    minutes = reference.get("minutes_at_our_rate_a_worker")
    if minutes is not None:
        what = "minutes for the reference's backlog by as many workers"
        yield _goal("fleet", what, reference["minutes"], minutes, figure, "", most=True)


def _bridge(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    rates = record["results"]["messages_per_second_of_cpu"]
    yield _goal("bridge", "messages a second of CPU, pass-through", 350_000, rates["pass_through"], whole, "")
    yield _goal("bridge", "messages a second of CPU, JSON filter", 250_000, rates["filter_orjson"], whole, "")
    ratio = record["results"]["pass_through_against_convenience"]
    yield _goal("bridge", "times the convenience publisher", 7.0, ratio, figure, "")


def _gps(record: Record, records: dict[str, Record]) -> Iterator[Goal]:
    from loader.bench.gps import GOAL_AGE_SECONDS, GOALS

    for name, one in record["results"]["ways"].items():
        limit = GOALS[name.partition(",")[0]]
        yield _goal("gps", f"records a minute of CPU, {name}", limit, one["records_per_minute_of_cpu"], whole, "gps")
    for name, one in record["results"].get("ages", {}).items():
        what = f"p99 age in s at {one['rate']:,} records/s, {name}"
        text = lambda value: f"{value:g}"  # noqa: E731
        yield _goal("gps", what, GOAL_AGE_SECONDS, one["p99_age_seconds"], text, "gps", most=True)


_GOALS: dict[str, Callable[[Record, dict[str, Record]], Iterator[Goal]]] = {
    "load": _load,
    "run": _run,
    "latency": _latency,
    "soak": _soak,
    "fleet": _fleet,
    "bridge": _bridge,
    "gps": _gps,
}
