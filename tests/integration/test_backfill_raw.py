"""Refills from a raw column: Postgres alone, in batches, what is null is filled and nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psycopg
import pytest
from pydantic import SecretStr

from loader.backfill import raw
from loader.backfill.raw import Refill
from loader.commands.parts import make_database
from loader.dead_letter.replay import Impatience
from loader.errors import LoaderError
from loader.message.message import Message
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts
from loader.worker.batch import MessageBatch
from loader.worker.learning import Learning

PUBLISHED = 1_800_000_000_000_000


class Dataset:
    """Loads messages as a worker does, and refills."""

    def __init__(self, url):
        self.url = url
        self.conn = psycopg.connect(url, autocommit=True)

    def settings(self, **values):
        return Settings(dataset="events", database_url=SecretStr(self.url), table_key="type", **values)

    def load(self, *bodies, attributes=None, **values):
        settings = self.settings(**values)
        parts = Parts(settings, make_database(settings), Impatience())
        intake = parts.intake()
        lane, learning_lane = parts.lane("load", intake), parts.lane("learn", intake, parts.settled)
        learning = Learning(learning_lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None)
        messages = [
            Message(f"a{number}", f"m{number}", json.dumps(body).encode(), attributes or {}, PUBLISHED + number, 1)
            for number, body in enumerate(bodies)
        ]
        for loaded in lane.store(MessageBatch(intake, messages)):
            if loaded.misfits:
                learning.add(loaded.misfits)
        learning.finish()
        learning.run()
        lane.close()
        learning_lane.close()

    def refill(self, table="order", column="_raw", **values):
        settings = self.settings(**values)
        refill = Refill(settings, self.conn, table, column)
        refill.plan()
        return list(refill.run())

    def rows(self, query):
        return self.conn.execute(query).fetchall()


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def frozen_orders(count=5):
    """Orders whose later keys a contract left out."""
    return [{"type": "order", "n": n, "late": n * 10, "tags": [f"t{n}", "x"], "big": 2**70 + n} for n in range(count)]


def load_frozen(dataset, count=5):
    dataset.load({"type": "order", "n": -1}, keep_raw=True)
    dataset.conn.execute('delete from events."order"')
    contract = "tables=discard_value,columns=discard_value,data_type=discard_value"
    dataset.load(*frozen_orders(count), keep_raw=True, schema_contract=contract)
    assert "late" not in columns(dataset)


def columns(dataset, table="order"):
    query = f"select column_name from information_schema.columns where table_name = '{table}'"
    return {row[0] for row in dataset.rows(query)}


def test_new_columns_and_child_rows_are_filled_from_the_raw_body_in_batches(dataset, monkeypatch):
    monkeypatch.setattr(raw, "BATCH", 2)
    load_frozen(dataset)

    last = dataset.refill()[-1]

    assert (last.rows_read, last.refused) == (5, 0)
    assert dataset.rows('select n, late, big__v_text from events."order" order by n') == [
        (n, n * 10, str(2**70 + n)) for n in range(5)
    ]
    tags = 'select o.n, t._dlt_list_idx, t.value from events.order__tags t join events."order" o'
    found = dataset.rows(f"{tags} on o._dlt_id = t._dlt_parent_id order by 1, 2")
    assert found == [(n, index, value) for n in range(5) for index, value in enumerate([f"t{n}", "x"])]
    # Once more: nothing is left to fill, nothing doubled.
    assert dataset.refill()[-1].rows_filled == 0


def test_a_value_that_is_there_and_a_row_that_was_deleted_stay_so(dataset):
    load_frozen(dataset)
    dataset.conn.execute('alter table events."order" add column late bigint')
    dataset.conn.execute('update events."order" set late = 7 where n = 1')
    dataset.conn.execute('delete from events."order" where n = 2')

    dataset.refill()

    assert dataset.rows('select n, late from events."order" order by n') == [(0, 0), (1, 7), (3, 30), (4, 40)]


def test_a_refill_that_is_interrupted_goes_on_where_it_was(dataset, monkeypatch):
    monkeypatch.setattr(raw, "BATCH", 2)
    load_frozen(dataset)
    settings = dataset.settings()
    first = Refill(settings, dataset.conn, "order", "_raw")
    next(first.run())
    assert dataset.rows("select rows_read, ended_at from events._backfills") == [(2, None)]

    again = Refill(settings, dataset.conn, "order", "_raw")
    assert again.plan().resumed == first.backfill_id
    last = list(again.run())[-1]

    assert (last.backfill_id, last.rows_read) == (first.backfill_id, 5)
    assert dataset.rows('select count(*) from events."order" where late is null') == [(0,)]
    assert dataset.rows("select outcome from events._backfills") == [("done",)]


def test_another_column_fills_columns_that_are_there_and_makes_none(dataset):
    links = [{"type": "gps", "link": n, "path": {"speed": n, "lane": {"count": n}, "new": 1}} for n in range(3)]
    dataset.load(*links, max_nesting=0)
    # A newer message brings the columns.
    newer = {"type": "gps", "link": 9, "speed": 90, "lane": {"count": 5}, "path": {"speed": 90}}
    dataset.load({"type": "other"}, {"type": "other"}, {"type": "other"}, newer)

    dataset.refill("gps", "path")

    found = dataset.rows("select link, speed, lane__count from events.gps order by link")
    assert found == [(0, 0, 0), (1, 1, 1), (2, 2, 2), (9, 90, 5)]
    assert "new" not in columns(dataset, "gps")


def test_the_data_of_a_binary_cloudevent_goes_back_to_its_place(dataset):
    attributes = {"ce-specversion": "1.0", "ce-source": "s", "ce-type": "order", "ce-id": "1"}
    dataset.load({"a": 1}, attributes=attributes, keep_raw=True)
    dataset.conn.execute('alter table events."order" drop column data__a')

    dataset.refill()

    assert dataset.rows('select data__a from events."order"') == [(1,)]
    assert "a" not in columns(dataset)


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        ("nothing", "_raw", "has no table nothing"),
        ("order__tags", "_raw", "no root table"),
        ("order", "_raw", "LOADER_KEEP_RAW"),
        ("order", "n", "JSON objects"),
    ],
)
def test_what_cannot_be_refilled_is_refused_with_the_reason(dataset, table, column, said):
    dataset.load({"type": "order", "n": 1, "tags": ["a"]})

    with pytest.raises(LoaderError, match=said):
        Refill(dataset.settings(), dataset.conn, table, column).plan()


def test_the_command_says_what_it_will_do_asks_and_gives_a_receipt(dataset):
    load_frozen(dataset)
    environment = {**os.environ, "LOADER_DATABASE_URL": dataset.url, "LOADER_TABLE_KEY": "type"}

    def run(*arguments):
        command = [sys.executable, "-m", "loader", "backfill", "--from-raw", "order", *arguments]
        return subprocess.run(command, input="", capture_output=True, text=True, env=environment, timeout=90)

    unasked = run()
    assert unasked.returncode == 1
    assert "give --yes" in unasked.stderr
    dry = json.loads(run("--dry-run", "--json").stdout)
    assert (dry["plan"]["table"], dry["receipt"]) == ("order", None)
    assert "late" not in columns(dataset)
    done = run("--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["receipt"]["rows_filled"] > 0
    assert dataset.rows('select count(*) from events."order" where late is null') == [(0,)]
