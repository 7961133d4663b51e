"""Outages of the database under load: nothing lost, nothing doubled, no dead letters, and the worker says how it is."""

from __future__ import annotations

import itertools
import threading

import pytest

from loader.local.ports import free_port


@pytest.fixture
def publishing(topic, orders):
    """Publishes 200 orders each 0.1 s until the test ends it; `bodies` is what was published."""

    class Publishing:
        def __init__(self):
            self.bodies = []
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run)
            self._thread.start()

        def _run(self):
            for start in itertools.count(0, 200):
                bodies = orders(200, start=start)
                topic.publish(bodies)
                self.bodies += bodies
                if self._stop.wait(0.1):
                    return

        def end(self):
            self._stop.set()
            self._thread.join()
            return self.bodies

    running = Publishing()
    yield running
    running.end()


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_database_that_goes_and_comes_back_loses_and_doubles_nothing(
    end, worker, database, topic, postgres, publishing, assert_loaded, http, until
):
    port = free_port()
    one = worker(http_port=port)
    database.until_count("order", 400)
    assert http(port, "/readyz")[0] == 200
    for _ in range(2):
        (postgres.stop if end == "restart" else postgres.kill)()
        try:
            one.until_said("The database does not do its work")
            until(lambda: http(port, "/readyz")[0] == 503, "not ready while the database is away")
            assert http(port, "/healthz")[0] == 200
        finally:
            postgres.start()
        database.until_count("order", len(publishing.bodies))
        until(lambda: http(port, "/readyz")[0] == 200, "ready again")
    bodies = publishing.end()
    database.until_count("order", len(bodies))
    topic.until_settled()
    assert one.alive
    assert_loaded(database, bodies)


def test_connections_that_are_cut_again_and_again_lose_and_double_nothing(
    worker, database, topic, publishing, assert_loaded
):
    one = worker(max_bundle_messages=400)
    for round_ in range(8):
        database.until_count("order", 300 * (round_ + 1))
        database.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name like 'loader%' and datname = current_database()"
        )
    bodies = publishing.end()
    database.until_count("order", len(bodies))
    topic.until_settled()
    assert one.alive
    assert_loaded(database, bodies)


def test_a_worker_that_starts_before_its_database_loads_once_that_is_there(
    worker, database, topic, orders, postgres, assert_loaded
):
    bodies = orders(100)
    topic.publish(bodies)
    postgres.stop()
    try:
        one = worker()
        one.until_said("The database does not do its work")
    finally:
        postgres.start()
    database.until_count("order", 100)
    topic.until_settled()
    assert_loaded(database, bodies)


def test_statement_timeouts_halve_a_bundle_and_settle_everything_in_it(
    worker, database, topic, orders, assert_loaded, until
):
    first, more = orders(20), orders(200, start=20)
    one = worker()
    topic.publish(first)
    topic.until_count_settled(database, "order", 20)
    assert one.stop()[0] == 0
    database.execute(
        "create function public.slow() returns trigger language plpgsql as"
        " $$ begin perform pg_sleep(0.004); return new; end $$",
        'create trigger slow before insert on "order" for each row execute function public.slow()',
        f"alter database {database.name} set statement_timeout = '300ms'",
    )
    # Messages that nobody understands stand among them, in both halves.
    mixed = [body for pair in zip(more, [f"not json {n}".encode() for n in range(200)], strict=True) for body in pair]
    topic.publish(mixed)
    worker()
    database.until_count("order", 220)
    topic.until_settled()
    assert_loaded(database, first + more, letters=200)
