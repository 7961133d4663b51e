from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from status_harness import Dataset, message

from loader.prune.prune import prune


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def ages(dataset, old):
    """Two of each: one as old as told, one of now."""
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=old)
    load_id = f"{moment.timestamp():.6f}"
    execute = dataset.conn.execute
    execute("insert into events._dlt_loads values (%s, 'loader', 0, %s)", (load_id, moment))
    execute(
        "insert into events._receipts select %s, 'a', 1, 1, 0, 0, 0, null, null, 'w', %s from generate_series(1, 7)",
        (load_id, moment),
    )


def count(dataset, table, where="true"):
    return dataset.rows(f"select count(*) from events.{table} where {where}")[0][0]


def test_old_bookkeeping_goes_in_batches_and_the_rest_stays(dataset):
    dataset.load(message(1, {"type": "a"}), message(2, b"old"), message(3, b"new"), message(4, b"open"))
    ages(dataset, 40)
    execute = dataset.conn.execute
    execute("update events._dead_letters set resolved_at = now() - interval '40 days' where _event_id = 'm2'")
    execute("update events._dead_letters set resolved_at = now() where _event_id = 'm3'")
    execute("update events._dead_letters set created_at = now() - interval '90 days' where _event_id = 'm4'")
    execute(
        "insert into events._dlt_version (version, engine_version, inserted_at, schema_name, version_hash, schema)"
        " select n, 11, now(), 'loader', n::text, '{}' from generate_series(1000, 1029) n"
    )
    execute("insert into events._workers values ('gone', 's', '1', now(), now() - interval '2 days', 0, null)")
    execute("insert into events._workers values ('here', 's', '1', now(), now(), 0, null)")
    newest = dataset.rows("select load_id from events._receipts where table_name = 'a' and row_count = 1")
    cutoff = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)

    would = {found.table: found.rows for found in prune(dataset.conn, "events", cutoff, dry_run=True)}
    before = count(dataset, "_dlt_version")
    assert would == {"_dlt_loads": 1, "_receipts": 7, "_dead_letters": 1, "_dlt_version": before - 20, "_workers": 1}
    batches = [found.rows for found in prune(dataset.conn, "events", cutoff, batch=3) if found.table == "_receipts"]
    assert batches == [3, 3, 1]
    assert dataset.rows("select min(version), max(version) from events._dlt_version") == [(1010, 1029)]
    assert dataset.rows("select _event_id from events._dead_letters order by 1") == [("m3",), ("m4",)]
    assert dataset.rows("select worker from events._workers") == [("here",)]
    assert count(dataset, "_schema_log") > 0
    assert count(dataset, "a") == 1
    assert len(newest) > 0
    assert count(dataset, "_receipts", "row_count = 1") == 1
    assert [found for found in prune(dataset.conn, "events", cutoff) if found.rows] == []


def test_rows_that_another_holds_are_skipped_and_not_waited_for(dataset):
    dataset.load(message(1, {"type": "a"}))
    ages(dataset, 40)
    cutoff = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)
    with psycopg.connect(dataset.url) as other:
        other.execute("select * from events._receipts order by load_id limit 2 for update")
        pruned = [found.rows for found in prune(dataset.conn, "events", cutoff) if found.table == "_receipts"]
    assert pruned == [5]


def test_a_pruned_dataset_loads_on_and_reconciles(dataset):
    dataset.load(message(1, {"type": "a", "x": 1}))
    for number in range(2, 26):
        dataset.load(message(number, {"type": "a", f"y{number}": 1}))
    done = dataset.loader("prune", "--older-than", "0s", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    deleted = json.loads(done.stdout)["deleted"]
    assert deleted["_dlt_version"] == 5
    assert count(dataset, "_receipts") == 0
    dataset.load(message(100, {"type": "a", "z": 1}))
    assert dataset.loader("reconcile").returncode == 0
    assert count(dataset, "a") == 26


def test_without_a_terminal_it_wants_to_be_told(dataset):
    dataset.load(message(1, {"type": "a"}))
    done = dataset.loader("prune", "--older-than", "0s")
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert count(dataset, "_receipts") == 1


def test_schema_show_and_log_tell_who_asked_for_a_column(dataset):
    dataset.load(message(1, {"type": "a", "x": 1}))
    dataset.conn.execute("alter table events.a add column own text default 'mine'")
    dataset.load(message(2, {"type": "a", "x": "one"}))
    shown = json.loads(dataset.loader("schema", "show", "a", "--json").stdout)["columns"]
    columns = {column["name"]: column for column in shown}
    assert (columns["x"]["type"], columns["x"]["first_event"], columns["x"]["nullable"]) == ("bigint", "m1", True)
    assert (columns["x__v_text"]["is_variant"], columns["x__v_text"]["first_event"]) == (True, "m2")
    assert columns["own"]["added_at"] is None
    logged = json.loads(dataset.loader("schema", "log", "--table", "a", "--json").stdout)["columns"]
    assert logged[0]["column"] == "x__v_text"
    done = dataset.loader("schema", "show", "nothing")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_a_misspelt_dataset_is_no_pruned_one(dataset):
    done = dataset.loader("prune", "--older-than", "30d", "--yes", LOADER_DATASET="evnts")
    assert done.returncode == 1
    assert "dataset evnts has none of the loader's tables" in done.stderr
    assert "check LOADER_DATASET; `loader run` makes them" in done.stderr
