"""Somebody changes the database under load: no dead letters, and all rows are there once it is mended."""

from __future__ import annotations

import contextlib

import psycopg
import pytest
from psycopg import sql


@pytest.fixture
def login(postgres, database):
    """A URL for a role of its own that owns the database's contents."""
    name = f"role_{database.name}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password 'p'").format(sql.Identifier(name)))
        connection.execute(
            sql.SQL("grant create on database {} to {}").format(sql.Identifier(database.name), sql.Identifier(name))
        )
    yield name, database.url.replace(database.url.partition("//")[2].partition("@")[0], f"{name}:p")
    database.execute(f"drop owned by {name} cascade")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def loaded(worker, database, topic, orders, login):
    """A worker that has loaded 100 orders and goes on running; the orders."""
    bodies = orders(100)
    one = worker(database_url=login[1])
    topic.publish(bodies)
    topic.until_count_settled(database, "order", 100)
    yield one, bodies
    assert one.alive, one.output


def test_a_dropped_table_is_made_again(loaded, database, topic, orders, assert_loaded):
    database.execute('drop table "order", order__items')
    more = orders(300, start=100)
    topic.publish(more)
    topic.until_count_settled(database, "order", 300)
    assert_loaded(database, more)


def test_a_dropped_child_table_is_made_again(loaded, database, topic, orders):
    database.execute("drop table order__items")
    topic.publish(orders(300, start=100))
    topic.until_count_settled(database, "order__items", 600)
    assert database.count("order") == 400
    assert database.letters() == 0


def test_a_dropped_column_is_made_again(loaded, database, topic, orders, assert_loaded):
    database.execute('delete from "order"', "delete from order__items", 'alter table "order" drop column text')
    more = orders(300, start=100)
    topic.publish(more)
    topic.until_count_settled(database, "order", 300)
    assert_loaded(database, more)


def test_a_dropped_dataset_is_made_again(loaded, database, topic, orders, assert_loaded):
    database.execute("drop schema events cascade")
    more = orders(300, start=100)
    topic.publish(more)
    topic.until_count_settled(database, "order", 300)
    assert_loaded(database, more)


def test_dropped_internal_tables_are_made_again(loaded, database, topic, orders, assert_loaded):
    _one, bodies = loaded
    database.execute("drop table _receipts, _dead_letters, _schema_log")
    more = orders(300, start=100)
    topic.publish(more)
    topic.until_count_settled(database, "order", 400)
    assert_loaded(database, bodies + more)


def _forbid_insert(database, role):
    database.execute(f'revoke insert on "order" from {role}')
    return lambda: database.execute(f'grant insert on "order" to {role}')


def _forbid_schema(database, role):
    database.execute(f"revoke usage on schema events from {role}")
    return lambda: database.execute(f"grant usage on schema events to {role}")


def _read_only(database, role):
    database.execute(f"alter role {role} set default_transaction_read_only = on")
    _cut(database)

    def mend():
        database.execute(f"alter role {role} reset default_transaction_read_only")
        _cut(database)

    return mend


def _refuse(state):
    def spoil(database, role):
        database.execute(
            "create or replace function public.refuse() returns trigger language plpgsql as"
            f" $$ begin raise exception 'no' using errcode = '{state}'; end $$",
            'create trigger refuse before insert on "order" for each row execute function public.refuse()',
        )
        return lambda: database.execute('drop trigger refuse on "order"')

    return spoil


def _cut(database):
    database.rows(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'loader%' and datname = current_database()"
    )


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_forbid_insert, id="revoke-insert"),
        pytest.param(_forbid_schema, id="revoke-usage"),
        pytest.param(_read_only, id="read-only"),
        pytest.param(_refuse("53100"), id="disk-full"),
        pytest.param(_refuse("57P03"), id="cannot-connect-now"),
        pytest.param(_refuse("P0001"), id="a-trigger-refuses-all"),
        pytest.param(_refuse("23514"), id="a-check-refuses-all"),
        pytest.param(_refuse("ZZ999"), id="unknown-state"),
    ],
)
def test_nothing_is_lost_while_the_database_refuses(
    spoil, loaded, login, database, topic, orders, assert_loaded, until
):
    one, bodies = loaded
    known = len(one.lines)
    mend = spoil(database, login[0])
    more = orders(300, start=100)
    topic.publish(more)
    until(
        lambda: any('"severity":"ERROR"' in line or '"severity":"WARNING"' in line for line in one.lines[known:]),
        lambda: f"a complaint; said was {one.output}",
    )
    with contextlib.suppress(psycopg.errors.UndefinedTable):
        assert database.count("order") == 100
    assert topic.counts()["leased"] == 300
    mend()
    topic.until_count_settled(database, "order", 400)
    assert_loaded(database, bodies + more)
