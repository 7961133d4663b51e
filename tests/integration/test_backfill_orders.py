"""Orders as a worker's lanes follow them: what is left out, what is rewritten, what is counted."""

from __future__ import annotations

import datetime
import json
import threading

import psycopg
import pytest
from pydantic import SecretStr

from loader.backfill.parent_index import ParentIndexes
from loader.backfill.references import check_references
from loader.backfill.store import BackfillStore
from loader.commands.parts import make_database
from loader.dead_letter.replay import Impatience
from loader.errors import LoaderError
from loader.message.message import Message
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts
from loader.worker.batch import MessageBatch
from loader.worker.learning import Learning
from loader.worker.orders import Orders

SUBSCRIPTION = "projects/p/subscriptions/live"
PUBLISHED = 1_800_000_000_000_000
ORDERED = datetime.datetime.fromtimestamp(PUBLISHED / 1e6 + 3_600, datetime.UTC)


def message(number, **fields):
    body = {"type": "order", "n": number, "tags": ["a", {"deep": [number]}], **fields}
    return Message(f"ack-{number}", f"m{number}", json.dumps(body).encode(), {}, PUBLISHED + number, 1)


class Fleet:
    """Lanes of workers that follow the orders of one subscription."""

    def __init__(self, url):
        self.url = url
        self.conn = psycopg.connect(url, autocommit=True)
        self.store = BackfillStore(self.conn, "events")

    def load(self, *messages, name="w", **values):
        """Loads and learns; everything that a subscription would hear acked."""
        settings = Settings(dataset="events", database_url=SecretStr(self.url), table_key="type", **values)
        parts = Parts(settings, make_database(settings), Impatience())
        orders = Orders("events", SUBSCRIPTION, name)
        intake = parts.intake()
        lane = parts.lane("load", intake, orders=orders)
        learning_lane = parts.lane("learn", intake, parts.settled, orders)
        done = []
        learning = Learning(learning_lane, done.append, lambda snapshot, lesson: None, lambda events: None)
        for loaded in lane.store(MessageBatch(intake, messages)):
            done.append(loaded)
            if loaded.misfits:
                learning.add(loaded.misfits)
        learning.finish()
        learning.run()
        orders.report(lane, 0)
        lane.close()
        learning_lane.close()
        return [event.message.message_id for one in done for event in one.skipped]

    def order(self, **values):
        usual = {"subscription": SUBSCRIPTION, "aside": False, "replace": False, "ordered_at": ORDERED}
        self.store.insert("b1", {"live": SUBSCRIPTION}, **{**usual, "settled_before": ORDERED, **values})

    def rows(self, query):
        return self.conn.execute(query).fetchall()


@pytest.fixture
def fleet(database_url):
    found = Fleet(database_url)
    yield found
    found.conn.close()


def test_two_workers_that_rewrite_the_same_events_at_once_leave_each_once(fleet):
    messages = [message(n) for n in range(200)]
    fleet.load(*messages)
    fleet.order(replace=True)
    errors = []

    def work(name, chosen):
        try:
            for _ in range(4):
                fleet.load(*chosen, name=name)
        except Exception as error:
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(name, chosen))
        for name, chosen in (("a", messages), ("b", messages[::-1]), ("c", messages[50:150]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert fleet.rows('select count(*), count(distinct n) from events."order"') == [(200, 200)]
    assert fleet.rows("select count(*), count(distinct _dlt_parent_id) from events.order__tags") == [(400, 200)]
    assert fleet.rows("select count(*) from events.order__tags__deep") == [(200,)]
    assert fleet.store.progress("b1").events_rewritten == 4 * 500


def test_a_rewrite_moves_rows_out_of_the_table_and_shape_that_they_had(fleet):
    fleet.load(message(1), message(2))
    before = fleet.rows('select _dlt_id, _dlt_load_id from events."order" where n = 1')
    fleet.order(replace=True)

    fleet.load(message(1), max_nesting=0, table_prefix="new_")

    assert fleet.rows('select n from events."order"') == [(2,)]
    assert fleet.rows("select count(*) from events.order__tags") == [(2,)]
    after = fleet.rows("select _dlt_id, _dlt_load_id from events.new_order")
    assert after[0][0] == before[0][0]
    assert after[0][1] != before[0][1]
    progress = fleet.store.progress("b1")
    assert (progress.messages, progress.events_rewritten, progress.events_new) == (1, 1, 0)


def test_a_row_that_the_database_refuses_today_stays_as_it_was_and_its_neighbours_are_rewritten(fleet):
    fleet.load(message(1), message(2), message(3))
    fleet.conn.execute('alter table events."order" add constraint odd check (n <> 2) not valid')
    fleet.order(replace=True)

    fleet.load(message(1), message(2), message(3))

    loads = 'select n, dense_rank() over (order by _dlt_load_id) from events."order" order by n'
    assert fleet.rows(loads) == [(1, 2), (2, 1), (3, 2)]
    assert fleet.rows("select count(*) from events.order__tags") == [(6,)]
    assert fleet.rows("select _event_id, sqlstate from events._dead_letters") == [("m2", "23514")]


def test_another_event_under_the_same_identity_is_never_rewritten(fleet):
    fleet.load(message(1))
    fleet.order(replace=True)

    fleet.load(message(1, other=True), message(2))

    assert fleet.rows('select n from events."order" order by n') == [(1,), (2,)]
    assert fleet.rows("select _event_id, reason from events._dead_letters") == [("m1", "event id reused")]


def test_what_an_order_leaves_out_is_settled_and_counted_even_alone(fleet):
    fleet.load(message(1))
    fleet.conn.execute('delete from events."order"')
    fleet.order(tables=["invoice"])

    assert fleet.load(message(1)) == ["m1"]

    assert fleet.rows('select count(*) from events."order"') == [(0,)]
    progress = fleet.store.progress("b1")
    assert (progress.messages, progress.events_skipped, progress.events_new) == (1, 1, 0)


def test_an_order_that_has_ended_is_not_followed_and_one_of_another_subscription_never(fleet):
    fleet.load(message(1))
    fleet.order(tables=["invoice"])
    fleet.store.end("b1", "done")
    fleet.store.insert("b2", {}, subscription="other", aside=False, replace=False, tables=["invoice"])

    assert fleet.load(message(2)) == []

    assert fleet.rows('select n from events."order" order by n') == [(1,), (2,)]
    assert fleet.rows("select count(*) from events._backfill_progress") == [(0,)]


def test_a_message_published_after_the_order_is_loaded_whatever_the_order_leaves_out(fleet):
    fleet.load(message(1))
    fleet.order(tables=["invoice"], until=ORDERED - datetime.timedelta(days=1))
    new = message(2)._replace(published=int(ORDERED.timestamp() * 1e6))

    assert fleet.load(new, message(3)) == ["m3"]

    assert fleet.rows('select n from events."order" order by n') == [(1,), (2,)]


def test_large_child_tables_are_indexed_by_their_parents_for_a_while(fleet):
    fleet.load(message(1))
    indexes = ParentIndexes(fleet.conn, "events", large_bytes=0)
    assert indexes.missing() == ["order__tags", "order__tags__deep"]

    assert indexes.make() == ["order__tags", "order__tags__deep"]
    assert indexes.missing() == []
    assert indexes.make() == []
    indexes.drop()

    assert indexes.missing() == ["order__tags", "order__tags__deep"]
    assert ParentIndexes(fleet.conn, "events").missing() == []


def test_rows_that_a_foreign_key_holds_stay_as_they_are_and_the_load_goes_on(fleet, caplog):
    fleet.load(message(1), message(2))
    fleet.conn.execute('create table refs (o varchar references events."order" (_dlt_id))')
    fleet.conn.execute('insert into refs select _dlt_id from events."order" where n = 1')
    fleet.order(replace=True)

    fleet.load(message(1), message(2), message(3))

    assert fleet.rows('select n from events."order" order by n') == [(1,), (2,), (3,)]
    assert fleet.rows("select count(*) from refs") == [(1,)]
    progress = fleet.store.progress("b1")
    assert (progress.events_rewritten, progress.events_there, progress.events_new) == (0, 2, 1)
    assert "refs_o_fkey" in caplog.text


def test_a_foreign_key_that_a_rewriting_would_break_is_named_before_it_begins(fleet):
    fleet.load(message(1))
    check_references(fleet.conn, "events", None)
    fleet.conn.execute("create table refs (o varchar references events.order__tags (_dlt_id) on delete cascade)")
    with pytest.raises(LoaderError, match=r"would delete refs: its foreign key refs_o_fkey"):
        check_references(fleet.conn, "events", ["order"])
    check_references(fleet.conn, "events", ["other"])
    fleet.conn.execute("drop table refs")
    fleet.conn.execute(
        'create table refs (o varchar references events."order" (_dlt_id) deferrable initially deferred)'
    )
    check_references(fleet.conn, "events", None)
    fleet.conn.execute('insert into refs select _dlt_id from events."order"')
    fleet.order(replace=True)
    fleet.load(message(1))
    assert fleet.store.progress("b1").events_rewritten == 1
