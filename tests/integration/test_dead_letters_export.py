from __future__ import annotations

import json
import threading

import grpc
import psycopg
import pytest
from psycopg import sql

from loader.database.connection import Database
from loader.database.conninfo import parse_conninfo
from loader.dead_letter.export import Exporter, ExportThread
from loader.learn.learner import Learner
from loader.plan.book import PlanRules
from loader.pull import protocol as pb
from loader.settings.contract import SchemaContract


@pytest.fixture
def database(database_url):
    return Database(parse_conninfo(database_url, {}))


@pytest.fixture
def conn(database):
    with database.connect("test", autocommit=True) as connection:
        Learner("events", PlanRules(), SchemaContract(), "test").prepare(connection)
        yield connection


def write(conn, letter_id, body="{}", encoding="text", attributes=None, reason="not JSON"):
    conn.execute(
        "insert into events._dead_letters (letter_id, _event_id, _event_digest, reason, detail, message_id,"
        " published_at, attempt, ordering_key, attributes, body_encoding, body, is_record, load_id, worker)"
        " values (%s, %s, 1, %s, 'why', 'm1', '2030-01-01T00:00:00Z', 1, '', %s, %s, %s, false, '1.0', 'w')",
        (letter_id, f"e-{letter_id}", reason, json.dumps(attributes or {}), encoding, body),
    )


def unexported(conn):
    return [
        row[0]
        for row in conn.execute("select letter_id from events._dead_letters where exported_at is null order by 1")
    ]


def drain(pubsub):
    found = []
    while taken := pubsub.pull(wait=False):
        pubsub.ack(taken)
        found += [received.message for received in taken]
    return found


def test_a_letter_is_published_once_with_its_body_and_what_is_known_about_it(conn, pubsub):
    write(conn, "one", body="/wA=", encoding="base64", attributes={"source": "shop", "content-encoding": "gzip"})
    exporter = Exporter("events", pubsub.topic, pubsub.stub)

    assert exporter.export(conn) == 1
    assert exporter.export(conn) == 0

    (message,) = drain(pubsub)
    assert message.data == b"\xff\x00"
    assert dict(message.attributes) == {
        "letter_id": "one",
        "event_id": "e-one",
        "reason": "not JSON",
        "detail": "why",
        "message_id": "m1",
        "event_digest": "1",
        "published_at": "2030-01-01T00:00:00+00:00",
        "is_record": "false",
        "original.source": "shop",
        "original.content-encoding": "gzip",
    }
    assert unexported(conn) == []


def test_what_a_dead_worker_claimed_is_published_by_the_next_one(conn, pubsub):
    write(conn, "one")
    exporter = Exporter("events", pubsub.topic, pubsub.stub)
    conn.execute("update events._dead_letters set export_claimed_until = now() + interval '60 s'")
    assert exporter.export(conn) == 0  # another worker is at it

    conn.execute("update events._dead_letters set export_claimed_until = now() - interval '1 s'")
    assert exporter.export(conn) == 1
    assert len(drain(pubsub)) == 1


def test_an_outage_of_the_topic_leaves_letters_free_for_the_next_try(conn, pubsub):
    write(conn, "one")
    exporter = Exporter("events", pubsub.topic, pubsub.stub)
    pubsub.faults.refuse("Publish", 1, "UNAVAILABLE")

    with pytest.raises(grpc.RpcError):
        exporter.export(conn)

    assert unexported(conn) == ["one"]
    assert exporter.export(conn) == 1
    assert unexported(conn) == []


def test_no_row_is_locked_while_pubsub_is_waited_for(conn, database, pubsub):
    write(conn, "one")
    publishing, go_on = threading.Event(), threading.Event()

    class Slow:
        def publish(self, request):
            publishing.set()
            assert go_on.wait(30)
            pubsub.stub.publish(request)

    with database.connect("export", autocommit=True) as other:
        thread = threading.Thread(target=Exporter("events", pubsub.topic, Slow()).export, args=(other,))
        thread.start()
        assert publishing.wait(30)
        conn.execute("set lock_timeout = '2s'")
        conn.execute("update events._dead_letters set resolved_at = now()")  # a load that resolves the letter
        go_on.set()
        thread.join(30)
    assert unexported(conn) == []


def test_two_workers_share_the_letters_between_them(conn, database, pubsub, monkeypatch):
    monkeypatch.setattr("loader.dead_letter.export._CLAIM_LETTERS", 3)
    for number in range(40):
        write(conn, f"l{number:02}")
    counts = []

    def work():
        with database.connect("export", autocommit=True) as other:
            counts.append(Exporter("events", pubsub.topic, pubsub.stub).export(other))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sum(counts) == 40
    assert sorted(message.attributes["letter_id"] for message in drain(pubsub)) == [f"l{n:02}" for n in range(40)]


def test_resolved_letters_are_not_told(conn, pubsub):
    write(conn, "one")
    conn.execute("update events._dead_letters set resolved_at = now()")
    assert Exporter("events", pubsub.topic, pubsub.stub).export(conn) == 0


def test_a_body_larger_than_a_message_is_named_and_left_out(conn, pubsub):
    write(conn, "large", body="x" * 9_500_000)
    write(conn, "small", body="y")

    assert Exporter("events", pubsub.topic, pubsub.stub).export(conn) == 2

    by_id = {message.attributes["letter_id"]: message for message in drain(pubsub)}
    assert by_id["small"].data == b"y"
    assert by_id["large"].data == b""
    assert "9500000 bytes" in by_id["large"].attributes["body_omitted"]


def test_attributes_that_no_message_takes_are_counted_and_left_out(conn, pubsub):
    long = {"k" * 250: "v", "long": "v" * 1025, **{f"a{number}": "v" for number in range(98)}}
    write(conn, "one", attributes=long)

    assert Exporter("events", pubsub.topic, pubsub.stub).export(conn) == 1

    (message,) = drain(pubsub)
    kept = [name for name in message.attributes if name.startswith("original.")]
    assert len(message.attributes) <= 100
    assert int(message.attributes["attributes_omitted"]) == 100 - len(kept)


def test_the_thread_catches_up_at_its_start_and_when_it_is_told(conn, database, pubsub):
    write(conn, "before")
    thread = ExportThread(database, Exporter("events", pubsub.topic, pubsub.stub), poll_seconds=3600)
    thread.start()
    first = pubsub.pull(1)
    write(conn, "after")
    thread.notify()
    second = pubsub.pull(1)
    thread.stop(30)

    assert [received.message.attributes["letter_id"] for received in (*first, *second)] == ["before", "after"]
    assert thread.alert is None


def test_the_thread_says_what_is_wrong_and_goes_on(conn, database, pubsub):
    write(conn, "one")
    missing = f"projects/{pubsub.project}/topics/missing"
    thread = ExportThread(database, Exporter("events", missing, pubsub.stub), poll_seconds=0.05)
    thread.start()
    while thread.alert is None:
        assert thread._thread.is_alive()
        thread._thread.join(0.01)
    assert "NOT_FOUND" in thread.alert
    pubsub.stub.create_topic(pb.Topic(name=missing))
    while unexported(conn):
        assert thread._thread.is_alive()
        thread._thread.join(0.01)
    thread.stop(30)
    assert thread.exported == 1


def test_the_dataset_is_quoted(database_url, pubsub):
    with psycopg.connect(database_url, autocommit=True) as other:
        name = 'odd"; drop schema public; --'
        Learner(name, PlanRules(), SchemaContract(), "test").prepare(other)
        assert Exporter(name, pubsub.topic, pubsub.stub).export(other) == 0
        assert other.execute(
            sql.SQL("select count(*) from {}").format(sql.Identifier(name, "_dead_letters"))
        ).fetchone() == (0,)
