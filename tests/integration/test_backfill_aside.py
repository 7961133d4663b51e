"""Replays aside, snapshots and refusals, by the command as an operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psycopg
import pytest

from loader.pull import protocol as pb


class Operator:
    """Runs `loader …` against the test's project and database."""

    def __init__(self, pubsub, url):
        self.pubsub = pubsub
        self.conn = psycopg.connect(url, autocommit=True)
        self.environment = {
            **os.environ,
            **pubsub.environment,
            "LOADER_SUBSCRIPTION": pubsub.subscription,
            "LOADER_DATABASE_URL": url,
            "LOADER_TABLE_KEY": "type",
            "LOADER_WINDOW_SECONDS": "0.3",
        }

    def start(self, *arguments, **settings):
        return subprocess.Popen(
            [sys.executable, "-m", "loader", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **settings},
        )

    def run(self, *arguments, **settings):
        process = self.start(*arguments, **settings)
        out, err = process.communicate(timeout=90)
        return process.returncode, out, err

    def receipt(self, *arguments):
        code, out, err = self.run("backfill", *arguments, "--yes", "--json")
        assert code == 0, err
        return json.loads(out)["receipt"]

    def retain(self, seconds=86_400):
        """The topic retains messages, as a replay aside needs it."""
        topic = pb.Topic(name=self.pubsub.topic)
        topic.message_retention_duration.seconds = seconds
        request = pb.UpdateTopicRequest(topic=topic)
        request.update_mask.paths.append("message_retention_duration")
        self.pubsub.stub.update_topic(request)

    def publish(self, count, start=0):
        self.pubsub.publish([json.dumps({"type": "order", "n": n, "tags": ["a"]}) for n in range(start, start + count)])

    def rows(self, query):
        return self.conn.execute(query).fetchall()

    def subscriptions(self):
        request = pb.ListSubscriptionsRequest(project=f"projects/{self.pubsub.project}")
        return [found.name for found in self.pubsub.stub.list_subscriptions(request).subscriptions]


@pytest.fixture
def operator(pubsub, database_url):
    found = Operator(pubsub, database_url)
    yield found
    found.conn.close()


def test_a_replay_aside_into_a_fresh_dataset_leaves_the_live_subscription_alone(operator):
    operator.retain()
    operator.publish(200)

    receipt = operator.receipt("--since", "5m", "--into", "replayed")

    assert (receipt["outcome"], receipt["messages"], receipt["rows_new"]) == ("done", 200, 400)
    assert operator.rows('select count(*), count(distinct n) from replayed."order"') == [(200, 200)]
    assert operator.pubsub.counts()["backlog"] == 200
    assert operator.subscriptions() == [operator.pubsub.subscription]
    code, _, err = operator.run("backfill", "--since", "5m", "--into", "replayed", "--yes")
    assert code == 1
    assert "wants a fresh dataset" in err


def test_a_replay_aside_that_was_killed_goes_on_with_its_own_subscription(operator):
    operator.retain()
    operator.publish(300)
    first = operator.start("backfill", "--since", "5m", "--aside", "--yes")
    deadline = time.monotonic() + 60
    while not _sought(operator):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    first.kill()
    first.communicate()
    assert len(operator.subscriptions()) == 2
    operator.pubsub.faults.expire_leases()
    operator.publish(50, start=300)  # new: the live subscription's

    receipt = operator.receipt("--since", "5m", "--aside")

    assert receipt["outcome"] == "done"
    assert operator.rows('select count(*), count(distinct n), max(n) from events."order"') == [(300, 300, 299)]
    assert operator.subscriptions() == [operator.pubsub.subscription]
    assert operator.rows("select count(*) from events._backfills") == [(1,)]


def _sought(operator):
    try:
        return operator.rows("select count(*) from events._backfills where sought_at is not null") == [(1,)]
    except psycopg.errors.UndefinedTable:
        return False


def test_what_would_replay_nothing_or_less_is_refused_with_the_setting_to_change(operator):
    def refusal(*arguments):
        code, out, err = operator.run("backfill", *arguments, "--yes")
        assert code == 1, out + err
        return err

    assert "retain_acked_messages = true" in refusal("--since", "5m")
    assert "retains no messages" in refusal("--since", "5m", "--aside")
    operator.retain(600)
    assert "less than was asked for" in refusal("--since", "2h")
    assert "not in the past" in refusal("--since", "2999-01-01")
    assert "no table nonsense" in refusal("--since", "5m", "--table", "nonsense")
    assert "no snapshot" in refusal("--snapshot", "nonsense")
    assert operator.rows("select to_regclass('events._backfills')") == [(None,)]


def test_a_dry_run_says_everything_and_changes_nothing(operator):
    operator.retain()
    code, _, err = operator.run("backfill", "--since", "5m", "--replace", "--dry-run")

    assert code == 0
    for said in ("replay from", "the topic retains messages for 1 day", "estimate", "rewritten", "no priority"):
        assert said in err
    assert operator.rows("select to_regclass('events._backfills')") == [(None,)]


def test_a_backfill_from_before_a_takeover_is_refused_unless_duplicates_are_allowed(operator):
    operator.retain()
    operator.publish(1)
    assert operator.receipt("--since", "5m", "--aside")["events_new"] == 1
    operator.conn.execute(
        "insert into events._schema_log (table_name, column_name, data_type, is_variant, new_table, first_event_id,"
        " worker, schema_version) values ('order', '_event_id', 'text', false, false, '', 'w', 1)"
    )

    code, _, err = operator.run("backfill", "--since", "5m", "--aside", "--yes")
    assert code == 1
    assert "--allow-duplicates" in err
    assert operator.receipt("--since", "5m", "--aside", "--allow-duplicates")["events_there"] == 1


def test_snapshots_are_made_listed_and_deleted(operator):
    code, _, err = operator.run("snapshot", "create", "before")
    assert code == 0, err
    listed = json.loads(operator.run("snapshot", "list", "--json")[1])["snapshots"]
    assert [found["name"].rpartition("/")[2] for found in listed] == ["before"]
    assert operator.run("snapshot", "create", "before")[0] == 1
    assert operator.run("snapshot", "delete", "before")[0] == 0
    assert json.loads(operator.run("snapshot", "list", "--json")[1])["snapshots"] == []
    assert operator.run("snapshot", "delete", "before")[0] == 1


def test_a_snapshot_of_unknown_origin_never_moves_the_live_subscription(operator):
    name = f"projects/{operator.pubsub.project}/snapshots/foreign"
    other = operator.pubsub.subscribe("other")
    operator.pubsub.stub.create_snapshot(pb.CreateSnapshotRequest(name=name, subscription=other))
    operator.publish(30)

    code, _, err = operator.run("backfill", "--snapshot", "foreign", "--yes")
    assert code == 1
    assert "--aside" in err
    assert operator.pubsub.counts()["backlog"] == 30

    # A snapshot retains by itself: the topic need not.
    assert operator.receipt("--snapshot", "foreign", "--aside")["events_new"] == 30
