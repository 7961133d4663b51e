from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings

import psycopg
import pytest
from pydantic import SecretStr

from loader.adopt.index import build
from loader.adopt.inventory import index_name, read_roots, takeover_times
from loader.adopt.takeover import Takeover
from loader.commands.parts import make_database
from loader.dead_letter.replay import Impatience
from loader.errors import LoaderError
from loader.learn.stored_schema import read_stored, to_schema
from loader.message.message import Message
from loader.plan.book import Book
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts, plan_rules
from loader.worker.batch import MessageBatch
from loader.worker.learning import Learning

STOCK = [{"id": 1, "name": "a", "tags": ["x", "y"]}, {"id": 2, "name": "b", "tags": ["z"]}]


class Legacy:
    """A dataset that a stock dlt pipeline writes."""

    def __init__(self, url, folder):
        self.url = url
        self.folder = folder
        self.conn = psycopg.connect(url, autocommit=True)
        self.settings = Settings(dataset="legacy", database_url=SecretStr(url), table_key="type")
        self.database = make_database(self.settings)
        self.takeover = Takeover(self.database, "legacy", plan_rules(self.settings))

    def run_stock(self, rows, schema=None, name="stock", table="users", **options):
        import dlt

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # dlt's own
            pipeline = dlt.pipeline(
                pipeline_name=name,
                pipelines_dir=str(self.folder / "pipelines"),
                destination=dlt.destinations.postgres(credentials=self.url, **options),
                dataset_name="legacy",
            )
            pipeline.run(rows, table_name=table, schema=schema)
            pipeline.drop()

    def load(self, *bodies, first=1):
        parts = Parts(self.settings, self.database, Impatience())
        intake = parts.intake()
        lane, learning_lane = parts.lane("load", intake), parts.lane("learn", intake, parts.settled)
        learning = Learning(learning_lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None)
        messages = [
            Message("", f"m{first + number}", json.dumps(body).encode(), {}, 1_800_000_000_000_000, 0)
            for number, body in enumerate(bodies)
        ]
        misfits = 0
        for loaded in lane.store(MessageBatch(intake, messages)):
            if loaded.misfits:
                misfits += len(loaded.misfits)
                learning.add(loaded.misfits)
        learning.finish()
        learning.run()
        lane.close()
        learning_lane.close()
        return misfits

    def roots(self):
        return read_roots(self.conn, "legacy", Book({}, plan_rules(self.settings)).root_columns())

    def adopt(self):
        self.takeover.prepare(self.conn)
        for table in self.roots():
            self.takeover.take(self.conn, table, lambda progress: None)

    def rows(self, query):
        return self.conn.execute(query).fetchall()


@pytest.fixture
def legacy(database_url, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))
    found = Legacy(database_url, tmp_path)
    yield found
    found.conn.close()


def command(legacy, *arguments):
    environment = {**os.environ, "LOADER_DATABASE_URL": legacy.url, "LOADER_DATASET": "legacy"}
    return subprocess.run(
        [sys.executable, "-m", "loader", "adopt", *arguments],
        input="",
        capture_output=True,
        text=True,
        env=environment,
        timeout=90,
    )


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_a_misspelt_dataset_is_refused_and_not_made(legacy, arguments):
    done = command(legacy, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no schema legacy" in done.stderr
    assert "LOADER_DATASET" in done.stderr
    assert legacy.rows("select nspname from pg_namespace where nspname = 'legacy'") == []


def test_rows_of_small_tables_are_counted(legacy):
    legacy.run_stock(STOCK)
    [users] = json.loads(command(legacy, "--dry-run", "--json").stdout)["tables"]
    assert users["rows"] == legacy.rows("select count(*) from legacy.users")[0][0] > 0


def test_rows_stay_new_events_arrive_and_stock_dlt_still_appends(legacy):
    legacy.run_stock(STOCK)
    before = legacy.rows("select * from legacy.users order by id")
    children = legacy.rows("select * from legacy.users__tags order by 1")

    done = command(legacy)

    assert done.returncode == 0, done.stderr
    assert "1 of 1" in done.stderr
    after = legacy.rows("select * from legacy.users order by id")
    assert [row[: len(before[0])] for row in after] == before
    assert [row[len(before[0]) :] for row in after] == [(None, None, None)] * 2
    assert legacy.rows("select * from legacy.users__tags order by 1") == children

    event = {"type": "users", "id": 3, "name": "c", "tags": ["w"]}
    legacy.load(event)
    legacy.load(event)
    assert legacy.rows("select id, name, _event_id from legacy.users order by id") == [
        (1, "a", None),
        (2, "b", None),
        (3, "c", "m1"),
    ]
    assert legacy.rows("select count(*) from legacy.users__tags") == [(4,)]

    legacy.run_stock([{"id": 4, "name": "d", "tags": ["v"]}], schema=to_schema(read_stored(legacy.conn, "legacy")))
    assert legacy.rows("select id, _event_id from legacy.users where id >= 3 order by id") == [(3, "m1"), (4, None)]
    legacy.load({"type": "users", "id": 5}, first=2)
    assert legacy.rows("select count(*), count(distinct _dlt_id) from legacy.users") == [(5, 5)]


def test_a_dry_run_changes_nothing_and_a_second_run_has_nothing_to_do(legacy):
    legacy.run_stock(STOCK)
    tables = legacy.rows("select count(*) from pg_class where relnamespace = 'legacy'::regnamespace")

    dry = json.loads(command(legacy, "--dry-run", "--json").stdout)

    assert [table["name"] for table in dry["tables"]] == ["users"]
    assert dry["tables"][0]["missing"] == ["_event_id", "_event_digest", "_published_at"]
    assert legacy.rows("select count(*) from pg_class where relnamespace = 'legacy'::regnamespace") == tables

    legacy.adopt()
    versions = legacy.rows("select count(*) from legacy._dlt_version")
    moments = takeover_times(legacy.conn, "legacy")
    legacy.adopt()

    assert legacy.rows("select count(*) from legacy._dlt_version") == versions
    assert takeover_times(legacy.conn, "legacy") == moments
    assert all(table.ready for table in legacy.roots())


def test_the_moment_of_the_takeover_is_kept_also_when_a_worker_did_it_in_passing(legacy):
    legacy.run_stock(STOCK)
    assert takeover_times(legacy.conn, "legacy") == {}
    (before,) = legacy.rows("select clock_timestamp()")[0]

    legacy.load({"type": "users", "id": 3}, {"type": "orders", "id": 1})

    (after,) = legacy.rows("select clock_timestamp()")[0]
    moments = takeover_times(legacy.conn, "legacy")
    assert list(moments) == ["users"]  # a table that the loader made was never taken over
    assert before <= moments["users"] <= after


def test_a_missing_index_is_built_and_leftovers_of_an_interrupted_build_go(legacy):
    legacy.run_stock(STOCK, create_indexes=False)
    assert [table.keyed for table in legacy.roots()] == [False]
    # What a build leaves that was cancelled while it waited for an older transaction.
    reader = psycopg.connect(legacy.url)
    reader.execute("select * from legacy.users")
    reader.execute("insert into legacy.users (id, _dlt_id, _dlt_load_id) values (9, 'nine', 'x')")
    with psycopg.connect(legacy.url, autocommit=True) as other:
        other.execute("set statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            other.execute(f'create unique index concurrently "{index_name("users")}" on legacy.users (_dlt_id)')
    reader.rollback()
    reader.close()
    (table,) = legacy.roots()
    assert table.leftovers == (index_name("users"),)

    legacy.adopt()

    (table,) = legacy.roots()
    assert table.ready
    assert table.leftovers == ()
    legacy.load({"type": "users", "id": 3})
    legacy.load({"type": "users", "id": 3})
    assert legacy.rows("select count(*) from legacy.users where id = 3") == [(1,)]


def test_duplicate_row_ids_are_reported_with_the_query_that_shows_them(legacy):
    legacy.run_stock(STOCK, create_indexes=False)
    legacy.conn.execute("update legacy.users set _dlt_id = 'same'")

    done = command(legacy)

    assert done.returncode == 1
    query = 'SELECT _dlt_id, count(*) FROM "legacy"."users" GROUP BY _dlt_id HAVING count(*) > 1'
    assert query in done.stderr
    assert legacy.rows(query) == [("same", 2)]
    assert [table.leftovers for table in legacy.roots()] == [()]
    assert legacy.rows("select count(*) from legacy.users") == [(2,)]

    legacy.conn.execute("update legacy.users set _dlt_id = 'other' where id = 1")
    assert command(legacy).returncode == 0
    assert [table.ready for table in legacy.roots()] == [True]


def test_writers_go_on_while_the_index_is_built_and_progress_is_told(legacy):
    legacy.run_stock(STOCK, create_indexes=False)
    holder = psycopg.connect(legacy.url)
    holder.execute("insert into legacy.users (id, _dlt_id, _dlt_load_id) values (9, 'nine', 'x')")
    seen = threading.Event()
    heard = []

    def watch(progress):
        heard.append(progress)
        seen.set()

    (table,) = legacy.roots()
    builder = threading.Thread(target=build, args=(legacy.database, "legacy", table, watch))
    builder.start()
    assert seen.wait(30)
    legacy.conn.execute("set lock_timeout = '5s'")
    legacy.conn.execute("insert into legacy.users (id, _dlt_id, _dlt_load_id) values (10, 'ten', 'x')")
    holder.commit()
    holder.close()
    builder.join(30)

    assert not builder.is_alive()
    assert heard[0].table == "users"
    assert [found.keyed for found in legacy.roots()] == [True]
    assert legacy.rows("select count(*) from legacy.users") == [(4,)]


def test_an_interrupted_build_is_cancelled_and_the_next_run_finishes(legacy):
    legacy.run_stock(STOCK, create_indexes=False)
    holder = psycopg.connect(legacy.url)
    holder.execute("insert into legacy.users (id, _dlt_id, _dlt_load_id) values (9, 'nine', 'x')")
    (table,) = legacy.roots()

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(legacy.database, "legacy", table, interrupt)

    holder.rollback()
    holder.close()
    assert [found.leftovers for found in legacy.roots()] == [(index_name("users"),)]
    legacy.adopt()
    assert [(found.ready, found.leftovers) for found in legacy.roots()] == [(True, ())]


def test_a_dataset_of_two_pipelines_is_taken_over_too(legacy):
    legacy.run_stock(STOCK)
    legacy.run_stock([{"id": 7, "total": 1.5}], name="billing", table="bills")

    legacy.adopt()
    legacy.load({"type": "users", "id": 3, "name": "c"}, {"type": "bills", "id": 8, "total": 2.5})

    assert legacy.rows("select id, name, _event_id from legacy.users order by id")[1:] == [
        (2, "b", None),
        (3, "c", "m1"),
    ]
    assert legacy.rows("select id, total, _event_id from legacy.bills order by id") == [(7, 1.5, None), (8, 2.5, "m2")]


def test_a_table_that_stays_locked_is_named_and_the_others_are_done(legacy, monkeypatch):
    monkeypatch.setattr("loader.adopt.takeover._LOCK_TRIES", 2)
    legacy.run_stock(STOCK)
    holder = psycopg.connect(legacy.url)
    holder.execute("select * from legacy.users")
    (table,) = legacy.roots()
    legacy.takeover.prepare(legacy.conn)

    with pytest.raises(LoaderError, match=r"legacy\.users was locked"):
        legacy.takeover.take(legacy.conn, table, lambda progress: None, pause=0.0)

    holder.close()
    legacy.takeover.take(legacy.conn, table, lambda progress: None)
    assert [found.ready for found in legacy.roots()] == [True]


def test_what_is_no_table_of_events_is_left_alone(legacy):
    legacy.conn.execute("create schema legacy")
    legacy.conn.execute("create table legacy.notes (id int)")
    legacy.conn.execute("create table legacy.kids (_dlt_id text, _dlt_load_id text, _dlt_parent_id text)")

    assert legacy.roots() == []
    assert command(legacy).returncode == 0
    assert legacy.rows(
        "select count(*) from pg_attribute where attrelid = 'legacy.notes'::regclass and attnum > 0"
    ) == [(1,)]


def test_a_column_of_the_loaders_name_and_another_type_is_named_and_the_others_are_done(legacy):
    legacy.run_stock(STOCK)
    legacy.run_stock(STOCK, table="others")
    legacy.conn.execute("alter table legacy.others add column _event_id bigint")

    done = command(legacy)

    assert done.returncode == 1
    assert "others: table others has a column _event_id of another type" in done.stderr
    assert "Traceback" not in done.stderr
    assert [table.name for table in legacy.roots() if table.ready] == ["users"]
