"""One event is one row, however often and by whomever it is delivered; another body is never taken for a duplicate."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest
from loading_harness import Loading

from loader.message.message import Message

TREE = [{"eventName": "orders", "id": n, "items": [{"sku": "a", "tags": ["x", "y"]}, {"sku": "b"}]} for n in range(20)]
IDS = [f"e{n:03d}" for n in range(20)]


def assert_one_tree_each(loading: Loading, events: int = 20) -> None:
    assert loading.count("orders") == events
    assert len(loading.children("orders", "orders__items")) == events * 2
    assert len(loading.children("orders__items", "orders__items__tags")) == events * 2


def test_a_message_twice_in_one_load_is_one_row(loading: Loading) -> None:
    messages = loading.load(TREE + TREE, ids=IDS + IDS)
    loading.assert_settled(messages)
    assert_one_tree_each(loading)


def test_a_message_in_a_later_load_and_by_another_worker_is_one_row(new_loading: Callable[..., Loading]) -> None:
    first, second = new_loading(), new_loading()
    first.load(TREE, ids=IDS)
    first.load(TREE, ids=IDS)
    second.load(TREE, ids=IDS)
    assert second.acked.total() == 20
    assert_one_tree_each(first)
    assert first.letters() == []


def test_a_message_that_two_workers_store_at_one_time_is_one_row(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading()
    workers = [new_loading() for _ in range(3)]
    loading.load(TREE[:1], ids=["seed"])
    barrier = threading.Barrier(len(workers))

    def work(worker: Loading, turn: int) -> None:
        for round_ in range(5):
            ids = [f"r{round_}-{n}" for n in range(20)]
            ids = ids[turn:] + ids[:turn]
            barrier.wait(timeout=60)
            worker.load(TREE[turn:] + TREE[:turn], ids=ids)

    threads = [threading.Thread(target=work, args=(worker, turn * 7)) for turn, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_one_tree_each(loading, 101)
    assert loading.letters() == []
    assert all(worker.acked.total() == 100 and not worker.patience.errors for worker in workers)


def test_a_commit_whose_answer_was_lost_is_recognised(loading: Loading) -> None:
    """The rows are there, the connection broke before the worker heard of it."""
    loading.load(TREE[:10], ids=IDS[:10])
    messages = loading.load(TREE, ids=IDS)
    loading.assert_settled(messages[10:])
    assert_one_tree_each(loading)


def test_the_same_id_with_another_body_is_a_dead_letter_and_never_dropped(loading: Loading) -> None:
    loading.load([{"eventName": "orders", "id": 1}], ids=["same"])
    loading.load([{"eventName": "orders", "id": 2}, {"eventName": "orders", "id": 1}], ids=["same", "same"])
    (letter,) = loading.letters()
    assert (letter["_event_id"], letter["reason"]) == ("same", "event id reused")
    assert '"id": 2' in letter["body"]
    assert [row["id"] for row in loading.rows("orders")] == [1]


def test_a_constant_identity_on_1_000_bodies_is_one_row_and_999_letters(loading: Loading) -> None:
    bodies = [{"eventName": "orders", "id": n} for n in range(1_000)]
    loading.load(bodies, ids=["constant"] * 1_000)
    loading.load(bodies, ids=["constant"] * 1_000)
    assert loading.acked == {"constant": 2_000}
    assert loading.count("orders") == 1
    letters = loading.letters()
    assert len(letters) == 999
    assert {letter["reason"] for letter in letters} == {"event id reused"}
    assert len({letter["body"] for letter in letters}) == 999


def test_a_constant_identity_on_misfits_of_many_shapes(loading: Loading) -> None:
    bodies = [{"eventName": "orders", f"key{n}": n} for n in range(50)]
    loading.load(bodies, ids=["constant"] * 50)
    loading.load(bodies, ids=["constant"] * 50)
    assert loading.count("orders") == 1
    assert len(loading.letters()) == 49
    assert loading.acked == {"constant": 100}


def test_one_identity_in_two_tables_is_two_rows_whoever_shares_a_bundle(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(table_attribute="table", event_id_key="id")

    def messages(*tables: str) -> list[Message]:
        return [loading.messages([{"id": 7}], attributes={"table": table})[0] for table in tables]

    loading.load_messages(messages("orders", "payments", "orders", "payments"))  # all are new and are learned
    loading.load_messages(messages("orders", "returns"))
    loading.load_messages(messages("payments", "returns", "refunds"))
    assert {table: loading.count(table) for table in loading.tables()} == {
        "orders": 1, "payments": 1, "refunds": 1, "returns": 1
    }  # fmt: skip
    assert loading.letters() == []
    assert loading.acked.total() == 9


def test_roots_deleted_by_hand_come_back_with_their_children_once(loading: Loading) -> None:
    loading.load(TREE, ids=IDS)
    loading.execute("delete from orders where id % 2 = 0")
    loading.load(TREE, ids=IDS)
    assert_one_tree_each(loading)
    assert loading.letters() == []
    assert loading.patience.errors == []


def test_children_deleted_by_hand_stay_deleted_while_their_root_is_there(loading: Loading) -> None:
    loading.load(TREE, ids=IDS)
    loading.execute("delete from orders__items__tags")
    loading.load(TREE, ids=IDS)
    assert loading.count("orders") == 20
    assert loading.count("orders__items__tags") == 0


def test_elements_of_one_array_are_events_of_their_own(loading: Loading) -> None:
    messages = loading.load([TREE, [*TREE]], ids=["array", "array"])
    loading.assert_settled(messages)
    assert_one_tree_each(loading)
    assert {row["_event_id"] for row in loading.rows("orders", own=True)} == {f"array/{n}" for n in range(20)}


def test_an_array_is_acked_only_when_its_last_element_is_stored(loading: Loading) -> None:
    loading.load([{"eventName": "orders", "id": -1, "amount": 1}])
    loading.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin"
        " raise exception 'closed'; end $$; create trigger refuse before insert on orders"
        " for each row execute function refuse()"
    )
    array = [{"eventName": "orders", "id": n} for n in range(30)] + [{"eventName": "payments", "id": 1}]
    (message,) = loading.load([array])
    assert loading.count("payments") == 1
    assert message.message_id not in loading.acked
    loading.execute("drop trigger refuse on orders")
    assert loading.retry_held() == 0
    assert loading.acked[message.message_id] == 1
    assert loading.count("orders") == 31


def test_an_event_that_loads_after_all_resolves_its_letter(loading: Loading) -> None:
    loading.load([{"eventName": "orders", "id": 1, "amount": 1}])
    loading.execute("alter table orders add constraint positive check (amount > 0)")
    bad = {"eventName": "orders", "id": 2, "amount": -1}
    loading.load([bad], ids=["bad"])
    assert len(loading.letters()) == 1
    loading.load([bad], ids=["bad"])
    assert len(loading.letters()) == 1
    loading.execute("alter table orders drop constraint positive")
    loading.load([bad], ids=["bad"])
    assert loading.letters() == []
    found = loading.execute("select resolution from _dead_letters where resolved_at is not null").fetchone()
    assert found is not None
    assert found[0].startswith("loaded by ")


def test_a_stored_event_gets_no_letter_when_it_could_not_be_loaded_today(new_loading: Callable[..., Loading]) -> None:
    evolving = new_loading()
    evolving.load([{"eventName": "orders", "id": 1, "new": 1}], ids=["one"])
    evolving.execute("alter table orders drop column new")
    frozen = new_loading(schema_contract="freeze")
    frozen.load([{"eventName": "orders", "id": 1, "new": 1}], ids=["one"])
    assert frozen.letters() == []
    frozen.load([{"eventName": "orders", "id": 1, "new": 1}], ids=["two"])
    assert [letter["reason"] for letter in frozen.letters()] == ["frozen by contract"]


def test_a_table_that_stock_dlt_left_without_the_index_on_dlt_id_gets_one(loading: Loading) -> None:
    loading.load(TREE, ids=IDS)
    loading.execute("alter table orders drop constraint orders__dlt_id_key")
    loading.lane.close()
    again = Loading(loading.url)
    try:
        again.load(TREE, ids=IDS)
        again.load([{"eventName": "orders", "id": 5}], ids=["new"])
        assert again.count("orders") == 21
        assert again.letters() == []
    finally:
        again.close()


def test_a_table_without_our_columns_and_a_payload_table_are_learned_side_by_side(loading: Loading) -> None:
    """A table of the user's own that cannot be indexed (two rows with one id) holds up itself only."""
    loading.load([{"eventName": "seed"}])
    loading.execute("create table stuck (_dlt_id text, id bigint)")
    loading.execute("insert into stuck values ('same', 1), ('same', 2)")
    done = threading.Event()
    messages = loading.messages([{"eventName": "stuck", "id": 3}, {"eventName": "free", "id": 1}])

    def work() -> None:
        loading.load_messages(messages)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    with psycopg.connect(loading.url, autocommit=True) as conn:
        while not conn.execute("select to_regclass('events.free')").fetchone()[0]:  # type: ignore[index]
            assert not done.wait(0.05)
        conn.execute("delete from events.stuck where id = 2")
    thread.join(30)
    assert done.is_set()
    loading.assert_settled(messages)
    assert loading.count("stuck") == 2
    assert loading.letters() == []


def test_an_event_that_is_refused_and_came_twice_has_an_open_letter(loading: Loading) -> None:
    loading.load([{"eventName": "orders", "id": 1}])
    loading.execute("alter table orders add constraint small check (id < 100)")
    bad = {"eventName": "orders", "id": 1000}
    messages = loading.load([{"eventName": "orders", "id": 2}, bad, bad, bad], ids=["two", "bad", "bad", "bad"])
    loading.assert_settled(messages)
    (letter,) = loading.letters()
    assert (letter["_event_id"], letter["resolved_at"]) == ("bad", None)
    assert loading.loads[-1].load.duplicates == []


def test_events_that_are_held_are_held_with_every_copy_that_came(loading: Loading) -> None:
    loading.load([{"eventName": "orders", "id": 1}])
    loading.execute("alter table orders add constraint small check (id < 100)")
    bodies = [{"eventName": "orders", "id": 1_000 + n} for n in range(40)]
    ids = [f"h{n}" for n in range(40)]
    loading.load(bodies + bodies, ids=ids + ids)
    assert not loading.acked.keys() & set(ids)
    assert len(loading.held) == 80
    loading.execute("alter table orders drop constraint small")
    assert loading.retry_held() == 0
    assert loading.acked == {**dict.fromkeys(ids, 2), **{key: 1 for key in loading.acked if key not in ids}}
    assert loading.count("orders") == 41
    assert loading.letters() == []


def test_an_identity_belongs_to_the_first_body_that_is_stored(loading: Loading) -> None:
    """What becomes of an event must not depend on who is in its bundle: in two bundles the good body is a row, too."""
    loading.load([{"eventName": "orders", "id": 1}])
    loading.execute("alter table orders add constraint small check (id < 100)")
    bodies = [{"eventName": "orders", "id": n} for n in (1000, 2, 3)]
    messages = loading.load(bodies, ids=["one"] * 3)
    loading.assert_settled(messages)
    assert sorted(row["id"] for row in loading.rows("orders")) == [1, 2]
    reasons = {(letter["reason"], letter["resolved_at"]) for letter in loading.letters()}
    assert reasons == {("refused by the database", None), ("event id reused", None)}


def test_a_body_refused_twice_under_a_reused_identity_has_an_open_letter(loading: Loading) -> None:
    loading.load([{"eventName": "orders", "id": 1}])
    first, second = {"eventName": "orders", "id": 2}, {"eventName": "orders", "id": 3}
    loading.assert_settled(loading.load([first, second, second], ids=["one"] * 3))
    (letter,) = loading.letters()
    assert (letter["reason"], letter["resolved_at"]) == ("event id reused", None)
    assert '"id": 3' in letter["body"]


@pytest.mark.parametrize("apart", [False, True])
def test_one_body_refused_in_two_tables_has_a_letter_in_each(new_loading: Callable[..., Loading], apart: bool) -> None:
    loading = new_loading(table_attribute="table", event_id_key="key")
    tables = ("orders", "payments", "returns")
    for table in tables:
        loading.load([{"key": "seed", "id": 1}], table=table)
        if table != "returns":
            loading.execute(f"alter table {table} add constraint small_{table} check (id < 100)")
    messages = [loading.messages([{"key": "k", "id": 1000}], attributes={"table": table})[0] for table in tables]
    for bundle in [[message] for message in messages] if apart else [messages]:
        loading.load_messages(bundle)
    assert {(letter["table_name"], letter["resolved_at"]) for letter in loading.letters()} == {
        ("orders", None),
        ("payments", None),
    }
    assert loading.count("returns") == 2
    loading.execute("alter table orders drop constraint small_orders")
    loading.load_messages([loading.messages([{"key": "k", "id": 1000}], attributes={"table": "orders"})[0]])
    assert {letter["table_name"] for letter in loading.letters() if letter["resolved_at"] is None} == {"payments"}


def test_many_bodies_under_an_identity_that_is_stored_are_told_so_in_one_transaction(loading: Loading) -> None:
    bodies = [{"eventName": "orders", "id": n} for n in range(41)]
    loading.load(bodies[:1], ids=["one"])
    loads = loading.execute("select count(*) from _dlt_loads").fetchone()
    loading.load([*bodies[1:], bodies[0]], ids=["one"] * 41)
    assert [letter["reason"] for letter in loading.letters()] == ["event id reused"] * 40
    assert loading.execute("select count(*) from _dlt_loads").fetchone() == (loads[0] + 1,)  # type: ignore[index]
    assert loading.acked == {"one": 42}


@pytest.mark.parametrize(("bad", "rows"), [(7, [1, 2]), (30, [1])])
def test_an_identity_goes_on_to_the_next_body_as_long_as_few_are_refused(
    loading: Loading, bad: int, rows: list[int]
) -> None:
    loading.load([{"eventName": "orders", "id": 1}])
    loading.execute("alter table orders add constraint small check (id < 100)")
    bodies = [{"eventName": "orders", "id": n} for n in [*range(1000, 1000 + bad), 2]]
    loading.assert_settled(loading.load(bodies, ids=["one"] * len(bodies)))
    assert sorted(row["id"] for row in loading.rows("orders")) == rows
    letters = loading.letters()
    assert len(letters) == len(bodies) + 1 - len(rows)
    assert {letter["reason"] for letter in letters} <= {"refused by the database", "event id reused"}
