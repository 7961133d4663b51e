"""One report of all benchmarks: which records it takes, what it judges, and the page of the README."""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loader.bench.ceiling import shares
from loader.bench.record import RESULTS
from loader.bench.report.goals import goals
from loader.bench.report.loading import ceilings
from loader.bench.report.page import BEGIN, END, page, record_section, renew, sections
from loader.bench.report.records import newest, read_records
from loader.bench.report.section import Section, markdown, micros, whole
from loader.bench.suite import LONG, SHORT, Part, ended_in_order, run_suite, there
from loader.cli import app
from loader.errors import LoaderError

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
RECORDS = Path(__file__).parent / "data" / "bench-records"


@pytest.fixture
def records() -> dict[str, Any]:
    """A record of every benchmark, small ones of each kind."""
    return newest(read_records(RECORDS))


def measured(cpu: float, rate: int) -> dict[str, Any]:
    return {"cpu_us_per_message": cpu, "messages_per_second_wall": rate}


# --- the README -------------------------------------------------------------------------------------------------------


def test_the_figures_of_the_readme_are_those_of_the_kept_records() -> None:
    text = README.read_text(encoding="utf-8")
    kept = newest(read_records(ROOT / RESULTS))
    assert renew(text, kept) == text, "run: loader bench report --write README.md"


def test_a_page_is_renewed_between_its_markers_and_nowhere_else(records: dict[str, Any]) -> None:
    text = f"# A\n\n{BEGIN}\nof another day\n{END}\n\n## B\n"
    renewed = renew(text, records)
    assert renewed.startswith(f"# A\n\n{BEGIN}\n")
    assert renewed.endswith(f"{END}\n\n## B\n")
    assert "of another day" not in renewed
    assert renew(renewed, records) == renewed
    with pytest.raises(ValueError, match="figures: begin"):
        renew("# A\n", records)


def test_the_page_has_a_section_of_every_benchmark_and_the_commands_that_repeat_it(records: dict[str, Any]) -> None:
    text = page(records)
    titles = [section.title for section in sections(records)]
    assert titles == [
        "Loading", "End to end", "Ceilings", "Ages", "Over time", "A fleet under fire", "The bridge", "The GPS feed",
    ]  # fmt: skip
    for title in [*titles, "Goals", "Records"]:
        assert f"### {title}\n" in text
    for record in records.values():
        assert record["command"] in text
        assert record["date"][:10] in text


@pytest.mark.parametrize("left", ["load", "run", "latency", "soak", "fleet", "bridge", "gps"])
def test_what_was_not_measured_is_left_out(records: dict[str, Any], left: str) -> None:
    alone = {left: records[left]}
    assert page(alone).count("### ") == len(sections(alone)) + 2
    del records[left]
    assert f"`{left}`:" not in page(records)


def test_records_of_two_machines_are_told_apart(records: dict[str, Any]) -> None:
    assert "Xeon" in record_section(records).text
    records["run"]["cpu"] = "Another"
    text = record_section(records).text
    assert "Another" in text
    assert text.count("`run`") == 1


# --- which records ----------------------------------------------------------------------------------------------------


def test_the_newest_record_counts_and_of_fleet_and_soak_the_newest_of_the_largest() -> None:
    def record(name: str, date: str, **parameters: Any) -> dict[str, Any]:
        return {"benchmark": name, "date": date, "parameters": parameters, "results": {}}

    chosen = newest(
        [
            record("run", "2026-11-02", messages=5),
            record("run", "2026-11-01", messages=9),
            record("fleet", "2026-11-01", messages=1_000_000),
            record("fleet", "2026-11-02", messages=1_000_000),
            record("fleet", "2026-11-03", messages=60_000),
            record("soak", "2026-11-03", minutes=1),
            record("soak", "2026-11-01", minutes=30),
            record("simulate", "2026-11-01"),
        ]
    )
    assert {name: one["date"][-2:] for name, one in chosen.items()} == {"run": "02", "soak": "01", "fleet": "02"}


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"benchmark": "load"}')
    with pytest.raises(LoaderError, match=r"x\.json is no record"):
        read_records(tmp_path)


# --- goals and ceilings -----------------------------------------------------------------------------------------------


def test_the_share_of_the_slower_ceiling_is_by_time_on_one_worker() -> None:
    found = shares(measured(20.0, 40_000), measured(4.0, 200_000), measured(3.0, 50_000))
    assert found == {"slower": "copy_of_prepared_rows", "wall": 0.8, "cpu": 0.2, "cpu_of_both": 0.35}
    found = shares(measured(20.0, 40_000), measured(4.0, 45_000), measured(3.0, 50_000))
    assert (found["slower"], found["wall"]) == ("pull_and_ack_only", 0.889)


def test_a_run_without_copy_borrows_it_from_load(records: dict[str, Any]) -> None:
    for one in records["run"]["results"].values():
        one.pop("copy_of_prepared_rows", None)
        one.pop("share_of_ceilings", None)
    borrowed = records["load"]["results"]["shapes"]["flat"]["copy_of_prepared_rows"]
    assert ceilings(records)["memory"]["copy_of_prepared_rows"] == borrowed
    del records["load"]
    assert ceilings(records) == {}
    assert "### Ceilings" not in page(records)


def test_a_goal_that_is_missed_says_why_and_one_that_is_reached_does_not(records: dict[str, Any]) -> None:
    ours = records["run"]["results"]["memory"]["loader"]
    ours["cpu_us_per_message"] = 14.9
    assert goal(records, "CPU µs a message, our in-memory server").reached
    ours["cpu_us_per_message"] = 15.1
    missed = goal(records, "CPU µs a message, our in-memory server")
    assert not missed.reached
    assert (missed.goal, missed.measured) == ("at most 15.0", "15.1")
    assert "fit and sort" in missed.why
    assert f"| **missed**: {missed.why} |" in page(records)


def test_growth_an_unbalanced_receipt_and_old_messages_are_missed_goals(records: dict[str, Any]) -> None:
    records["soak"]["parameters"]["minutes"] = 30
    assert goal(records, "what grows").reached
    records["soak"]["results"]["grows"] = ["open_files"]
    assert goal(records, "what grows").measured == "open_files"
    assert not goal(records, "what grows").reached
    assert goal(records, "the receipt").reached
    records["fleet"]["results"]["receipt"]["balanced"] = False
    assert not goal(records, "the receipt").reached
    cells = records["latency"]["results"]["cells"]
    next(cell for cell in cells if cell["window_seconds"] == 5.0)["p99_age_seconds"] = 7.1
    assert sum(not one.reached for one in goals(records) if one.benchmark == "latency") == 1


def test_a_small_fleet_and_a_short_soak_answer_only_what_they_can(records: dict[str, Any]) -> None:
    small = {one.what for one in goals({"fleet": records["fleet"], "soak": records["soak"]})}
    assert "the receipt" in small
    assert not any("reference" in what or what == "what grows" for what in small)
    large = copy.deepcopy(records["fleet"])
    large["parameters"]["messages"] = 1_000_000
    assert sum("reference" in one.what for one in goals({"fleet": large})) == 2


def goal(records: dict[str, Any], what: str) -> Any:
    (found,) = [one for one in goals(records) if one.what == what]
    return found


# --- cells ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (99.6, "100"), (54_854, "54,900"), (597_397, "597,000")],
)
def test_whole_figures_have_three_digits(value: float | None, text: str) -> None:
    assert whole(value) == text


def test_a_cost_shows_its_spread_where_there_is_one() -> None:
    assert micros({"cpu_us_per_message": 3.04, "cpu_us_min": 2.9, "cpu_us_max": 3.31}) == "3.0 (2.9–3.3)"
    assert micros({"cpu_us_per_message": 3.04, "cpu_us_min": 3.04, "cpu_us_max": 3.04}) == "3.0"
    assert micros(None) == "–"


def test_a_cell_cannot_break_its_table() -> None:
    assert "| a\\|b |" in markdown(Section("T", "", ("x",), (("a|b",),)))


# --- the suite --------------------------------------------------------------------------------------------------------


def test_a_suite_runs_each_part_in_a_process_of_its_own_and_goes_on_after_one_that_fails() -> None:
    notes: list[str] = []
    finished: list[str] = []
    parts = [Part("load", ("--shape", "round")), Part("simulate", ("--spike", "1", "--preemptions", "0"))]
    outcomes = run_suite(parts, notes.append, lambda outcome: finished.append(outcome.part.name))
    assert finished == ["load", "simulate"]
    assert [outcome.code for outcome in outcomes] == [2, 0]
    assert "load ended with exit code 2" in outcomes[0].complaint
    assert outcomes[0].record is None
    assert outcomes[1].complaint == ""
    assert outcomes[1].record is not None
    assert outcomes[1].record["benchmark"] == "simulate"
    assert notes[0] == "1 of 2: loader bench load --shape round"


class Waiting(Part):
    """A part that remarks its process id and then waits."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", "import os, sys, time; print(os.getpid(), file=sys.stderr); time.sleep(60)"]


def test_an_interrupt_ends_the_part_too() -> None:
    pids: list[int] = []

    def interrupt(text: str) -> None:
        if not pids and "s: " in text:
            pids.append(int(text.rpartition(" ")[2]))
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), ended_in_order():
        run_suite([Waiting("waiting")], interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_every_part_is_a_verb_with_options_that_it_has() -> None:
    runner = CliRunner()
    for part in (*SHORT, *LONG):
        assert there([part]) == [part]
        options = [argument for argument in part.arguments if argument.startswith("--")]
        text = runner.invoke(app, ["bench", part.name, "--help"], env={"COLUMNS": "200"}).output
        assert all(option in text for option in options), part
    assert there([Part("nothing")]) == []


def test_the_verbs_of_the_report(tmp_path: Path) -> None:
    runner = CliRunner()
    file = tmp_path / "PAGE.md"
    file.write_text(f"{BEGIN}\n{END}\n")
    arguments = ["bench", "report", "--results", str(RECORDS)]
    assert runner.invoke(app, [*arguments, "--write", str(file)]).exit_code == 0
    assert "### A fleet under fire" in file.read_text()
    found = json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)
    assert {"goals", "ceilings", "records"} <= set(found)
    assert set(found["records"]) == {"load", "run", "latency", "soak", "fleet", "bridge", "gps"}
    shown = runner.invoke(app, arguments).output
    assert "GOALS" in shown
    assert "**" not in shown
    file.write_text("no markers")
    assert isinstance(runner.invoke(app, [*arguments, "--write", str(file)]).exception, LoaderError)
    assert runner.invoke(app, ["bench", "all", "--only", "nothing"]).exit_code == 2
