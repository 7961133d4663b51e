"""Many workers at once on one dataset: no failed load, no lost row, one agreed schema, nobody waits for a reader."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from leaves import sent, stored
from loading_harness import OWN, Loading
from racing_worker import events

from loader.learn.learner import Learner
from loader.learn.stored_schema import known_columns, read_stored, to_schema

SCRIPT = Path(__file__).with_name("racing_worker.py")


def race(url: str, workers: int, bundles: int, kind: str) -> list[dict[str, Any]]:
    """Run workers that begin at one moment; what each of them says in the end."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), url, str(number), str(bundles), "events", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(workers)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=100)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * workers
        return [json.loads(answer) for answer in answers]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.mark.slow
def test_eight_workers_on_an_empty_database_lose_nothing_and_agree_on_one_schema(
    new_loading: Callable[..., Loading], database_url: str
) -> None:
    answers = race(database_url, workers=8, bundles=4, kind="drifting")
    loading = new_loading()
    assert [answer["errors"] for answer in answers] == [[]] * 8
    assert all(answer["acked"] == answer["sent"] and answer["held"] == 0 for answer in answers)
    assert loading.letters() == []
    records = {
        identity: record for number in range(8) for bundle in range(4) for identity, record in events(number, bundle)
    }
    there = {
        row["_event_id"]: table
        for table in loading.tables()
        if "__" not in table
        for row in loading.rows(table, own=True)
    }
    assert there == {identity: record["eventName"] for identity, record in records.items()}
    assert stored(loading) == sent(records.values())
    for table in loading.tables():
        if "__" in table:
            loading.children(table.rpartition("__")[0], table)  # no child is without its parent
    assert_schema_is_the_catalog(loading)


def assert_schema_is_the_catalog(loading: Loading) -> None:
    known = known_columns(to_schema(read_stored(loading.conn, loading.dataset)))
    real = {
        table: frozenset(
            name
            for (name,) in loading.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                f'"{table}"',
            )
        )
        for table in loading.tables()
    }
    assert {table: columns for table, columns in known.items() if not table.startswith("_")} == real
    assert all(OWN & columns for columns in real.values())


@pytest.mark.slow
def test_a_hundred_bundles_of_one_misfit_cause_one_learning(loading: Loading, database_url: str) -> None:
    loading.load([{"eventName": "alpha", "id": 1}])
    (before,) = loading.execute("select count(*) from _dlt_version").fetchone()  # type: ignore[misc]
    answers = race(database_url, workers=4, bundles=25, kind="one misfit")
    assert [answer["errors"] for answer in answers] == [[]] * 4
    assert loading.execute("select count(*) from _dlt_version").fetchone() == (before + 1,)
    assert loading.execute("select count(*) from _schema_log where column_name = 'fresh'").fetchone() == (1,)
    assert loading.count("alpha") == 1 + 4 * 25 * 20


def test_a_reader_that_holds_a_table_stalls_no_other_table_and_no_other_worker(
    new_loading: Callable[..., Loading],
) -> None:
    first, second = new_loading(), new_loading()
    first.load([{"eventName": "held", "id": 1}, {"eventName": "free", "id": 1}])
    second.load([{"eventName": "held", "id": 2}, {"eventName": "free", "id": 2}])
    reader = psycopg.connect(first.url)
    reader.execute("select * from events.held")
    waiting = first.messages([{"eventName": "held", "id": 3, "fresh": 1}, {"eventName": "free", "id": 3, "fresh": 1}])
    thread = threading.Thread(target=first.load_messages, args=(waiting,))
    thread.start()
    try:
        # While the reader is there: known columns of both tables, and a new column of the other table.
        known = second.load([{"eventName": "held", "id": 4}, {"eventName": "free", "id": 4}])
        second.assert_settled(known)
        new = second.load([{"eventName": "free", "id": 5, "other": 1}, {"eventName": "newcomer", "id": 5}])
        second.assert_settled(new)
        while not first.execute("select 1 from free where id = 3").fetchone():
            assert thread.is_alive()
            thread.join(0.05)
        assert thread.is_alive()
        assert waiting[0].message_id not in first.acked
    finally:
        reader.rollback()
        reader.close()
        thread.join(60)
    first.assert_settled(waiting)
    assert [row["id"] for row in first.rows("held", "id")] == [1, 2, 3, 4]
    assert first.patience.errors == second.patience.errors == []


def test_a_wide_row_waits_for_a_reader_without_failing(new_loading: Callable[..., Loading]) -> None:
    """The overflow column is an ALTER TABLE as well."""
    loading = new_loading(max_columns=1_500)
    wide = {"eventName": "wide"} | {f"k{n}": "x" for n in range(700)}
    loading.load([wide])
    reader = psycopg.connect(loading.url)
    reader.execute("select 1 from events.wide")
    messages = loading.messages([{key: value * 60 for key, value in wide.items()} | {"eventName": "wide"}])
    thread = threading.Thread(target=loading.load_messages, args=(messages,))
    thread.start()
    thread.join(1.0)
    assert thread.is_alive()
    reader.rollback()
    reader.close()
    thread.join(60)
    loading.assert_settled(messages)
    assert loading.count("wide") == 2


def test_another_lock_of_the_datasets_advisory_lock_delays_learning_only(
    new_loading: Callable[..., Loading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.learn.learner._ADVISORY_WAIT_MS", 200)
    loading = new_loading()
    loading.load([{"eventName": "alpha", "id": 1}])
    learner: Learner = loading.parts.learner
    other = psycopg.connect(loading.url)
    other.execute("select pg_advisory_xact_lock(%s)", (learner._lock_key,))
    messages = loading.messages([{"eventName": "alpha", "id": 2}, {"eventName": "alpha", "id": 3, "fresh": 1}])
    thread = threading.Thread(target=loading.load_messages, args=(messages,))
    thread.start()
    while loading.acked[messages[0].message_id] == 0:
        assert thread.is_alive()
        thread.join(0.02)
    thread.join(0.5)
    assert thread.is_alive()
    other.rollback()
    other.close()
    thread.join(30)
    loading.assert_settled(messages)
