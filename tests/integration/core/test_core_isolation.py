"""A bad message never takes its neighbours along: constraints and triggers of the user's own on the tables."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from loading_harness import Loading

from loader.copy.isolation import Isolation

ROUNDS = 6
"""More rounds than a suspicious minority is held."""


def orders(count: int, **keys: Any) -> list[dict[str, Any]]:
    return [{"eventName": "orders", "id": number, **keys} for number in range(count)]


def prepared(loading: Loading, *statements: str, sample: dict[str, Any] | None = None) -> Loading:
    """The table `orders` with one good row, then the user's own statements."""
    loading.load([sample or {"eventName": "orders", "id": -1, "amount": 1, "note": "first"}])
    for statement in statements:
        loading.execute(statement)
    return loading


RAISE = """
create function refuse() returns trigger language plpgsql as $$ begin
    if {condition} then raise exception 'no row for %', new.id; end if; return new; end $$;
create trigger refuse before insert on orders for each row execute function refuse();
"""


def test_one_poison_among_10_000_leaves_9_999_in_the_same_load_and_one_letter(loading: Loading) -> None:
    prepared(loading, "alter table orders add constraint positive check (amount > 0)")
    bodies = [{"eventName": "orders", "id": number, "amount": 1} for number in range(10_000)]
    bodies[7_777]["amount"] = -5
    messages = loading.load(bodies)
    loading.assert_settled(messages)
    ids = {row["id"] for row in loading.rows("orders")}
    assert ids == set(range(-1, 10_000)) - {7_777}
    loads = loading.execute("select count(distinct _dlt_load_id) from orders where id >= 0").fetchone()
    assert loads == (1,)
    (letter,) = loading.letters()
    assert letter["_event_id"] == messages[7_777].message_id
    assert (letter["table_name"], letter["sqlstate"]) == ("orders", "23514")
    assert "positive" in letter["detail"]
    assert "-5" in letter["detail"]
    assert letter["reason"] == "refused by the database"


def test_the_letter_names_the_column_where_the_database_does(loading: Loading) -> None:
    prepared(loading, "alter table orders alter column note set not null")
    messages = loading.load([{"eventName": "orders", "id": n, "note": None if n == 3 else "x"} for n in range(9)])
    loading.assert_settled(messages)
    (letter,) = loading.letters()
    assert (letter["_event_id"], letter["column_name"], letter["sqlstate"]) == (messages[3].message_id, "note", "23502")
    assert loading.count("orders") == 9


@pytest.mark.parametrize("bad", [range(500), range(0, 10_000, 20), range(9_500, 10_000)], ids=["first", "even", "last"])
def test_500_bad_among_10_000_are_held_and_then_exactly_those_die(loading: Loading, bad: range) -> None:
    prepared(loading, "alter table orders add constraint positive check (amount > 0)")
    bodies = [{"eventName": "orders", "id": n, "amount": -n - 1 if n in bad else 1} for n in range(10_000)]
    messages = loading.load(bodies)
    assert loading.count("orders") == 9_501
    assert loading.letters() == []
    assert len(loading.held) == 500
    assert loading.retry_held(ROUNDS) == 0
    loading.assert_settled(messages)
    letters = loading.letters()
    assert {letter["_event_id"] for letter in letters} == {messages[n].message_id for n in bad}
    for letter in letters:
        number = next(n for n in bad if messages[n].message_id == letter["_event_id"])
        assert f" {-number - 1}," in letter["detail"], "each letter quotes its own row"


def test_a_held_minority_that_the_database_takes_later_is_loaded(loading: Loading) -> None:
    """Rows that arrive before what they refer to."""
    prepared(loading, "create table customers (id bigint primary key)", sample={"eventName": "orders", "customer": 1})
    loading.execute("insert into customers select generate_series(1, 1000)")
    loading.execute("alter table orders add foreign key (customer) references customers")
    bodies = [{"eventName": "orders", "customer": 5_000 + n if n < 100 else n} for n in range(1_000)]
    messages = loading.load(bodies)
    assert len(loading.held) == 100
    loading.execute("insert into customers select generate_series(5030, 5099)")
    assert loading.retry_held(ROUNDS) == 0
    assert {letter["_event_id"] for letter in loading.letters()} == {m.message_id for m in messages[:30]}
    assert loading.count("orders") == 971


def test_when_every_row_is_refused_nothing_ever_dies_and_all_load_once_it_is_mended(loading: Loading) -> None:
    prepared(loading, RAISE.format(condition="true"))
    messages = loading.load(orders(1_000))
    other = loading.load([{"eventName": "payments", "id": 1}])
    loading.assert_settled(other)
    assert loading.retry_held(12) == 1_000
    assert loading.letters() == []
    assert loading.count("orders") == 1
    assert not loading.acked.keys() & {message.message_id for message in messages}
    loading.execute("drop trigger refuse on orders")
    assert loading.retry_held() == 0
    loading.assert_settled(messages)
    assert loading.count("orders") == 1_001


def test_a_trigger_that_refuses_some_rows_kills_those(loading: Loading) -> None:
    prepared(loading, RAISE.format(condition="new.id = 5"))
    messages = loading.load(orders(100))
    (letter,) = loading.letters()
    assert (letter["_event_id"], letter["sqlstate"]) == (messages[5].message_id, "P0001")
    assert "no row for 5" in letter["detail"]
    assert loading.count("orders") == 100


def test_poison_and_redelivered_events_in_one_bundle(loading: Loading) -> None:
    prepared(loading, "alter table orders add constraint positive check (id > -2)")
    first = loading.messages(orders(50))
    loading.load_messages(first)
    poison = loading.messages([{"eventName": "orders", "id": -9}], ids=["aaa"])
    again = loading.messages(orders(100), ids=[m.message_id for m in first] + [f"new{n}" for n in range(50)])
    loading.load_messages([*again, *poison])
    assert loading.count("orders") == 101
    assert [letter["_event_id"] for letter in loading.letters()] == ["aaa"]
    assert loading.patience.errors == []


def test_a_redelivered_event_is_a_duplicate_even_if_the_database_would_refuse_it_today(loading: Loading) -> None:
    prepared(loading)
    first = loading.messages(orders(30))
    loading.load_messages(first)
    loading.execute("alter table orders add constraint small check (id < 10) not valid")
    loading.load_messages(loading.messages(orders(30), ids=[m.message_id for m in first]))
    assert loading.letters() == []
    assert len(loading.held) == 0
    assert loading.count("orders") == 31


def test_a_unique_index_of_the_users_own_keeps_the_first_of_two(loading: Loading) -> None:
    prepared(loading, "create unique index own_key on orders (id)")
    messages = loading.load([*orders(40), {"eventName": "orders", "id": 17}], ids=[f"e{n:03d}" for n in range(41)])
    loading.assert_settled(messages)
    (letter,) = loading.letters()
    assert (letter["_event_id"], letter["sqlstate"]) == ("e040", "23505")
    assert "17" in letter["detail"]
    assert loading.count("orders") == 41


def test_redelivery_into_a_table_whose_own_unique_index_is_older_than_ours(loading: Loading) -> None:
    loading.load([{"eventName": "other"}])
    loading.execute("create table orders (id bigint primary key)")
    first = loading.load(orders(30), ids=[f"e{n:03d}" for n in range(30)])
    loading.assert_settled(first)
    loading.load(orders(60), ids=[f"e{n:03d}" for n in range(60)])
    assert loading.letters() == []
    assert loading.count("orders") == 60


def test_a_row_too_wide_for_a_page_moves_to_overflow_and_its_neighbours_stay_as_they_are(
    new_loading: Callable[..., Loading],
) -> None:
    loading = new_loading(max_columns=1_500, max_keys=5_000)
    wide = {"eventName": "wide", "big": 2**70, "list": [1], "f": 1e300, "at": "2026-11-30T12:00:00Z"}
    wide |= {f"k{n}": f"{n:060d}" for n in range(700)}
    narrow = [{"eventName": "wide", "k0": "x", "big": n} for n in range(300)]
    messages = loading.load([*narrow[:150], wide, *narrow[150:]])
    loading.assert_settled(messages)
    assert loading.letters() == []
    rows = {row["_event_id"]: row for row in loading.rows("wide", own=True)}
    assert len(rows) == 301
    moved = rows.pop(messages[150].message_id)["_overflow"]
    assert {key: moved[key] for key in wide if key.startswith("k")} == {k: v for k, v in wide.items() if k[0] == "k"}
    assert moved["big__v_text"] == str(2**70)
    assert all("_overflow" not in row for row in rows.values())
    assert [row["value"] for _, row in loading.children("wide", "wide__list")] == [1]


@pytest.mark.parametrize("wide", [60, 700])
def test_when_most_rows_are_too_wide_for_a_page_they_move_to_overflow_and_none_is_held(
    loading: Loading, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind of event whose rows are all so wide: the default budget of columns allows it."""
    loading.load([{"eventName": "wide", "n": 0, **{f"k{n}": "x" for n in range(380)}}])
    tries: list[int] = []
    alone = Isolation.row_alone
    monkeypatch.setattr(Isolation, "row_alone", lambda self, *row: (tries.append(0), alone(self, *row))[1])
    bodies = [{"n": i, **{f"k{n}": f"{n:011d}{i:011d}" for n in range(380)}} for i in range(wide)]
    narrow = [{"eventName": "wide", "n": -i, "k0": "x"} for i in range(1, 6)]
    messages = loading.load([*narrow, *({"eventName": "wide", **body} for body in bodies)])
    loading.assert_settled(messages)
    assert len(loading.held) == 0
    assert loading.letters() == []
    rows = {row["n"]: row for row in loading.rows("wide") if "n" in row}
    assert all(rows[-i]["k0"] == "x" for i in range(1, 6))
    moved = {row["_overflow"]["n"]: row["_overflow"] for row in loading.rows("wide") if "_overflow" in row}
    assert moved == {body["n"]: {"event_name": "wide", **body} for body in bodies}
    assert len(tries) < 60, "a few are tried, not each"


def test_when_most_values_are_too_long_for_an_index_they_move_to_overflow(loading: Loading) -> None:
    prepared(loading, "create index by_note on orders (note)")
    note = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(200))
    bodies = [{"eventName": "orders", "id": n, "note": f"{n}{note}" if n % 10 else "short"} for n in range(100)]
    messages = loading.load(bodies)
    loading.assert_settled(messages)
    assert len(loading.held) == 0
    assert loading.letters() == []
    found = loading.execute("select coalesce(note, _overflow ->> 'note') from orders where id is distinct from -1")
    assert sorted(found.fetchall()) == sorted((body["note"],) for body in bodies)
    assert loading.execute("select count(*) from orders where _overflow is not null").fetchone() == (90,)


def test_rows_too_wide_for_a_page_and_rows_that_are_refused_in_one_bundle(loading: Loading) -> None:
    """The refused ones alone are held, as when no row is too wide."""
    keys = {f"k{n}": "x" for n in range(380)}
    prepared(loading, "alter table orders add check (id < 1000)", sample={"eventName": "orders", "id": -1, **keys})
    wide = [{"eventName": "orders", "id": i, **dict.fromkeys(keys, "y" * 22)} for i in range(100)]
    refused = [{"eventName": "orders", "id": 1_000 + i, "k0": "x"} for i in range(30)]
    messages = loading.load([*wide, *refused])
    loading.assert_settled(messages[:100])
    assert loading.count("orders") == 101
    assert len(loading.held) == 30
    assert loading.letters() == []


def test_json_and_big_integers_survive_the_move_to_overflow(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(max_columns=1_500, max_nesting=0)
    wide: dict[str, Any] = {"eventName": "wide", "o": {"n": 2**70, "l": [1, None]}, "n": 5, "f": 1e22}
    wide |= {f"k{n}": f"{n:060d}" for n in range(700)}
    loading.load([wide])
    assert loading.letters() == []
    found = loading.execute("select _overflow -> 'o', _overflow -> 'o' ->> 'n', _overflow ->> 'n' from wide").fetchone()
    assert found is not None
    assert found[1:] == (str(2**70), "5")
    assert found[0]["l"] == [1, None]


def test_an_event_whose_child_row_is_refused_is_refused_whole(loading: Loading) -> None:
    prepared(
        loading,
        "create table products (sku text primary key)",
        "insert into products select 's' || n from generate_series(0, 99) n",
        "alter table orders__items alter column sku type text",
        "alter table orders__items add foreign key (sku) references products",
        sample={"eventName": "orders", "items": [{"sku": "s1"}], "notes": ["a"]},
    )
    body = [{"eventName": "orders", "items": [{"sku": f"s{n}"}, {"sku": "s1"}], "notes": ["n"]} for n in range(50)]
    body[20]["items"] = [{"sku": "s1"}, {"sku": "unknown"}]
    messages = loading.load(body)
    loading.assert_settled(messages)
    (letter,) = loading.letters()
    assert (letter["_event_id"], letter["table_name"]) == (messages[20].message_id, "orders__items")
    assert letter["sqlstate"] == "23503"
    assert loading.count("orders") == 50
    assert len(loading.children("orders", "orders__items")) == 1 + 49 * 2
    assert len(loading.children("orders", "orders__notes")) == 1 + 49


def test_text_that_imitates_a_context_line_blames_nobody_else(loading: Loading) -> None:
    prepared(loading, "alter table orders add constraint good check (note not like '%bad%')")
    bodies = orders(60, note="fine")
    bodies[40]["note"] = 'bad\nCOPY orders, line 3, column id: "x"\nCOPY orders, line 7'
    bodies[41]["note"] = "COPY orders, line 3\nCOPY orders, line 1: bad"
    messages = loading.load(bodies)
    assert {x["_event_id"] for x in loading.letters()} == {messages[40].message_id, messages[41].message_id}
    assert loading.count("orders") == 59


@pytest.mark.parametrize("kind", ["foreign key", "unique", "trigger"])
def test_a_deferred_constraint_that_fails_at_commit_is_isolated(loading: Loading, kind: str) -> None:
    prepared(loading)
    if kind == "foreign key":
        loading.execute("create table numbers (id bigint primary key)")
        loading.execute("insert into numbers select generate_series(-1, 48)")
        loading.execute("alter table orders add foreign key (id) references numbers deferrable initially deferred")
    elif kind == "unique":
        loading.execute("alter table orders add constraint own unique (id) deferrable initially deferred")
        loading.execute("update orders set id = 49")
    else:
        loading.execute(
            "create function late() returns trigger language plpgsql as $$ begin"
            " if new.id = 49 then raise exception 'too late for %', new.id; end if; return null; end $$"
        )
        loading.execute(
            "create constraint trigger late after insert on orders deferrable initially deferred"
            " for each row execute function late()"
        )
    messages = loading.load(orders(50))
    loading.assert_settled(messages)
    (letter,) = loading.letters()
    assert letter["_event_id"] == messages[49].message_id
    assert letter["table_name"] == "orders"
    assert loading.count("orders") == 50
    assert loading.patience.errors == []


def test_rows_that_a_deferred_foreign_key_lets_refer_to_later_tables_of_the_bundle_load(loading: Loading) -> None:
    """`orders` is written before `people`, whom it refers to: with the key deferred that is right."""
    loading.load([{"eventName": "orders", "person": 1}, {"eventName": "people", "id": 1}])
    loading.execute("create unique index people_key on people (id)")
    loading.execute("alter table orders add foreign key (person) references people (id) deferrable initially deferred")
    bodies = [{"eventName": "orders", "person": n} for n in range(2, 30)]
    bodies += [{"eventName": "people", "id": n} for n in range(2, 29)]
    messages = loading.load(bodies)
    (letter,) = loading.letters()
    assert letter["_event_id"] == messages[27].message_id
    assert loading.count("orders") == 28
    assert loading.count("people") == 28


def test_a_statement_trigger_that_refuses_large_bundles_does_not_spin(loading: Loading) -> None:
    prepared(
        loading,
        "create function few() returns trigger language plpgsql as $$ begin"
        " if (select count(*) from added) > 30 then raise exception 'too many'; end if; return null; end $$",
        "create trigger few after insert on orders referencing new table as added"
        " for each statement execute function few()",
    )
    messages = loading.load(orders(100))
    loading.assert_settled(messages)
    assert loading.letters() == []
    assert loading.count("orders") == 101


def test_triggers_that_drop_or_change_rows_are_the_users_business(loading: Loading) -> None:
    prepared(
        loading,
        "create function own() returns trigger language plpgsql as $$ begin"
        " if new.id % 2 = 0 then return null; end if; new.note := 'changed'; return new; end $$",
        "create trigger own before insert on orders for each row execute function own()",
        sample={"eventName": "orders", "id": -1, "note": "first", "items": [1]},
    )
    bodies = orders(10, items=[1, 2])
    ids = [f"e{n}" for n in range(10)]
    loading.assert_settled(loading.load(bodies, ids=ids))
    assert loading.count("orders") == 6
    loading.load(bodies, ids=ids)
    assert loading.count("orders") == 6
    assert loading.count("orders__items") == 21
    assert loading.letters() == []


def test_values_that_own_columns_cannot_hold_exactly_go_to_variants(loading: Loading) -> None:
    prepared(loading)
    loading.execute(
        "create table own (short varchar(3), fixed char(3), price numeric(6,2), any_price numeric, small int4,"
        " tiny int2, day date, token uuid, ratio real, moment timestamp, body bytea, tags text[],"
        " made int generated always as (1) stored, counter bigint generated by default as identity,"
        " state text not null default 'new')"
    )
    token = "6513270e-269e-0d37-f2a7-4de452e6b438"
    fitting = {
        "short": "abc", "fixed": "abc", "price": 12.25, "any_price": 1.5, "small": 7, "tiny": 7,
        "day": "2026-11-30", "token": token, "ratio": 0.5,
    }  # fmt: skip
    others = {
        "short": "abcd", "fixed": "ab", "price": 0.125, "any_price": "1.50", "small": 2**31, "tiny": 2**15,
        "day": "2026-02-30", "token": token.upper(), "ratio": 0.1, "moment": "2026-11-30T12:00:00", "body": "YWJj",
        "tags": "{1,2}", "made": 5, "counter": 9, "state": 3,
    }  # fmt: skip
    messages = loading.load([{"eventName": "own", **fitting}, {"eventName": "own", **others}, {"eventName": "own"}])
    loading.assert_settled(messages)
    assert loading.letters() == []
    first, second, third = loading.rows("own")
    assert {key: str(first[key]) for key in fitting} == {key: str(value) for key, value in fitting.items()}
    values = {**second}
    for key, value in others.items():
        kept = [values[name] for name in values if name.startswith(f"{key}__v_")]
        assert kept == [value], (key, kept)
    assert third["state"] == "new", "the column's own default"
    assert third["counter"] > 0
    assert third["made"] == 1


def test_char_and_varchar_do_not_lose_blanks(loading: Loading) -> None:
    loading.load([{"eventName": "other"}])
    loading.execute("create table own (fixed char(3), short varchar(3))")
    loading.load([{"eventName": "own", "fixed": "ab ", "short": "ab "}, {"eventName": "own", "short": "abc  "}])
    first, second = loading.rows("own")
    assert (first["fixed__v_text"], first["short"], second["short__v_text"]) == ("ab ", "ab ", "abc  ")


def test_a_column_of_the_users_own_that_must_not_be_null_holds_everything_back_but_kills_nothing(
    loading: Loading,
) -> None:
    prepared(loading, "alter table orders add column required text not null default 'x'")
    loading.execute("alter table orders alter column required drop default")
    messages = loading.load(orders(40))
    assert loading.letters() == []
    assert len(loading.held) == 40
    loading.execute("alter table orders alter column required set default 'y'")
    assert loading.retry_held() == 0
    loading.assert_settled(messages)


@pytest.mark.parametrize(
    ("change", "sqlstate"),
    [
        ("alter table wide owner to current_user", "42501"),
        ("alter table wide add column _overflow jsonb generated always as ('{}'::jsonb) stored", "54000"),
    ],
)
def test_a_row_too_wide_for_a_table_that_cannot_be_given_an_overflow_keeps_only_itself_waiting(
    loading: Loading, change: str, sqlstate: str
) -> None:
    (oid,) = loading.execute("select oid from pg_database where datname = current_database()").fetchone()  # type: ignore[misc]
    role = f"loader_{oid}"
    loading.conn.execute(f"create role {role} login password 'x'".encode())
    try:
        loading.conn.execute(f"create schema events authorization {role}".encode())
        limited = Loading(
            psycopg.conninfo.make_conninfo(loading.url, user=role, password="x"), max_columns=700, patience=20
        )
        try:
            limited.load([{"eventName": "wide", "n": 0, **{f"k{n}": "x" for n in range(600)}}, {"eventName": "y"}])
            loading.execute(change)
            loading.execute(f"grant all on wide to {role}")
            wide = {"eventName": "wide", "n": 1, **{f"k{n}": f"{n:060d}" for n in range(600)}}
            others = [{"eventName": name, "n": n} for n in range(2, 5) for name in ("wide", "y")]
            limited.assert_settled(limited.load([*others[:3], wide, *others[3:]], ids=[*"abc", "big", *"def"])[:3])
            assert (loading.count("wide"), loading.count("y")) == (4, 4)
            assert set(limited.acked) >= set("abcdef")
            assert [(held.sqlstate, len(held.events)) for one in limited.loads for held in one.load.held] == [
                (sqlstate, 1)
            ]
            assert limited.letters() == []
        finally:
            limited.close()
    finally:
        loading.conn.execute(f"reassign owned by {role} to current_user".encode())
        loading.conn.execute(f"drop owned by {role}".encode())
        loading.conn.execute(f"drop role {role}".encode())
