from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import psycopg
import pytest

from loader.peek import peek
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

LINES = [
    {"type": "order", "n": 1, "items": [{"sku": "a"}]},
    {"type": "order", "n": 2, "note": "late"},
    {"type": "user", "name": "x"},
]


def text(*bodies):
    return "".join(body if isinstance(body, str) else json.dumps(body) + "\n" for body in bodies)


def plan(*arguments, stdin="", **environ):
    return subprocess.run(
        [sys.executable, "-m", "loader", "plan", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "LOADER_TABLE_KEY": "type", **environ},
        timeout=90,
    )


def columns(document, name):
    return {
        column["column"]: column["first"]
        for change in document["changes"]
        if change["name"] == name
        for column in change["columns"]
    }


def catalog(conn):
    return conn.execute(
        "select n.nspname, c.relname, array_agg(a.attname::text order by a.attnum) from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid"
        " where n.nspname = 'events' and a.attnum > 0 group by 1, 2 order by 1, 2"
    ).fetchall()


def test_the_ddl_of_a_plan_makes_exactly_the_tables_that_the_plan_wants(database_url):
    first = plan("-", "--internal", stdin=text(*LINES), LOADER_DATABASE_URL=database_url)
    assert first.returncode == 2, first.stderr
    with psycopg.connect(database_url, autocommit=True) as conn:
        assert catalog(conn) == []  # nothing was changed
        conn.execute(first.stdout)
        tables = {name for _, name, _ in catalog(conn)}
    assert {"order", "order__items", "user", "_dead_letters", "_dlt_loads", "_dlt_version"} <= tables


def test_the_tables_of_events_come_first_and_the_loaders_own_take_one_line():
    done = plan("-", "--from-empty", stdin=text(*LINES))
    made = re.findall(r"^CREATE (?:SCHEMA|TABLE) ([^\s;]+)", done.stdout, re.MULTILINE)
    assert made == ['"events"', '"events"."order"', '"events"."order__items"', '"events"."user"']
    (line,) = [line for line in done.stdout.splitlines() if "_dead_letters" in line]
    assert "--internal" in line
    whole = plan("-", "--from-empty", "--internal", stdin=text(*LINES))
    made = re.findall(r"^-- (?:create|internal) (\w+);", whole.stdout, re.MULTILINE)
    assert made[:3] == ["order", "order__items", "user"]
    assert {"_dead_letters", "_dlt_loads"} <= set(made[3:])
    assert "--internal" not in whole.stdout


def test_each_column_names_the_line_that_first_asks_for_it(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text(text(*LINES[:1], "\n", *LINES[1:]))

    done = plan(str(file), "--from-empty", "--json")

    document = json.loads(done.stdout)
    assert done.returncode == 2
    assert (document["messages"], document["skipped"]) == (3, 1)
    assert columns(document, "order")["n"] == "events.jsonl:1"
    assert columns(document, "order")["note"] == "events.jsonl:3"
    assert columns(document, "user")["name"] == "events.jsonl:4"
    assert columns(document, "order__items")["sku"] == "events.jsonl:1"


def test_a_bundle_later_still_counts_as_the_first_to_ask(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text(text(*LINES))

    small = plan(str(file), "--from-empty", "--json", LOADER_MAX_BUNDLE_MESSAGES="1")
    large = plan(str(file), "--from-empty", "--json")

    assert json.loads(small.stdout) == json.loads(large.stdout)


def test_a_known_table_is_altered_briefly_and_a_loaded_shape_changes_nothing(database_url):
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(plan("-", "--internal", stdin=text(*LINES[:1]), LOADER_DATABASE_URL=database_url).stdout)
        # The schema knows the columns once a worker has stored it: here they are the user's own, with a unique id.
    done = plan("-", "--json", stdin=text(LINES[1]), LOADER_DATABASE_URL=database_url)
    document = json.loads(done.stdout)
    (change,) = document["changes"]
    assert (change["kind"], change["name"]) == ("alter", "order")
    assert "ACCESS EXCLUSIVE" in change["lock"]
    assert change["statements"] == ['ALTER TABLE "events"."order"\nADD COLUMN "note" varchar']

    nothing = plan("-", stdin=text(LINES[0]), LOADER_DATABASE_URL=database_url)
    assert nothing.returncode == 0
    assert "nothing would change" in nothing.stdout


def test_what_would_be_a_dead_letter_or_discarded_is_listed_with_its_reason():
    done = plan("-", "--from-empty", "--json", stdin=text("[1]\n", "{nope\n", LINES[0]))
    document = json.loads(done.stdout)
    assert [(item["origin"], item["code"]) for item in document["dead_letters"]] == [
        ("stdin:1", "not an object"),
        ("stdin:2", document["dead_letters"][1]["code"]),
    ]
    frozen = plan("-", "--from-empty", "--json", stdin=text(LINES[0]), LOADER_SCHEMA_CONTRACT="tables=freeze")
    assert json.loads(frozen.stdout)["dead_letters"][0]["code"] == "frozen by contract"
    discarded = plan("-", "--from-empty", "--json", stdin=text(LINES[0]), LOADER_SCHEMA_CONTRACT="discard_row")
    assert json.loads(discarded.stdout)["discard_count"] == 1


def test_a_line_beyond_the_limit_is_refused_without_being_held():
    line = '{"a": "' + "x" * 5_000_000 + '"}\n'
    done = plan("-", "--from-empty", "--json", stdin=line + text(LINES[0]), LOADER_MAX_MESSAGE_BYTES="1000")
    document = json.loads(done.stdout)
    assert (document["messages"], document["dead_letter_count"]) == (2, 1)
    assert document["dead_letters"][0]["code"] == "body too large"


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        (["-"], {"LOADER_DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:1/x"}, "--from-empty"),
        (["no-such-file"], {}, "no-such-file"),
    ],
)
def test_a_fault_is_one_line_and_exit_1(arguments, environ, words):
    extra = [] if environ else ["--from-empty"]
    done = plan(*arguments, *extra, stdin=text(LINES[0]), **environ)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert "hunter2" not in done.stderr


def test_peeking_uses_a_temporary_subscription_and_takes_nothing_from_the_live_one(pubsub):
    topic = pb.Topic(name=pubsub.topic)
    topic.message_retention_duration.seconds = 3600
    pubsub.stub.update_topic(pb.UpdateTopicRequest(topic=topic, update_mask={"paths": ["message_retention_duration"]}))
    pubsub.publish([json.dumps(line) for line in LINES])

    done = plan("--peek", "3", "--from-empty", "--json", LOADER_SUBSCRIPTION=pubsub.subscription, **pubsub.environment)

    assert done.returncode == 2, done.stderr
    document = json.loads(done.stdout)
    assert document["messages"] == 3
    assert columns(document, "order")["n"].startswith("message ")
    assert subscriptions(pubsub) == [pubsub.subscription]
    assert pubsub.counts()["delivered"] == 0


def test_without_the_right_to_subscribe_messages_are_seen_and_given_back(pubsub, monkeypatch):
    pubsub.publish([json.dumps(line) for line in LINES])
    remarks = []

    def refuse(stub, live):
        from loader.peek import _NotPermitted

        raise _NotPermitted("a temporary subscription may not be made")

    monkeypatch.setattr("loader.peek._temporary", refuse)
    with open_channel(pubsub.endpoint) as channel:
        seen = peek(Stub(channel), pubsub.subscription, 3, 10.0, remarks.append)

    assert sorted(message.data for message in seen) == sorted(json.dumps(line).encode() for line in LINES)
    assert "delivery attempt" in remarks[0]
    again = pubsub.pull()
    assert len(again) == 3


def test_an_interrupted_peek_deletes_its_subscription(pubsub):
    process = subprocess.Popen(
        [sys.executable, "-m", "loader", "plan", "--peek", "5", "--from-empty", "--seconds", "60"],
        env={**os.environ, "LOADER_SUBSCRIPTION": pubsub.subscription, **pubsub.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while len(subscriptions(pubsub)) < 2:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == 130
    assert subscriptions(pubsub) == [pubsub.subscription]


def subscriptions(pubsub):
    request = pb.ListSubscriptionsRequest(project=f"projects/{pubsub.project}")
    return [found.name for found in pubsub.stub.list_subscriptions(request).subscriptions]
