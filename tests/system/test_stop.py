"""SIGTERM and SIGINT: exit 0 in time, what is bundled is loaded, and what is not loaded is free for others at once."""

from __future__ import annotations

import os
import signal

import pytest

BUDGET = 4
MARGIN = 4
"""For the interpreter's own end on a machine that does other things as well."""


def _stops_in_time(worker, number=signal.SIGTERM, budget=BUDGET):
    code, seconds = worker.stop(number)
    assert code == 0, worker.output
    assert seconds < budget + MARGIN, worker.output


def test_an_idle_worker_stops_at_once(worker, topic):
    idle = worker(shutdown_seconds=20)
    topic.until_streams(1)
    _stops_in_time(idle, budget=2)
    assert "stopped: " in idle.output


def test_a_bundle_that_is_being_gathered_is_loaded_before_the_exit(worker, database, topic, orders, assert_loaded):
    bodies = orders(300)
    one = worker(window_seconds=50)
    topic.publish(bodies)
    topic.until_leased(300)
    _stops_in_time(one, budget=20)
    assert_loaded(database, bodies)
    assert topic.counts()["backlog"] == topic.counts()["leased"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_a_stopped_worker_did_not_load_goes_to_the_next_at_once(
    number, worker, database, topic, orders, assert_loaded
):
    bodies = orders(30_000)
    topic.publish(bodies)
    one = worker(max_bundle_messages=2_000)
    database.until_count("order", 2_000)
    _stops_in_time(one, number)
    # No lease is left behind that somebody would have to wait for.
    assert topic.counts()["leased"] == 0
    loaded = database.count("order")
    assert topic.counts()["backlog"] == 30_000 - loaded > 0
    successor = worker()
    database.until_count("order", 30_000)
    topic.until_settled()
    assert_loaded(database, bodies)
    assert "loaded" in successor.output


def test_a_second_and_a_third_signal_change_nothing(worker, database, topic, orders):
    topic.publish(orders(20_000))
    one = worker(max_bundle_messages=1_000)
    database.until_count("order", 1_000)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        one.signal(number)
    while one.alive:
        one.signal(signal.SIGTERM)
        one.nap()
    assert one.wait() == 0, one.output
    assert topic.counts()["leased"] == 0


def test_a_worker_that_waits_for_a_table_lock_gives_back_and_stops(worker, database, topic, orders, assert_loaded):
    first, late = orders(50), orders(100, start=50, late_column=1)
    one = worker(shutdown_seconds=BUDGET)
    topic.publish(first)
    topic.until_count_settled(database, "order", 50)
    with database.connect() as connection, connection.transaction():
        connection.execute('lock table events."order" in access share mode')
        topic.publish(late)
        database.until_waiting("loader learn")
        _stops_in_time(one)
        assert topic.counts() | {"leased": 0, "backlog": 100} == topic.counts()
    worker()
    database.until_count("order", 150)
    topic.until_settled()
    assert_loaded(database, first + late)


def test_a_worker_whose_load_waits_for_a_lock_gives_back_and_stops(worker, database, topic, orders, assert_loaded):
    first, more = orders(50), orders(100, start=50)
    one = worker(shutdown_seconds=BUDGET)
    topic.publish(first)
    topic.until_count_settled(database, "order", 50)
    with database.connect() as connection, connection.transaction():
        connection.execute('lock table events."order" in access exclusive mode')
        topic.publish(more)
        database.until_waiting("loader load")
        _stops_in_time(one)
        assert topic.counts() | {"leased": 0, "backlog": 100} == topic.counts()
    worker()
    database.until_count("order", 150)
    topic.until_settled()
    assert_loaded(database, first + more)


def test_a_worker_stops_in_time_while_the_database_is_away(worker, database, topic, orders, postgres, assert_loaded):
    bodies = orders(200)
    one = worker(shutdown_seconds=BUDGET).until_started()
    postgres.stop()
    try:
        topic.publish(bodies)
        topic.until_leased(200)
        one.until_said("The database does not do its work")
        _stops_in_time(one)
        assert topic.counts() | {"leased": 0, "backlog": 200} == topic.counts()
    finally:
        postgres.start()
    worker()
    database.until_count("order", 200)
    topic.until_settled()
    assert_loaded(database, bodies)


def test_a_worker_stops_in_time_while_the_database_hangs(worker, database, topic, orders, assert_loaded):
    """A partition or a frozen machine: the connection stands and nothing answers, not even a cancel request."""
    first, more = orders(50), orders(100, start=50)
    one = worker(shutdown_seconds=BUDGET)
    topic.publish(first)
    topic.until_count_settled(database, "order", 50)
    backends = [
        pid
        for (pid,) in database.rows(
            "select pid from pg_stat_activity where application_name like 'loader%' and datname = current_database()"
        )
    ]
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        topic.publish(more)
        topic.until_leased(100)
        _stops_in_time(one)
        assert topic.counts() | {"leased": 0, "backlog": 100} == topic.counts()
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    worker()
    database.until_count("order", 150)
    topic.until_settled()
    assert_loaded(database, first + more)


def test_a_worker_stops_in_time_while_pubsub_is_away(start_topic, worker, orders):
    topic = start_topic()
    one = worker(topic=topic, shutdown_seconds=BUDGET, window_seconds=50)
    topic.publish(orders(100))
    topic.until_leased(100)
    topic.server.kill()
    _stops_in_time(one)
