"""kill -9 of a worker at every step: afterwards each message is exactly one row, its children with it.

A step is hit from outside: the database or Pub/Sub is held up there, the worker is seen to wait, and dies."""

from __future__ import annotations

import contextlib

import pytest

from loader.learn.learner import Learner
from loader.local.postgres import EmbeddedPostgres
from loader.plan.book import PlanRules
from loader.settings.contract import SchemaContract

GATE = 4_711
_GATE_FUNCTION = f"""create function public.gate() returns trigger language plpgsql as $$
begin perform pg_advisory_xact_lock({GATE}); return null; end $$"""


@contextlib.contextmanager
def held(database, statement):
    """A transaction of somebody else's that holds a lock until the end of the block."""
    with database.connect() as connection:
        connection.execute("set search_path to events, public")
        with connection.transaction():
            connection.execute(statement.encode())
            yield


def _advisory_lock(database):
    rules = PlanRules(max_nesting=1, max_columns=20, max_tables=9, default_table="unknown")
    key = Learner("events", rules, SchemaContract(), "test")._lock_key
    return held(database, f"select pg_advisory_xact_lock({key})")


@pytest.fixture
def prepared(worker, database, topic, orders):
    """The tables are there, 50 orders in them, and no worker runs."""
    bodies = orders(50)
    first = worker()
    topic.publish(bodies)
    database.until_count("order", 50)
    topic.until_settled()
    assert first.stop()[0] == 0
    return bodies


@pytest.fixture
def finish(worker, database, topic, assert_loaded):
    """Another worker takes over once the dead one's leases have run out."""

    def run(bodies):
        topic.expire_leases()
        successor = worker()
        database.until_count("order", len(bodies))
        topic.until_settled()
        assert_loaded(database, bodies)
        assert successor.stop()[0] == 0
        return successor

    return run


def test_a_worker_killed_after_the_pull_leaves_everything_to_the_next(worker, topic, orders, finish):
    bodies = orders(500)
    first = worker(window_seconds=30).until_started()
    topic.publish(bodies)
    topic.until_leased(500)
    first.kill()
    finish(bodies)


def test_a_worker_killed_while_it_waits_for_the_schema_lock_leaves_nothing_behind(
    prepared, worker, database, topic, orders, finish
):
    late = orders(200, start=50, late_column="new")
    with _advisory_lock(database):
        first = worker()
        topic.publish(late)
        database.until_waiting("loader learn")
        first.kill()
    finish(prepared + late)
    assert database.one("select count(*) from \"order\" where late_column = 'new'") == 200


def test_a_worker_killed_within_its_schema_change_leaves_nothing_behind(
    prepared, worker, database, topic, orders, finish
):
    late = orders(200, start=50, late_column="new")
    with held(database, 'lock table "order" in access share mode'):
        first = worker()
        topic.publish(late)
        database.until_waiting("loader learn")
        first.kill()
        assert database.one("select count(*) from _schema_log where column_name = 'late_column'") == 0
    finish(prepared + late)
    assert database.one("select count(*) from _schema_log where column_name = 'late_column'") == 1


def test_a_worker_killed_between_copy_and_commit_leaves_no_row(prepared, worker, database, topic, orders, finish):
    database.execute(
        _GATE_FUNCTION, "create trigger gate after insert on order__items for each statement execute function gate()"
    )
    more = orders(300, start=50)
    with held(database, f"select pg_advisory_xact_lock({GATE})"):
        first = worker()
        topic.publish(more)
        database.until_waiting("loader load")
        first.kill()
    database.until("select count(*) from pg_stat_activity where application_name like 'loader%'", 0)
    assert database.count("order") == 50
    finish(prepared + more)


@pytest.fixture
def hanging_commits(database, postgres):
    """Commits wait for a standby that does not exist, from `begin()` to `end()`."""
    if not isinstance(postgres, EmbeddedPostgres):
        pytest.skip("changes the settings of the whole server")

    class HangingCommits:
        def begin(self):
            database.execute("alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()")
            database.until("select setting from pg_settings where name = 'synchronous_standby_names'", "nobody")

        def end(self):
            database.execute("alter system reset synchronous_standby_names", "select pg_reload_conf()")

    hanging = HangingCommits()
    yield hanging
    hanging.end()


def test_a_worker_killed_while_its_commit_runs_is_not_loaded_twice(
    prepared, worker, database, topic, orders, finish, hanging_commits
):
    hanging_commits.begin()
    more = orders(300, start=50)
    first = worker()
    topic.publish(more)
    database.until(
        "select count(*) > 0 from pg_stat_activity where application_name like 'loader load%'"
        " and wait_event = 'SyncRep' and query ilike 'commit%' and datname = current_database()"
    )
    first.kill()
    hanging_commits.end()
    # The server finishes what it was told, though nobody listens any more.
    database.until_count("order", 350)
    successor = finish(prepared + more)
    assert "300 duplicates" in successor.output


def test_a_worker_killed_between_commit_and_ack_is_not_loaded_twice(prepared, worker, database, topic, orders, finish):
    more = orders(300, start=50)
    topic.server.faults.refuse("Acknowledge", times=1_000_000)
    first = worker()
    topic.publish(more)
    database.until_count("order", 350)
    first.kill()
    topic.server.faults.clear()
    assert topic.counts()["leased"] == 300
    successor = finish(prepared + more)
    assert "300 duplicates" in successor.output


def test_workers_killed_again_and_again_under_load_lose_and_double_nothing(worker, database, topic, orders, finish):
    bodies = orders(12_000)
    for start in range(0, 12_000, 3_000):
        topic.publish(bodies[start : start + 3_000])
        seen = database.count("order")
        doomed = worker(max_bundle_messages=200)
        database.until_count("order", seen + 600)
        doomed.kill()
        topic.expire_leases()
    finish(bodies)
