from __future__ import annotations

import json
import threading

import psycopg
import pytest
from pydantic import SecretStr

from loader.commands.parts import make_database
from loader.dead_letter.replay import Impatience
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts, build_puller, build_worker
from loader.worker.heartbeat import BEAT_SECONDS, FIRST_SECONDS, Heartbeat


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def lane(database_url):
    settings = Settings(dataset="events", database_url=SecretStr(database_url))
    parts = Parts(settings, make_database(settings), Impatience())
    lane = parts.lane("load", parts.intake())
    yield lane
    lane.close()


def workers(url):
    with psycopg.connect(url, autocommit=True) as conn:
        if conn.execute("select to_regclass('events._workers')").fetchone() == (None,):
            return []
        return conn.execute("select worker, messages_held, alert from events._workers order by 1").fetchall()


def test_a_worker_writes_its_row_at_most_every_beat_and_takes_it_away_at_its_end(lane, database_url):
    clock = Clock()
    heart = Heartbeat("events", "host/1", "projects/p/subscriptions/s", clock)
    assert not heart.beat(lane, lambda: 5, None)
    clock.now += FIRST_SECONDS
    assert heart.beat(lane, lambda: 5, None)
    assert not heart.beat(lane, lambda: 6, "stuck")
    assert workers(database_url) == [("host/1", 5, None)]
    clock.now += BEAT_SECONDS
    assert heart.beat(lane, lambda: 7, "stuck")
    assert workers(database_url) == [("host/1", 7, "stuck")]
    heart.leave(lane)
    assert workers(database_url) == []


def test_a_worker_that_cannot_write_its_row_goes_on(lane, database_url, caplog):
    clock = Clock()
    heart = Heartbeat("events", "host/1", "projects/p/subscriptions/s", clock)
    clock.now += FIRST_SECONDS
    heart.beat(lane, lambda: 0, None)
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("alter table events._workers add constraint none check (messages_held < 0) not valid")
    clock.now += BEAT_SECONDS
    assert not heart.beat(lane, lambda: 0, None)
    assert "cannot see this worker" in caplog.text
    heart.leave(lane)


@pytest.mark.parametrize(("window", "gathering"), [(0.2, False), (8.0, True)])
def test_a_running_worker_is_seen_also_while_it_gathers_and_a_stopped_one_is_not(
    window, gathering, pubsub, database_url, monkeypatch
):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.endpoint)
    settings = Settings(
        dataset="events", database_url=SecretStr(database_url), subscription=pubsub.subscription, window_seconds=window
    )
    pubsub.publish([json.dumps({"n": 1})])
    parts = Parts(settings, make_database(settings), Impatience())
    seen, stop, loaded = [], threading.Event(), threading.Event()

    class Observer:
        def bundle_closed(self, bundle):
            pass

        def bundle_loaded(self, bundle, found, committed_at):
            if found.load.live:
                loaded.set()

        def learned(self, snapshot, lesson):
            pass

        def tick(self, worker):
            if (loaded.is_set() or gathering) and (rows := workers(database_url)):
                seen.extend(rows)
                stop.set()

    build_worker(parts, build_puller(settings), Observer()).run(stop)
    assert [row[0] for row in seen] == [parts.name]
    if gathering:
        assert seen[0][1] == 1  # held, and in a bundle that is still open
    assert workers(database_url) == []
