"""`bench latency` on real servers: its ages are those between two recorded times, and its record is complete."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from loader.bench.latency import SETTINGS, LatencyPlan, ages, run_latency
from loader.cli import app
from loader.errors import ConfigurationError, LoaderError
from loader.local.postgres import EmbeddedPostgres

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def recording_url() -> Iterator[str]:
    """A server that records when it commits."""
    with EmbeddedPostgres(settings=SETTINGS) as server:
        yield server.url


def test_an_age_is_from_the_publish_time_to_the_commit_of_its_row(recording_url: str) -> None:
    table = sql.Identifier("aged")
    with psycopg.connect(recording_url, autocommit=True) as conn:
        conn.execute("create table aged (_published_at timestamptz)")
        now = datetime.datetime.now(datetime.UTC)
        for seconds, count in ((1_000, 1), (200, 97), (300, 2), (400, 1), (50, 5)):
            published = now - datetime.timedelta(seconds=seconds)
            conn.execute("insert into aged select %s from generate_series(1, %s)", (published, count))
        since, until = now - datetime.timedelta(seconds=500), now - datetime.timedelta(seconds=100)
        messages, p50, p99, most, commits = ages(conn, table, since, until)
        assert (messages, commits) == (100, 3)
        assert [int(age) // 100 for age in (p50, p99, most)] == [2, 3, 4]
        with pytest.raises(LoaderError, match="measure for longer"):
            ages(conn, table, until, until + datetime.timedelta(seconds=1))


def test_the_age_counts_to_the_end_of_the_transaction_and_not_to_its_start(recording_url: str) -> None:
    with psycopg.connect(recording_url, autocommit=True) as conn:
        conn.execute("create table slow (_published_at timestamptz)")
        with conn.transaction():
            conn.execute("insert into slow values (now())")
            conn.execute("select pg_sleep(0.3)")
        now, minute = datetime.datetime.now(datetime.UTC), datetime.timedelta(minutes=1)
        assert ages(conn, sql.Identifier("slow"), now - minute, now)[1] >= 0.3


def test_a_server_that_records_no_commit_times_is_refused(database_url: str) -> None:
    with pytest.raises(ConfigurationError, match="track_commit_timestamp"):
        run_latency(database_url, LatencyPlan())


def test_bench_latency_measures_each_rate_at_each_window(tmp_path: Path, recording_url: str) -> None:
    arguments = ["--rate", "50", "--rate", "200", "--window", "0.3", "--seconds", "1", "--database-url", recording_url]
    answer = CliRunner().invoke(
        app, ["bench", "latency", *arguments, "--json", "--save", "--results", str(tmp_path)], catch_exceptions=False
    )
    assert answer.exit_code == 0, answer.output
    (kept,) = tmp_path.glob("latency-*.json")
    cells = json.loads(kept.read_text())["results"]["cells"]
    assert [(cell["window_seconds"], cell["rate"]) for cell in cells] == [(0.3, 50), (0.3, 200)]
    for cell in cells:
        assert 0.5 * cell["rate"] <= cell["messages"] <= 1.5 * cell["rate"]
        assert 0 < cell["p50_age_seconds"] <= cell["p99_age_seconds"] <= cell["max_age_seconds"]
        assert cell["commits"] > 1
