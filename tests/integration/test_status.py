from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from status_harness import Dataset, message

from loader.database import rows as row_estimates
from loader.status.read import read_picture, read_schema_log


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def table(picture, name):
    return next(each for each in picture.tables if each.name == name)


def test_a_picture_tells_rates_ages_letters_loads_and_schema(dataset):
    dataset.load(*[message(n, {"type": "order", "n": n, "items": [{"s": 1}, {"s": 2}]}, age=2.0) for n in range(20)])
    dataset.load(*[message(100 + n, {"type": "order", "n": n, "items": []}, age=50.0) for n in range(5)])
    dataset.load(message(200, b"nonsense"))
    picture = read_picture(dataset.conn, "events")
    order, items = table(picture, "order"), table(picture, "order__items")
    assert order.rows_per_minute * 5 == pytest.approx(25)
    assert items.rows_per_minute * 5 == pytest.approx(40)
    assert items.age_p50 is None
    assert 2.0 <= order.age_p50 < 25 < 50.0 <= order.age_p99
    assert [(each.reason, each.count) for each in picture.letters] == [("not JSON", 1)]
    assert picture.open_letters == 1
    newest = dataset.rows(
        "select max(load_id) from events._dlt_loads where load_id in (select load_id from "
        "events._receipts where table_name = 'order')"
    )[0][0]
    assert order.last_load == newest
    assert next(load.dead_letters for load in picture.loads) == 1
    assert sum(load.events for load in picture.loads) == 25
    assert sum(minute.rows for minute in picture.history) == 65
    assert picture.schema_version == dataset.rows("select max(version) from events._dlt_version")[0][0]
    asked = {(each.table, each.column): each.first_event for each in picture.changes}
    assert asked[("order__items", "s")] == "m0"
    assert picture.workers == []


def test_rows_of_small_tables_are_counted_at_once_and_exactly(dataset):
    dataset.load(*[message(n, {"type": "order", "n": n, "items": [{"s": 1}, {"s": 2}]}) for n in range(30)])
    dataset.conn.execute("delete from events.order where n < 10")
    picture = read_picture(dataset.conn, "events")
    assert {each.name: each.rows for each in picture.tables} == {"order": 20, "order__items": 60}


def test_a_table_that_is_no_small_one_has_its_estimate(dataset, monkeypatch):
    dataset.load(*[message(n, {"type": "order", "n": n}) for n in range(30)])
    dataset.conn.execute("analyze events.order")
    dataset.conn.execute("delete from events.order where n < 10")
    oid = dataset.rows("select 'events.order'::regclass::oid::bigint")[0][0]
    monkeypatch.setattr(row_estimates, "SMALL_BYTES", 0)
    assert row_estimates.row_counts(dataset.conn, "events", [oid])[oid] in (20, 30)
    monkeypatch.setattr(row_estimates, "SMALL_BYTES", 10_000_000)
    monkeypatch.setattr(row_estimates, "MOST_ROWS", 5)
    assert row_estimates.row_counts(dataset.conn, "events", [oid])[oid] >= 6, "counting ends at the bound"


def test_counting_waits_for_no_lock_for_long_and_keeps_none(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    oid = dataset.rows("select 'events.order'::regclass::oid::bigint")[0][0]
    with psycopg.connect(dataset.url) as other, dataset.conn.transaction():
        other.execute("lock table events.order in access exclusive mode")
        assert row_estimates.row_counts(dataset.conn, "events", [oid])[oid] in (0, 1)
        other.rollback()
        assert row_estimates.row_counts(dataset.conn, "events", [oid]) == {oid: 1}
        other.execute("lock table events.order in access exclusive mode nowait")


def test_workers_are_seen_for_a_minute(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.conn.execute(
        "insert into events._workers values ('a/1', 's', '1', now(), now(), 7, 'stuck'),"
        " ('b/2', 's', '1', now(), now() - interval '61 seconds', 0, null)"
    )
    assert [(each.worker, each.messages_held, each.alert) for each in read_picture(dataset.conn, "events").workers] == [
        ("a/1", 7, "stuck")
    ]
    dataset.conn.execute("drop table events._workers")
    assert read_picture(dataset.conn, "events").workers is None


def test_a_picture_takes_part_in_no_writing_and_leaves_the_connection_as_it_was(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    read_picture(dataset.conn, "events")
    assert dataset.rows("show transaction_read_only") == [("off",)]
    assert dataset.rows("show statement_timeout") == [("0",)]


def test_the_schema_log_is_read_by_table_and_time(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(message(2, {"type": "order", "n": "text"}), message(3, {"type": "click", "x": 1}))
    log = read_schema_log(dataset.conn, "events", "order")
    assert (log[0].column, log[0].is_variant, log[0].first_event) == ("n__v_text", True, "m2")
    assert {each.table for each in log} == {"order"}
    later = dataset.rows("select now()")[0][0]
    assert read_schema_log(dataset.conn, "events", None, later) == []


def test_the_command_tells_it_in_json_and_in_words(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    done = dataset.loader("status", "--json", LOADER_SUBSCRIPTION="projects/p/subscriptions/s", HOME="/nonexistent")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["tables"][0]["name"] == "order"
    assert document["backlog"]["messages"] is None
    assert "needs monitoring.viewer" in document["backlog"]["note"]
    done = dataset.loader(
        "status", PUBSUB_EMULATOR_HOST="127.0.0.1:1", LOADER_SUBSCRIPTION="projects/p/subscriptions/s"
    )
    assert "an emulator has no Cloud Monitoring" in done.stdout
    assert "order" in done.stdout


def test_a_dataset_that_is_not_the_loaders_is_one_line(dataset):
    done = dataset.loader("status")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "lacks the loader's tables" in done.stderr
    with pytest.raises(psycopg.errors.UndefinedTable):
        read_picture(dataset.conn, "events")


def start(dataset, *arguments):
    environment = {**os.environ, "LOADER_DATABASE_URL": dataset.url, "PUBSUB_EMULATOR_HOST": "127.0.0.1:1"}
    return subprocess.Popen(
        [sys.executable, "-m", "loader", "status", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_the_page_of_the_fleet_is_served_until_it_is_told_to_stop(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    with start(dataset, "--serve", "--port", "0") as running:
        url = running.stderr.readline().split()[0]
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert "order" in answer.read().decode()
        running.terminate()
        assert running.wait(30) == 0


def test_watch_looks_again_and_survives_an_outage(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    with start(dataset, "--watch", "--json", "--interval", "1") as running:
        assert json.loads(running.stdout.readline())["tables"][0]["name"] == "order"
        dataset.conn.execute("alter schema events rename to away")
        assert "lacks the loader's tables" in running.stderr.readline()
        dataset.conn.execute("alter schema away rename to events")
        assert json.loads(running.stdout.readline())["tables"][0]["name"] == "order"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
