"""Tables that somebody changes by hand while a worker runs: no value changes silently, and neighbours load."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from loading_harness import Loading

import loader.worker.lane as lane_module

EVENT: dict[str, Any] = {
    "eventName": "orders",
    "id": 1,
    "note": "first",
    "amount": 1.5,
    "at": "2026-11-30T12:00:00+05:00",
}
LONG = "n" * 80


@pytest.mark.parametrize(
    ("key", "value", "type_", "variant"),
    [
        ("id", 2**53 + 1, "double precision", "id__v_bigint"),
        ("id", 2**24 + 1, "real", "id__v_bigint"),
        ("id", 12345, "numeric(20,-2)", "id__v_bigint"),
        ("amount", 0.1, "real", "amount__v_double"),
        ("amount", 0.125, "numeric(10,1)", "amount__v_double"),
        ("at", "2026-11-30T12:00:00+05:00", "timestamp", "at__v_text"),
        ("at", "2026-11-30T12:00:00.123456Z", "timestamptz(0)", "at__v_text"),
        ("at", "2026-11-30T12:00:00+05:00", "date", "at__v_text"),
        ("note", LONG, "name", "note__v_text"),
        ("note", "ab", "char(20)", "note__v_text"),
    ],
)
def test_a_value_that_a_column_altered_by_hand_would_change_goes_to_a_variant(
    loading: Loading, key: str, value: Any, type_: str, variant: str
) -> None:
    loading.load([EVENT])
    loading.execute(f"alter table orders alter column {key} type {type_}")
    messages = loading.load([{**EVENT, key: value}])
    loading.assert_settled(messages)
    assert loading.letters() == []
    row = loading.rows("orders", "_published_at")[-1]
    assert row[variant] == value
    assert key not in row


def test_child_tables_are_looked_at_as_well(loading: Loading) -> None:
    loading.load([{**EVENT, "items": [{"price": 1.5}]}])
    loading.execute("alter table orders__items alter column price type real")
    loading.load([{**EVENT, "items": [{"price": 0.1}]}])
    assert loading.rows("orders__items", "_dlt_id") is not None
    assert {row.get("price__v_double") for row in loading.rows("orders__items", "_dlt_id")} == {None, 0.1}


def test_a_column_altered_between_the_fitting_and_the_copy_is_noticed(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.load([EVENT])
    fit = lane_module.fit_events

    def fit_then_alter(*arguments: Any) -> Any:
        fitted = fit(*arguments)
        loading.execute("alter table orders alter column at type timestamp")
        monkeypatch.setattr(lane_module, "fit_events", fit)
        return fitted

    monkeypatch.setattr(lane_module, "fit_events", fit_then_alter)
    messages = loading.load([EVENT])
    loading.assert_settled(messages)
    assert loading.rows("orders", "_published_at")[-1]["at__v_text"] == EVENT["at"]


def test_columns_that_others_add_meanwhile_make_nobody_fit_again(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.load([EVENT])
    loading.execute("alter table orders add column fresh bigint")
    fit, read = lane_module.fit_events, loading.lane.learner.read
    counts = {"fit": 0, "read": 0}

    def counting_fit(*arguments: Any) -> Any:
        counts["fit"] += 1
        return fit(*arguments)

    def counting_read(conn: psycopg.Connection[Any]) -> Any:
        counts["read"] += 1
        return read(conn)

    monkeypatch.setattr(lane_module, "fit_events", counting_fit)
    monkeypatch.setattr(loading.lane.learner, "read", counting_read)
    loading.load([EVENT])
    loading.load([EVENT])
    assert counts == {"fit": 2, "read": 1}, "the tables are read once, and rows that fit are not fitted anew"
    assert loading.count("orders") == 3


def test_duplicates_are_refused_though_somebody_drops_the_unique_index(loading: Loading) -> None:
    messages = loading.load([EVENT, {**EVENT, "id": 2}])
    loading.execute("alter table orders drop constraint orders__dlt_id_key")
    again = loading.messages([EVENT, {**EVENT, "id": 2}], [message.message_id for message in messages])
    loading.load_messages(again)
    loading.load_messages(again)
    assert loading.count("orders") == 2


GENERATED = ("alter table orders drop column id", "alter table orders add column id int generated always as (2) stored")


def test_a_column_made_generated_by_hand_holds_nobody_up(loading: Loading) -> None:
    loading.load([EVENT, {**EVENT, "eventName": "others"}])
    for statement in GENERATED:
        loading.execute(statement)
    messages = loading.load([{**EVENT, "id": 7}, {**EVENT, "eventName": "others"}])
    loading.assert_settled(messages)
    assert loading.patience.errors == []
    assert loading.rows("orders", "_published_at")[-1]["id__v_bigint"] == 7


@pytest.mark.parametrize(
    ("changes", "mended", "says"),
    [
        (
            ["alter table orders rename to hidden", "create view orders as select * from hidden"],
            ["drop view orders", "alter table hidden rename to orders"],
            "events.orders is a view",
        ),
        (
            ["alter table orders enable row level security", "alter table orders force row level security"],
            ["alter table orders disable row level security"],
            "row-level security",
        ),
    ],
)
def test_a_table_that_takes_no_copy_holds_up_its_own_events_only(
    loading: Loading,
    changes: list[str],
    mended: list[str],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The loader's role is no superuser here, for whom there is no row-level security."""
    (oid,) = loading.conn.execute("select oid from pg_database where datname = current_database()").fetchone()  # type: ignore[misc]
    role = f"loader_{oid}"
    loading.conn.execute(f"create role {role} login password 'x'".encode())
    loading.conn.execute(f"create schema events authorization {role}".encode())
    limited = Loading(psycopg.conninfo.make_conninfo(loading.url, user=role, password="x"))
    try:
        limited.load([EVENT, {**EVENT, "eventName": "others"}])
        for statement in changes:
            limited.execute(statement)
        messages = limited.messages([EVENT, {**EVENT, "eventName": "others"}])
        done = threading.Thread(target=limited.load_messages, args=(messages,))
        done.start()
        with psycopg.connect(limited.url, autocommit=True) as conn:
            conn.execute("set search_path to events")
            while conn.execute("select count(*) from others").fetchone() == (1,) or says not in caplog.text:
                done.join(0.05)
                assert done.is_alive()
            for statement in mended:
                conn.execute(statement.encode())
        done.join(60)
        limited.assert_settled(messages)
        assert limited.patience.errors == []
        assert (limited.count("orders"), limited.letters()) == (2, [])
    finally:
        limited.close()
        loading.conn.execute(f"reassign owned by {role} to current_user".encode())
        loading.conn.execute(f"drop owned by {role}".encode())
        loading.conn.execute(f"drop role {role}".encode())
