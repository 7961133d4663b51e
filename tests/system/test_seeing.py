"""What an operator is shown is true while the fleet loads, learns and dies."""

from __future__ import annotations

import urllib.request

import pytest

from loader.local.ports import free_port
from loader.reconcile.layout import read_layout
from loader.reconcile.receipts import compare_receipts
from loader.status.read import read_picture, read_schema_log


def reconciled(database):
    with database.connect() as conn, conn.transaction():
        conn.execute("set transaction isolation level repeatable read, read only")
        return compare_receipts(conn, read_layout(conn, "events"), "")


def picture(database):
    with database.connect() as conn:
        return read_picture(conn, "events")


def bodies(start, count):
    """Every event has a list; every tenth asks for a column of its own kind."""
    return [
        {"kind": "order", "number": n, "items": [{"s": n}, {"s": -n}], **({f"late_{n % 70}": n} if n % 10 == 0 else {})}
        for n in range(start, start + count)
    ]


def test_status_reconcile_and_schema_log_tell_the_truth_under_load_while_learning_and_after_a_kill(
    worker, database, topic, until
):
    workers = [worker(max_bundle_messages=100, window_seconds=0.2) for _ in range(2)]
    topic.publish(bodies(0, 100))
    topic.until_count_settled(database, "order", 100)
    until(lambda: len(picture(database).workers) == 2, "both workers are seen")
    looks = 0
    topic.publish(bodies(100, 2_000))
    while (rows := database.count("order")) < 2_100:
        # In one snapshot each load is in receipts and tables or in neither, however many are under way.
        found = reconciled(database)
        assert found.gaps == (), found
        looks += 1
        if rows > 500 and len(workers) == 2:
            workers.pop().kill()
            topic.expire_leases()
    assert looks > 1
    topic.until_count_settled(database, "order", 2_100)
    assert reconciled(database).gaps == ()

    seen = picture(database)
    assert sum(load.events for load in seen.loads) <= 2_100
    assert sum(minute.rows for minute in seen.history) == 2_100 * 3
    by_name = {table.name: table for table in seen.tables}
    assert round(by_name["order"].rows_per_minute * 5) == 2_100
    assert round(by_name["order__items"].rows_per_minute * 5) == 4_200
    assert by_name["order"].age_p50 <= by_name["order"].age_p99 < 300
    assert seen.open_letters == 0
    # The one that was killed left its row, which grows old; the other renews its own.
    database.execute("update _workers set seen_at = seen_at - interval '61 seconds'")
    until(lambda: picture(database).workers, "the live worker is seen again")
    assert len(picture(database).workers) == 1
    assert database.count("_workers") == 2

    with database.connect() as conn:
        logged = {(entry.table, entry.column) for entry in read_schema_log(conn, "events", limit=10_000)}
    columns = database.rows(
        "select table_name::text, column_name::text from information_schema.columns"
        " where table_schema = 'events' and table_name not like '\\_%%'"
    )
    assert logged == set(columns)
    asked = database.rows("select column_name, first_event_id from _schema_log where column_name like 'late%%'")
    for column, event in asked:
        number = database.rows('select number from "order" where _event_id = %s', (event,))[0][0]
        assert column == f"late_{number % 70}"

    database.execute('delete from "order" where number = 77')
    gaps = reconciled(database).gaps
    assert {gap.subject.partition("table ")[2] for gap in gaps} == {"order", "order__items"}
    assert sum(gap.expected - gap.found for gap in gaps) == 3


def test_a_worker_shows_the_page_at_its_port(worker, database, topic):
    port = free_port()
    worker(window_seconds=0.2, http_port=port)
    topic.publish(bodies(0, 10))
    topic.until_count_settled(database, "order", 10)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
        html = answer.read().decode()
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "this worker is ready" in html
    assert "order__items" in html


@pytest.mark.slow
def test_reconcile_agrees_again_once_a_backfill_has_brought_rows_back_and_rewritten_them(
    worker, database, topic, command
):
    retaining = topic.subscribe("retaining", retain_acked_messages=True)
    one = worker(subscription=retaining, window_seconds=0.2).until_started()
    topic.publish(bodies(0, 200))
    database.until_count("order", 200)
    topic.until_settled(subscription=retaining)
    database.execute('delete from "order" where number % 4 = 0', "drop table order__items")
    assert command("reconcile")[0] == 1
    code, output = command("backfill", "--since", "10m", "--yes", subscription=retaining)
    assert code == 0, output
    # Children of rows that stayed are not replayed: their loss is a gap still, that of the others is none.
    assert {gap.subject.partition("table ")[2] for gap in reconciled(database).gaps} <= {"order__items"}
    code, output = command("backfill", "--since", "10m", "--replace", "--yes", subscription=retaining)
    assert code == 0, output
    assert reconciled(database).gaps == ()
    assert (database.count("order"), database.count("order__items")) == (200, 400)
    database.execute('delete from "order" where number = 7')
    assert command("reconcile")[0] == 1
    assert one.alive
