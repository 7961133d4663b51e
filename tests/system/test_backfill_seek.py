"""Backfills by a seek with running workers: every event exactly once afterwards, whatever was lost before."""

from __future__ import annotations

import datetime
import json
from signal import SIGTERM

import pytest
from system_harness import Worker, settings_of

pytestmark = pytest.mark.slow


@pytest.fixture
def retaining(topic):
    """Retains acked messages, as the Terraform module has it."""
    return topic.subscribe("retaining", retain_acked_messages=True)


@pytest.fixture
def fleet(worker, retaining):
    def start(count=3, **settings):
        started = [worker(subscription=retaining, **settings) for _ in range(count)]
        return [one.until_started() for one in started]

    return start


@pytest.fixture
def backfill(command, retaining):
    def run(*arguments, **settings):
        return command("backfill", *arguments, subscription=retaining, **settings)

    return run


def receipt(output):
    document = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return document["receipt"]


def test_a_seek_to_a_time_brings_back_dropped_tables_and_deleted_rows_and_doubles_nothing(
    fleet, topic, database, orders, assert_loaded, backfill, retaining
):
    bodies = orders(900) + orders(300, kind="invoice")
    fleet()
    topic.publish(bodies)
    database.until_count("order", 900)
    database.until_count("invoice", 300)
    topic.until_settled(subscription=retaining)
    database.execute(
        "drop table invoice, invoice__items",
        'delete from "order" where number % 3 = 0',
    )
    more = orders(100, start=5_000)
    topic.publish(more)

    code, output = backfill("--since", "10m", "--yes", "--json")

    assert code == 0, output
    assert receipt(output)["messages"] >= 1_200
    assert receipt(output)["outcome"] == "done"
    topic.until_settled(subscription=retaining)
    assert_loaded(database, bodies + more)
    assert database.one("select count(*) from _backfills where ended_at is null") == 0
    assert topic.stub.list_snapshots(pb_list(topic)).snapshots == []


def test_a_backfill_from_a_snapshot_that_is_killed_half_way_and_run_again_comes_to_the_same_end(
    fleet, topic, database, orders, assert_loaded, backfill, command, retaining
):
    code, output = command("snapshot", "create", "before", subscription=retaining)
    assert code == 0, output
    bodies = orders(1_000)
    fleet()
    topic.publish(bodies)
    database.until_count("order", 1_000)
    topic.until_settled(subscription=retaining)
    database.execute('delete from "order" where number < 600')
    arguments = ("backfill", "--snapshot", "before", "--yes", "--json")
    first = Worker(settings_of(topic, database.url, subscription=retaining), arguments)
    database.until("select count(*) from _backfills where sought_at is not null", 1)
    first.kill()
    first.process.stdout.close()
    assert database.one("select count(*) from _backfills where ended_at is null") == 1

    refused, said = backfill("--since", "1m", "--yes")
    assert refused == 1
    assert "is on" in said
    code, output = backfill("--snapshot", "before", "--yes", "--json")

    assert code == 0, output
    assert receipt(output)["events_new"] == 600
    assert receipt(output)["events_there"] == 400
    assert database.rows("select outcome, count(*) from _backfills group by 1") == [("done", 1)]
    assert_loaded(database, bodies)


def test_a_replace_after_a_mapping_change_moves_every_row_and_doubles_none(
    fleet, topic, database, orders, backfill, retaining
):
    bodies = orders(600)
    before = fleet(1)
    topic.publish(bodies)
    database.until_count("order", 600)
    topic.until_settled(subscription=retaining)
    for one in before:
        assert one.stop(SIGTERM)[0] == 0
    fleet(table_prefix="new_", max_nesting=0)

    code, output = backfill("--since", "10m", "--replace", "--yes", "--json", table_prefix="new_", max_nesting=0)

    assert code == 0, output
    assert receipt(output)["events_rewritten"] == 600
    assert database.count("order") == 0
    assert database.count("order__items") == 0
    rows = database.rows("select number, text, amount, items from new_order order by number")
    assert rows == [(body["number"], body["text"], body["amount"], body["items"]) for body in bodies]


def test_an_order_for_one_table_and_a_time_leaves_the_rest_and_loses_nothing_new(
    fleet, topic, database, orders, backfill, retaining
):
    fleet(1)
    topic.publish(orders(100) + orders(100, kind="invoice"))
    database.until_count("order", 100)
    database.until_count("invoice", 100)
    topic.until_settled(subscription=retaining)
    until = datetime.datetime.now(datetime.UTC).isoformat()
    topic.publish(orders(50, start=100))
    database.until_count("order", 150)
    topic.until_settled(subscription=retaining)
    # An oldest unacked message younger than this second may not be left out.
    database.until(f"select now() > '{until}'::timestamptz + interval '2 seconds'")
    database.execute('delete from "order"', "delete from invoice")

    code, output = backfill("--since", "10m", "--until", until, "--table", "order", "--yes", "--json")

    assert code == 0, output
    assert receipt(output)["events_skipped"] == 150
    assert (database.count("order"), database.count("invoice")) == (100, 0)
    topic.publish(orders(20, start=900, kind="invoice"))
    database.until_count("invoice", 20)


def test_what_was_never_acked_is_loaded_even_if_it_is_older_than_the_seek(
    fleet, topic, database, orders, assert_loaded, retaining
):
    bodies = orders(50)
    topic.publish(bodies[:20])
    database.until(f"select now() > '{datetime.datetime.now(datetime.UTC).isoformat()}'::timestamptz + interval '3 s'")
    since = datetime.datetime.now(datetime.UTC).isoformat()
    topic.publish(bodies[20:])
    environment = settings_of(topic, database.url, subscription=retaining)
    process = Worker(environment, ("backfill", "--since", since, "--table", "order", "--yes", "--json"))
    assert process.wait() == 1  # no such table yet
    process.process.stdout.close()
    process = Worker(environment, ("backfill", "--since", since, "--yes", "--json"))
    database.until("select count(*) from _backfills where sought_at is not null", 1)
    fleet(1)

    assert process.wait() == 0, process.output
    process.process.stdout.close()
    topic.until_settled(subscription=retaining)
    assert_loaded(database, bodies)


def pb_list(topic):
    from loader.pull import protocol as pb

    return pb.ListSnapshotsRequest(project=f"projects/{topic.project}")
