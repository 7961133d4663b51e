"""The benchmarks' measuring parts: what they say must be what happened."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loader.bench import cpu
from loader.bench.children import progress_of
from loader.bench.measure import Cost, measure, summary
from loader.bench.messages import SHAPES, TABLE_KEY, bodies, messages, padded
from loader.bench.record import make_record, save
from loader.bench.run import Drained
from loader.bench.run import summary as run_summary
from loader.bench.slope import slope
from loader.cli import app
from loader.errors import LoaderError


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


def test_own_cpu_counts_work_and_not_waiting() -> None:
    before = cpu.own_seconds()
    time.sleep(0.2)
    waited = cpu.own_seconds() - before
    burn(0.2)
    assert waited < 0.1 < 0.19 < cpu.own_seconds() - before


def test_the_cpu_of_a_process_counts_its_children_also_those_that_ended() -> None:
    child = "import time\nu = time.process_time() + 0.3\nwhile time.process_time() < u: sum(range(1000))\n"
    parent = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])\nprint('done', flush=True)\ninput()"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spent = cpu.process_seconds(process.pid)
        process.communicate(b"\n")
    assert spent >= 0.29


def test_a_process_that_is_not_there_has_no_cpu() -> None:
    with pytest.raises(LoaderError, match="2147483000"):
        cpu.process_seconds(2_147_483_000)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:01.50", 1.5), ("12:34", 754.0), ("1:00:00", 3600.0), ("2-01:00:05", 176_405.0)]
)
def test_cpu_times_of_ps(text: str, seconds: float) -> None:
    assert cpu.clock_seconds(text) == seconds


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_threads_and_files_of_a_process() -> None:
    pid = os.getpid()
    assert 10_000_000 < cpu.resident_bytes(pid) <= (cpu.peak_bytes(pid) or 0)
    before = cpu.open_files(pid) or 0
    with open(os.devnull):
        assert cpu.open_files(pid) == before + 1
    assert (cpu.thread_count(pid) or 0) >= 1


def test_measuring_gives_cpu_wall_and_rows() -> None:
    cost = measure(lambda: burn(0.1) or 30, 10)
    assert (cost.messages, cost.rows, cost.server) == (10, 30, None)
    assert 0.09 < cost.cpu <= cost.wall + 0.05
    assert cost.cpu_micros == pytest.approx(cost.cpu * 1e5)


def test_a_summary_is_made_of_medians() -> None:
    costs = [Cost(100, 200, seconds, 2 * seconds, 0.001) for seconds in (0.001, 0.002, 0.1)]
    found = summary(costs)
    assert found["cpu_us_per_message"] == 20.0
    assert (found["cpu_us_min"], found["cpu_us_max"]) == (10.0, 1000.0)
    assert found["messages_per_second_one_core"] == 50_000
    assert found["rows_per_second_one_core"] == 100_000
    assert found["messages_per_second_wall"] == 25_000
    assert found["postgres_cpu_us_per_message"] == 10.0


@pytest.mark.parametrize("shape", SHAPES)
def test_messages_are_the_same_each_time_and_new_from_another_number_on(shape: str) -> None:
    assert list(bodies(shape, 50, 7)) == list(bodies(shape, 50, 7))
    assert all(TABLE_KEY in json.loads(body) for body in bodies(shape, 50))
    made = messages(shape, 20, 0) + messages(shape, 20, 20)
    assert len({message.message_id for message in made}) == 40


def test_flat_messages_are_what_the_goal_speaks_of() -> None:
    record = SHAPES["flat"](1, random.Random(1))
    assert len(record) == 10
    assert 170 < len(json.dumps(record, separators=(",", ":"))) < 230


def test_padded_messages_have_the_size_asked_for() -> None:
    assert [len(body) for body in padded(1_000, 3)] == [1_000] * 3


@pytest.mark.parametrize(
    ("line", "ready", "loaded", "rows"),
    [
        ('{"ready": true}', True, 0, 0),
        ('{"message": "loader 0.1.0 loads projects/p/subscriptions/s into host, dataset d"}', True, 0, 0),
        ('{"loaded": 5}', False, 5, 5),
        (
            '{"message": "loaded 7 events as 9 rows", "load_id": "1", "events": 7, "rows": 9, "duplicates": 2}',
            False,
            9,
            9,
        ),
    ],
)
def test_what_a_process_under_measurement_says(line: str, ready: bool, loaded: int, rows: int) -> None:
    progress = progress_of(line, 1.5)
    assert progress is not None
    assert (progress.at, progress.ready, progress.messages, progress.rows) == (1.5, ready, loaded, rows)


@pytest.mark.parametrize("line", ["", "Loading 5", "[]", '{"message": "idle"}', '{"message": "loaded by hand"}'])
def test_what_else_a_process_says_is_passed_over(line: str) -> None:
    assert progress_of(line, 0.0) is None


def test_a_run_counts_its_rate_between_the_first_and_the_last_commit() -> None:
    drained = Drained(messages=1_000, cpu=0.02, wall=2.0, steady=800, whole=4.0, server=0.01, peak=50_000_000)
    found = run_summary([drained])
    assert (found["cpu_us_per_message"], found["messages_per_second_wall"]) == (20.0, 400)
    assert (found["postgres_cpu_us_per_message"], found["peak_resident_mb"]) == (10.0, 50.0)
    assert Drained(1_000, 0.02, 0.0, 0, 4.0, None, None).rate == 250


def test_a_slope_and_its_error() -> None:
    rising = slope(range(10), [3.0 * n + 1 for n in range(10)])
    assert rising.value == pytest.approx(3.0)
    assert rising.error == pytest.approx(0.0, abs=1e-9)
    assert not rising.flat
    noise = random.Random(4)
    assert slope(range(200), [noise.gauss(0, 1) for _ in range(200)]).flat
    assert slope([1, 2, 3], [5.0, 5.0, 5.0]).flat
    with pytest.raises(ValueError, match="three points"):
        slope([1, 2], [1, 2])


def test_a_record_is_complete_and_kept(tmp_path: Path) -> None:
    record = make_record("load", "loader bench load", {"bundle": 1}, {"x": 2}, {"postgres": "18.4"})
    assert set(record) == {
        "benchmark", "command", "date", "machine", "cpu", "cores", "load_average", "python", "versions", "parameters",
        "results",
    }  # fmt: skip
    assert {"loader", "dlt", "psycopg", "grpcio", "postgres"} <= set(record["versions"])
    assert all(record[key] for key in record)
    assert json.loads(save(record, tmp_path / "kept").read_text()) == record


def test_the_verbs_have_help_and_refuse_unknown_shapes() -> None:
    runner = CliRunner()
    for verb in ("load", "run", "soak"):
        answer = runner.invoke(app, ["bench", verb, "--help"])
        assert answer.exit_code == 0
        assert "Examples" in answer.output
    assert runner.invoke(app, ["bench", "load", "--shape", "round"]).exit_code == 2
    assert runner.invoke(app, ["bench", "run", "--pubsub", "cloud"]).exit_code == 2
