"""The report of some records as sections, and as the page of the README between its markers."""

from __future__ import annotations

from loader.bench.report.bridging import bridge_section, gps_section
from loader.bench.report.goals import Goal, goals
from loader.bench.report.lasting import fleet_section, latency_section, soak_section
from loader.bench.report.loading import ceiling_section, load_section, run_section
from loader.bench.report.records import Record
from loader.bench.report.section import Section, markdown, wrapped

BEGIN = "<!-- figures: begin (renewed by `loader bench report --write README.md`) -->"
END = "<!-- figures: end -->"
_SECTIONS = {
    "load": load_section,
    "run": run_section,
    "latency": latency_section,
    "soak": soak_section,
    "fleet": fleet_section,
    "bridge": bridge_section,
    "gps": gps_section,
}
_READING = (
    "`make bench` runs the benchmarks and prints this report, `make bench-long` the slow ones; "
    "`loader bench all --write README.md` renews this page too. "
    "Everything runs on loopback, with the servers on the same cores; CPU is the process's own, imports left out. "
    "Figures are medians, in brackets stand the least and the most. A shared machine's speed varies by a factor of two "
    "from minute to minute: ratios within one run hold, absolute figures are of that hour."
)


def sections(records: dict[str, Record]) -> list[Section]:
    """Everything but the goals, in the order of the report."""
    found = []
    for name, make in _SECTIONS.items():
        if name in records:
            found.append(make(records[name]))
        if name == "run" and (ceiling := ceiling_section(records)) is not None:
            found.append(ceiling)
    return found


def goal_section(found: list[Goal]) -> Section:
    """All goals, the missed ones with the reason where one is known."""
    reached = sum(goal.reached for goal in found)
    rows = tuple(
        (
            f"`{goal.benchmark}`: {goal.what}",
            goal.goal,
            goal.measured,
            "reached" if goal.reached else "**missed**" + (f": {goal.why}" if goal.why else ""),
        )
        for goal in found
    )
    return Section("Goals", f"{reached} of {len(found)} reached.", ("", "goal", "measured", ""), rows)


def record_section(records: dict[str, Record]) -> Section:
    """Where, when and with what the records were made, and the commands that repeat them."""
    places: dict[str, list[str]] = {}
    for name, record in records.items():
        places.setdefault(_place(record), []).append(f"`{name}`")
    # One machine for all is the usual case, and is said once.
    where = [f"{place}: {', '.join(names)}" if len(places) > 1 else place for place, names in places.items()]
    text = f"Kept in `tests/benchmarks/results/`. {'; '.join(where)}."
    servers = sorted(
        {record["versions"]["postgres"] for record in records.values() if "postgres" in record["versions"]}
    )
    if servers:
        text += f" PostgreSQL {' and '.join(servers)}."
    rows = tuple(
        (f"`{record['command']}`", record["date"][:16].replace("T", " "), f"{record['load_average']:g}")
        for record in records.values()
    )
    return Section("Records", text, ("command", "date (UTC)", "load average at its end"), rows)


def _place(record: Record) -> str:
    versions = record["versions"]
    named = [f"{name} {versions[name]}" for name in ("dlt", "psycopg", "orjson", "grpcio") if name in versions]
    software = ", ".join([f"Python {record['python']}", *named])
    return f"{record['cpu']}, {record['cores']} cores, {record['machine']}; {software}"


def page(records: dict[str, Record]) -> str:
    """The page of the README."""
    parts = [goal_section(goals(records)), *sections(records), record_section(records)]
    return wrapped(_READING) + "\n\n" + "\n".join(markdown(part) for part in parts)


def renew(document: str, records: dict[str, Record]) -> str:
    """The document with the page between its markers renewed. Raises ValueError if it has no markers."""
    head, begin, rest = document.partition(BEGIN)
    _old, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{page(records)}{END}{tail}"
