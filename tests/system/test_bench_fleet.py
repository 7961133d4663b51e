"""`loader bench fleet` in small: real workers are killed, Postgres restarts, streams are cut, and the receipt balances.

And it does not when somebody changed a single value; and nothing of it outlives its interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from loader.bench.fleet import fleet, stored
from loader.bench.fleet.broker import open_broker
from loader.bench.fleet.plan import FleetPlan
from loader.bench.server import database
from loader.errors import LoaderError
from loader.local.emulator import EmulatorProcess, find_emulator
from loader.local.postgres import Postgres

pytestmark = pytest.mark.timeout(170)
QUIET = ["--preemptions", "0", "--kills", "0", "--restarts", "0", "--cuts", "0", "--redeliveries", "0"]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOADER_", "PUBSUB_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "loader", "bench", "fleet", "--calibrate", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept | {"TMPDIR": str(folder)},
    )


@pytest.mark.slow
def test_a_fleet_under_fire_loads_every_message_once(tmp_path: Path) -> None:
    process = start(
        tmp_path, "--messages", "5000", "--twice", "0.05", "--poison", "0.01", "--bundle", "150", "--window", "0.5",
        "--min", "2", "--max", "3", "--compress", "120", "--kills", "2", "--restarts", "2", "--cuts", "2",
        "--preemptions", "0", "--json", "--save", "--results", str(tmp_path / "results"),
    )  # fmt: skip
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    record = json.loads(said)
    found = record["results"]
    receipt, faults = found["receipt"], found["faults"]
    assert receipt["balanced"]
    assert (receipt["rows"], receipt["letters"]["open"], receipt["twice"]) == (4_700, 50, 250)
    assert receipt["duplicates_averted"] >= receipt["twice_loadable"] > 200
    assert faults["not_happened"] == 0
    assert (faults["killed_outright"], faults["postgres_restarts"], faults["postgres_kills"]) == (2, 1, 1)
    assert (faults["streams_cut"], faults["deliveries_doubled"], faults["ended_unasked"]) == (2, 250, 0)
    assert found["drain"]["workers_most"] >= 2
    assert found["over_time"]["backlog"][0] == 5_000
    (kept,) = (tmp_path / "results").glob("fleet-*.json")
    assert json.loads(kept.read_text()) == record


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything_that_was_started(tmp_path: Path, number: int) -> None:
    process = start(tmp_path, "--messages", "30000", "--min", "2", "--compress", "1", *QUIET)
    assert process.stderr is not None
    for line in process.stderr:
        if "workers against the backlog" in line:
            break
    assert "2 to 4 workers" in line
    started: Sequence[psutil.Process] = []
    while sum("run" in one.cmdline() for one in started if one.is_running()) < 2:
        started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    process.communicate()
    assert process.returncode != 0
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


TAMPERING = (
    "update orders set status = status + 1 where number = (select min(number) from orders)",
    "update orders set _event_id = 'fleet/1/9999999' where number = (select max(number) from orders)",
    "delete from payments__items where _dlt_id = (select min(_dlt_id) from payments__items)",
    "update _dead_letters set resolved_at = now() where letter_id = (select min(letter_id) from _dead_letters)",
)


def test_a_receipt_finds_what_somebody_changed_in_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = FleetPlan(
        messages=1_000, poison=0.01, seed=1, workers_max=1, compress=120, preemptions_per_hour=0, kills=0, restarts=0,
        cuts=0, redeliveries=0, window_seconds=0.5, calibrate=0,
    )  # fmt: skip
    read = stored.read_rows

    def tampered(conn: psycopg.Connection[Any], *arguments: Any) -> None:
        conn.execute("set search_path to bench_fleet")
        for statement in TAMPERING:
            assert conn.execute(statement.encode()).rowcount == 1
        read(conn, *arguments)

    monkeypatch.setattr(stored, "read_rows", tampered)
    with database(None) as server, open_broker(None, print) as broker:
        receipt = fleet.run_fleet(server, broker, plan)["receipt"]
    assert not receipt["balanced"]
    assert {name: receipt["content"][name] for name in ("missing", "doubled", "different", "unexpected")} == {
        "missing": 1,
        "doubled": 0,
        "different": 2,
        "unexpected": 1,
    }
    assert receipt["letters"]["missing"] == 1
    assert len(receipt["gaps"]) == 1
    assert "fleet/1/9999999: no event of this run" in receipt["content"]["examples"]
    assert "1 missing" in receipt["complaint"]


@pytest.mark.emulator
def test_a_fleet_on_the_official_emulator_and_a_given_postgres_is_judged_by_the_database(
    tmp_path: Path, postgres: Postgres
) -> None:
    try:
        found = find_emulator()
    except LoaderError as missing:
        pytest.skip(str(missing))
    with EmulatorProcess(found) as emulator:
        process = start(
            tmp_path, "--messages", "1000", "--max", "1", "--window", "0.5", "--emulator", emulator.endpoint,
            "--database-url", postgres.url, "--preemptions", "0", "--kills", "0", "--json",
        )  # fmt: skip
        said, errors = process.communicate()
    assert process.returncode == 0, errors
    results = json.loads(said)["results"]
    assert results["receipt"]["balanced"]
    assert (results["faults"]["streams_cut"], results["faults"]["postgres_restarts"]) == (0, 0)
    assert "no restarts" in errors
    assert "no faults to offer" in errors
