"""The README's commands for one machine, run as they are written: a worker, and the GPS feed by way of a bridge."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def commands(heading: str) -> str:
    """The shell block under a heading without its first line, which installs what these tests run in already."""
    section = re.search(rf"^{re.escape(heading)}\n(.*?)^##", README.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    block = re.search(r"```sh\n(.*?)```", section[1], re.DOTALL)
    assert block is not None
    first, rest = block[1].split("\n", 1)
    assert "pip install" in first
    return rest


def run(script: str, folder: Path, query: str) -> str:
    """What the commands print; before the servers go, the row of a query as the line `FOUND …`."""
    bash = shutil.which("bash")
    assert bash is not None, "the section is written for a POSIX shell with job control: bash is missing"
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LOADER_", "PUBSUB_", "GPS_", "BRIDGE_"))
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["FOUND_BY"] = query
    found = (
        'python3 -c \'import os, psycopg; c = psycopg.connect(os.environ["LOADER_DATABASE_URL"]); '
        'print("FOUND", *c.execute(os.environ["FOUND_BY"]).fetchone())\'\n'
    )
    assert script.count("loader local down") == 1
    trap = "trap 'kill $(jobs -p) 2>/dev/null || true; loader local down >/dev/null 2>&1 || true' EXIT"
    script = script.replace("loader local down", f"{found}loader local down")
    done = subprocess.run(
        [bash, "-e", "-c", f"{trap}\n{script}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_laptop_section_works_as_written(tmp_path: Path) -> None:
    query = 'select (select count(*) from events."order"), (select count(*) from events.order__items)'
    printed = run(commands("## On your laptop"), tmp_path, query)
    assert "FOUND 1 2" in printed, printed
    assert 'CREATE TABLE "events"."order"' in printed, "loader plan shows the DDL"


def test_the_gps_section_works_as_written(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    (tmp_path / "loader" / "bridge").mkdir(parents=True)
    (tmp_path / "loader" / "bridge" / "examples").symlink_to(ROOT / "loader" / "bridge" / "examples")
    query = (
        "select count(*) > 2500, count(*) = count(distinct _event_id), count(*) = count(path -> 'points'),"
        " count(distinct device_id) > 100 from events.gps_links"
    )
    printed = run(commands("### The bridge: flattening, and the GPS feed"), tmp_path, query)
    assert "FOUND True True True True" in printed, printed
    assert re.search(r"^gps_links +[\d,]{5,}", printed, re.MULTILINE), f"loader status shows its rows: {printed}"
