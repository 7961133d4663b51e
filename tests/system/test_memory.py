"""Small inputs that would take much memory: the worker lives below 512 MB and goes on to load their neighbours."""

from __future__ import annotations

import gzip
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LIMIT = 512_000_000


def _bomb():
    return gzip.compress(b'{"kind":"bomb","text":"' + b" " * 500_000_000 + b'"}', 1)


def _publish_hostile(topic, name):
    if name == "gzip-bomb":
        topic.publish([_bomb()] * 5, {"content-encoding": "gzip"})
    elif name == "huge-array":
        topic.publish([b"[" + b"{}," * 3_000_000 + b"{}]"])
        topic.publish([b'{"kind":"wide","list":[' + b"0," * 4_000_000 + b"0]}"])
    elif name == "million-keys":
        topic.publish([b"{" + b",".join(b'"k%d":1' % n for n in range(700_000)) + b"}"])
    elif name == "deep-nesting":
        topic.publish([b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000])
    else:
        for number in range(20):
            text = b"x" * 9_900_000
            topic.publish([b'{"kind":"large","number":%d,"text":"%s"}' % (number, text)])


@pytest.mark.parametrize("name", ["gzip-bomb", "huge-array", "million-keys", "deep-nesting", "large-messages"])
def test_a_hostile_message_leaves_the_worker_below_its_limit(name, worker, database, topic, orders, assert_loaded):
    bodies = orders(200)
    one = worker()
    topic.publish(bodies[:100])
    _publish_hostile(topic, name)
    topic.publish(bodies[100:])
    topic.until_settled(90)
    assert one.alive
    letters = {"gzip-bomb": 5, "huge-array": 2, "million-keys": 1, "deep-nesting": 1}.get(name, 0)
    assert_loaded(database, bodies, letters=letters)
    if name == "large-messages":
        assert database.one("select count(distinct number) from large where length(text) = 9900000") == 20
    assert one.memory() < LIMIT


def test_a_table_name_for_each_message_ends_at_the_budget_and_loses_none(worker, database, topic, orders):
    topic.publish([{"kind": f"name_{number}", "number": number} for number in range(20_000)])
    one = worker(max_tables=60)
    topic.until_settled(100)
    assert one.alive
    tables = database.rows("select table_name from information_schema.tables where table_schema = 'events'")
    tables = [name for (name,) in tables if not name.startswith("_")]
    # The default table takes the rest, and comes on top.
    assert 50 <= len(tables) <= 61
    numbers = [row[0] for table in tables for row in database.rows(f'select number from "{table}"')]
    assert sorted(numbers) == list(range(20_000))
    assert database.letters() == 0
    assert one.memory() < LIMIT


def test_random_keys_in_each_message_end_at_the_budget_and_lose_none(worker, database, topic):
    topic.publish(
        [{"kind": "wild", "number": number, **{f"key_{number}_{i}": i for i in range(20)}} for number in range(4_000)]
    )
    one = worker()
    topic.until_settled(100)
    assert one.alive
    assert database.one("select count(distinct number) from wild") == database.count("wild") == 4_000
    columns = database.one(
        "select count(*) from information_schema.columns where table_schema = 'events' and table_name = 'wild'"
    )
    # The column that takes the rest comes on top.
    assert columns <= 401
    assert database.letters() == 0
    assert one.memory() < LIMIT


def test_a_backlog_of_1_kb_messages_stays_below_the_limit_of_a_process(worker, database, topic):
    bodies = [{"kind": "plain", "number": n, "text": "x" * 900, "amount": n / 8} for n in range(60_000)]
    topic.publish(bodies)
    one = worker(window_seconds=5)
    database.until_count("plain", 60_000)
    topic.until_settled()
    assert one.memory() < 400_000_000
