"""Tiny runs of the benchmarks: each measures something, and its record is complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)


def bench(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "loader", "bench", *arguments, "--json", "--save", "--results", str(folder)]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": str(folder)}
    )
    assert answer.returncode == 0, answer.stderr
    record: dict[str, Any] = json.loads(answer.stdout)
    (kept,) = folder.glob("*.json")
    assert json.loads(kept.read_text()) == record
    return record


def test_bench_load_compares_loading_with_stock_dlt_and_with_copy_alone(tmp_path: Path, database_url: str) -> None:
    record = bench(
        tmp_path, "load", "--database-url", database_url, "--shape", "lists", "--bundle", "300", "--repetitions", "1",
        "--prefill", "3000", "--columns", "60",
    )  # fmt: skip
    lists = record["results"]["shapes"]["lists"]
    for name in ("loader", "stock_dlt", "copy_of_prepared_rows"):
        assert lists[name]["cpu_us_per_message"] > 0
        assert lists[name]["rows_per_message"] == pytest.approx(6.0)
    assert lists["times_less_cpu_than_stock"] > 1
    assert {"decode", "fit and sort", "COPY encode and send", "commit"} <= set(lists["steps_us_per_message"])
    assert [one["columns"] > 20 for one in record["results"]["learning"]] == [True, True]
    assert all(one["one_column_seconds"] > 0 for one in record["results"]["learning"])


def test_bench_run_compares_a_worker_with_the_baseline_and_with_pulling_alone(
    tmp_path: Path, database_url: str
) -> None:
    record = bench(
        tmp_path, "run", "--database-url", database_url, "--pubsub", "memory", "--messages", "3000",
        "--stock-messages", "1000", "--repetitions", "1", "--prefill", "2000",
    )  # fmt: skip
    memory = record["results"]["memory"]
    for name in ("loader", "baseline", "pull_and_ack_only", "copy_of_prepared_rows"):
        assert memory[name]["cpu_us_per_message"] > 0
        assert memory[name]["messages_per_second_wall"] > 0
    assert memory["times_less_cpu_than_baseline"] > 0
    shares = memory["share_of_ceilings"]
    assert shares["slower"] in ("pull_and_ack_only", "copy_of_prepared_rows")
    assert 0 < shares["cpu"] < shares["cpu_of_both"] < 1


def test_bench_soak_gives_slopes_with_their_errors(tmp_path: Path, database_url: str) -> None:
    record = bench(
        tmp_path, "soak", "--database-url", database_url, "--minutes", "0.2", "--rate", "200", "--window", "0.5",
        "--quiet", "1", "--backlog", "1000",
    )  # fmt: skip
    found = record["results"]
    assert found["published"] >= 2_000
    assert {"resident_bytes", "connections"} <= set(found["series"])
    assert all({"slope_per_hour", "slope_error_per_hour", "flat"} <= set(one) for one in found["series"].values())
    assert {"grows", "bound_per_hour", "verdict"} <= {*found, *found["series"]["threads"]}
    assert 0 <= found["quiet_cpu_share"] < 1
