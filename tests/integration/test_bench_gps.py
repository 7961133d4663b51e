"""A tiny run of `loader bench gps`: it measures something, and its record is complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from loader.bench.gps import links_of, values
from loader.bridge.formats.avro import Avro, Reading
from loader.bridge.generate.feed import schema

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


def test_bench_gps_measures_a_bare_loop_and_the_bridge_beside_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loader", "bench", "gps", "--records", "20000", "--repetitions", "1"]
    command += ["--way", "records", "--processes", "1", "--json", "--save", "--results", str(tmp_path)]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)["results"]
    [one] = found["ways"].values()
    for each in (found["bare"], one):
        assert each["cpu_us_per_record"] > 0
        # Links a record, of both: they counted the same feed.
        assert each["rows_per_minute_of_cpu"] / each["records_per_minute_of_cpu"] == pytest.approx(5.0, rel=0.05)
    assert one["times_bare"] > 0


def test_the_links_of_the_feed_are_counted_as_they_come() -> None:
    form = Avro(None)  # type: ignore[arg-type]
    form.schemas.known[1] = Reading(schema())
    assert links_of(7) == sum(len(form.decode(value)["path"]) for value in values(7))
