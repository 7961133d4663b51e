"""What is the database's fault is never a message's: no dead letters, and all rows there once it is mended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from loading_harness import Loading
from psycopg import sql

from loader.message.message import Message

SAMPLE: dict[str, Any] = {"eventName": "orders", "id": -1, "note": "first", "amount": 1.5, "items": [{"sku": "a"}]}


def orders(count: int = 50) -> list[dict[str, Any]]:
    return [{**SAMPLE, "id": number, "note": f"n{number}"} for number in range(count)]


@contextmanager
def mended_after_a_failure(loading: Loading, mend: Callable[[psycopg.Connection[Any]], None]) -> Iterator[None]:
    """Loads inside meet the fault; once it was met twice, `mend` is called from another connection."""
    failures = threading.Semaphore(0)
    met = loading.patience.database_failed
    loading.patience.database_failed = lambda error: (met(error), failures.release())  # type: ignore[assignment, method-assign]
    failed: list[BaseException] = []

    def watch() -> None:
        try:
            for _ in range(2):
                assert failures.acquire(timeout=30), "the fault was not met"
            with psycopg.connect(loading.url, autocommit=True) as conn:
                conn.execute(sql.SQL("set search_path to {}").format(sql.Identifier(loading.dataset)))
                mend(conn)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join(60)
    assert failed == []


def assert_loaded(loading: Loading, messages: list[Message], before: int = 1) -> None:
    loading.assert_settled(messages)
    assert loading.letters() == []
    assert sorted(row["id"] for row in loading.rows("orders")) == [-1] * before + list(range(50))
    assert len(loading.children("orders", "orders__items")) == 50 + before


@pytest.mark.parametrize(
    ("change", "before"),
    [
        ("drop table orders cascade", 0),
        ("drop table orders__items cascade", 1),
        ("drop schema events cascade", 0),
        ("drop table _dead_letters", 1),
        ("drop table _dlt_loads", 1),
    ],
)
def test_what_was_dropped_is_made_again(loading: Loading, change: str, before: int) -> None:
    loading.load([SAMPLE])
    loading.execute(change)
    messages = loading.load(orders())
    loading.assert_settled(messages)
    assert loading.letters() == []
    assert sorted(row["id"] for row in loading.rows("orders")) == [-1] * before + list(range(50))
    assert loading.count("orders__items") >= 50


@pytest.mark.parametrize("change", ["drop column note", "rename column note to remark"])
def test_a_column_that_is_gone_is_made_again(loading: Loading, change: str) -> None:
    loading.load([SAMPLE])
    loading.execute(f"alter table orders {change}")
    messages = loading.load(orders())
    assert_loaded(loading, messages)
    assert {row["note"] for row in loading.rows("orders") if row["id"] >= 0} == {f"n{n}" for n in range(50)}


@pytest.mark.parametrize(
    ("column", "type_", "using"),
    [
        ("note", "integer", "0"),
        ("note", "timestamptz", "now()"),
        ("note", "varchar(1)", "''"),
        ("amount", "date", "null"),
    ],
)
def test_values_that_a_column_changed_by_hand_refuses_go_to_a_variant(
    loading: Loading, column: str, type_: str, using: str
) -> None:
    loading.load([SAMPLE])
    loading.execute(f"alter table orders alter column {column} type {type_} using {using}")
    messages = loading.load(orders())
    assert_loaded(loading, messages)
    assert len(loading.held) == 0
    variant = "note__v_text" if column == "note" else "amount__v_double"
    wanted = {f"n{n}" for n in range(50)} if column == "note" else {1.5}
    assert {row[variant] for row in loading.rows("orders") if row["id"] >= 0} == wanted


def test_a_role_that_may_not_insert_for_a_while(loading: Loading) -> None:
    loading.load([SAMPLE])
    role = f"loader_{loading.execute('select oid from pg_database where datname = current_database()').fetchone()[0]}"  # type: ignore[index]
    loading.execute(f"create role {role} login password 'x' in role pg_read_all_data")
    loading.execute(f"grant all on schema events to {role}")
    loading.execute(f"grant all on all tables in schema events to {role}")
    loading.execute(f"grant all on all sequences in schema events to {role}")
    limited = Loading(psycopg.conninfo.make_conninfo(loading.url, user=role, password="x"))
    try:
        loading.execute(f"revoke insert on orders from {role}")
        grant = f"grant insert on orders to {role}"
        with mended_after_a_failure(limited, lambda conn: (conn.execute(grant.encode()), None)[1]):
            limited.url = loading.url  # who mends is the owner
            messages = limited.load(orders())
        assert_loaded(limited, messages)
        # A new column asks for ownership: that is the operator's matter, and other tables go on meanwhile.
        stuck = limited.messages([{**SAMPLE, "id": 100, "fresh": 1}, {"eventName": "others", "id": 1}])
        done = threading.Thread(target=limited.load_messages, args=(stuck,))
        done.start()
        with psycopg.connect(loading.url, autocommit=True) as conn:
            while conn.execute("select to_regclass('events.others')").fetchone()[0] is None:  # type: ignore[index]
                done.join(0.05)
                assert done.is_alive()
            conn.execute(f"alter table events.orders owner to {role}".encode())
        done.join(60)
        limited.assert_settled(stuck)
        assert limited.letters() == []
    finally:
        limited.close()
        loading.execute(f"reassign owned by {role} to current_user")
        loading.execute(f"drop owned by {role}")
        loading.execute(f"drop role {role}")


def test_read_only_mode_is_waited_for(loading: Loading) -> None:
    loading.load([SAMPLE])
    name = loading.execute("select current_database()").fetchone()[0]  # type: ignore[index]
    loading.lane.close()
    loading.execute(f"alter database {name} set default_transaction_read_only = on")

    def mend(conn: psycopg.Connection[Any]) -> None:
        conn.execute("set default_transaction_read_only = off")
        conn.execute(f"alter database {name} reset default_transaction_read_only".encode())
        conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'loader load'")

    with mended_after_a_failure(loading, mend):
        messages = loading.load(orders())
    loading.conn.close()
    assert_loaded(loading, messages)


@pytest.mark.parametrize("state", ["53100", "57P03", "58030", "XX000", "55000", "42501"])
def test_an_error_that_is_nobodys_row_is_waited_out(loading: Loading, state: str) -> None:
    loading.load([SAMPLE])
    loading.execute(
        "create function full_disk() returns trigger language plpgsql as $$ begin"
        f" raise exception 'no space' using errcode = '{state}'; end $$"
    )
    loading.execute("create trigger t before insert on orders for each row execute function full_disk()")
    with mended_after_a_failure(loading, lambda conn: (conn.execute("drop trigger t on orders"), None)[1]):
        messages = loading.load(orders())
    assert_loaded(loading, messages)
    assert {error.sqlstate for error in loading.patience.errors} == {state}  # type: ignore[attr-defined]


def test_a_full_disk_under_learning_is_waited_out(loading: Loading) -> None:
    loading.load([SAMPLE])
    loading.execute(
        "create function full_disk() returns trigger language plpgsql as $$ begin"
        " raise exception 'no space' using errcode = '53100'; end $$"
    )
    loading.execute("create trigger t before insert on _dlt_version for each row execute function full_disk()")
    with mended_after_a_failure(loading, lambda conn: (conn.execute("drop trigger t on _dlt_version"), None)[1]):
        messages = loading.load([{**row, "fresh": row["id"]} for row in orders()])
    assert_loaded(loading, messages)


@pytest.mark.parametrize("timeout", ["statement_timeout", "transaction_timeout"])
def test_a_bundle_that_takes_too_long_is_loaded_in_halves(loading: Loading, timeout: str) -> None:
    """transaction_timeout cuts the connection, so it stands where each new one finds it."""
    if timeout == "transaction_timeout" and loading.conn.info.server_version < 170000:
        pytest.skip("transaction_timeout came with PostgreSQL 17")
    loading.load([SAMPLE])
    loading.execute(
        "create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$"
    )
    loading.execute("create trigger t before insert on orders for each row execute function slow()")
    name = loading.conn.info.dbname
    loading.execute(f"alter database {name} set {timeout} = '400ms'")
    loading.lane.close()
    messages = loading.load(orders())
    assert_loaded(loading, messages)
    assert len(loading.loads) > 3


def slow(loading: Loading, seconds: str) -> None:
    """`orders` with a trigger that takes so long for each row, in a database where a statement may take 0.2 s."""
    loading.load([SAMPLE])
    loading.execute(
        "create function slow() returns trigger language plpgsql as $$ begin"
        f" perform pg_sleep({seconds}); return new; end $$"
    )
    loading.execute("create trigger t before insert on orders for each row execute function slow()")
    loading.execute(f"alter database {loading.conn.info.dbname} set statement_timeout = '200ms'")
    loading.lane.close()


def test_one_message_whose_array_takes_too_long_is_loaded_in_parts(loading: Loading) -> None:
    slow(loading, "0.02")
    messages = loading.load([orders(), {**SAMPLE, "id": 50}, b"no json"])
    loading.assert_settled(messages)
    assert sorted(row["id"] for row in loading.rows("orders")) == [-1, *range(51)]
    assert [letter["_event_id"] for letter in loading.letters()] == [messages[2].message_id]
    assert loading.patience.errors == []


def test_an_event_that_always_takes_too_long_keeps_no_other_waiting(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(patience=1_000)
    slow(loading, "case when new.id in (7, 8, 30) then 9 else 0 end")
    messages = loading.load(orders())
    others = [message for number, message in enumerate(messages) if number not in (7, 8, 30)]
    loading.assert_settled(others)
    assert loading.retry_held(2) == 3
    assert loading.letters() == []
    assert "57014" in (loading.held.alert or "")
    loading.execute("drop trigger t on orders")
    assert loading.retry_held() == 0
    assert_loaded(loading, messages)


def test_a_locked_table_keeps_the_others_waiting_for_a_few_statements_only(
    new_loading: Callable[..., Loading],
) -> None:
    loading = new_loading(patience=1_000)
    loading.load([{"eventName": "payments", "id": -1}])
    slow(loading, "0")
    with psycopg.connect(loading.url) as conn:
        conn.execute("lock table events.orders")
        payments = [{"eventName": "payments", "id": n} for n in range(8)]
        messages = loading.load([*orders(8), b"no json", *payments])
        rounds = 0
        while loading.count("payments") < 9:
            assert loading.retry_held() > 0
            rounds += 1
            assert rounds < 5
        assert len(loading.held) == 8
    loading.retry_held(2)
    assert len(loading.held) == 0
    loading.assert_settled(messages)
    assert loading.count("orders") == 9
    assert [letter["_event_id"] for letter in loading.letters()] == [messages[8].message_id]


@pytest.mark.parametrize("lane", ["loader load", "loader learn"])
def test_a_backend_that_is_terminated_in_the_middle_loads_all_once(loading: Loading, lane: str) -> None:
    loading.load([SAMPLE])
    loading.execute(
        "create function cut() returns trigger language plpgsql as $$ begin"
        " if new.id = 25 and (select not is_called from events.cuts) then perform nextval('events.cuts');"
        f" perform pg_terminate_backend(pid) from pg_stat_activity where application_name = '{lane}'"
        " and datname = current_database(); end if; return new; end $$"
    )
    loading.execute("create sequence cuts")
    loading.execute("create trigger t before insert on orders for each row execute function cut()")
    rows = orders() if lane == "loader load" else [{**row, "fresh": 1} for row in orders()]
    messages = loading.load(rows)
    assert_loaded(loading, messages)
    assert loading.patience.errors, "the connection was cut"


def test_a_server_that_restarts_between_loads_is_found_again(loading: Loading, postgres: Any) -> None:
    if not hasattr(postgres, "pid"):
        pytest.skip("needs a server of the tests' own")
    loading.load([SAMPLE])
    postgres.restart()
    messages = loading.load(orders())
    assert_loaded(loading, messages)
