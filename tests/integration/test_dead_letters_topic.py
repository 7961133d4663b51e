from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from status_harness import Dataset, message

from loader.dead_letter.export import Exporter


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def refuse(dataset, *messages):
    """Load with a constraint in force, so that negative numbers become letters; then take it away."""
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.conn.execute('alter table events."order" add constraint positive check (n > 0)')
    dataset.load(*messages)
    dataset.conn.execute('alter table events."order" drop constraint positive')


def export(dataset, pubsub):
    return Exporter("events", pubsub.topic, pubsub.stub).export(dataset.conn)


def replay(dataset, pubsub, *arguments, code=0):
    done = dataset.loader(
        *("dead-letters", "replay", "--from-subscription", pubsub.subscription, "--json", *arguments),
        PUBSUB_EMULATOR_HOST=pubsub.endpoint,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def waiting(pubsub):
    return pubsub.counts()["backlog"]


def test_exported_letters_are_replayed_from_the_table_and_leave_the_topic(dataset, pubsub):
    refuse(dataset, message(2, {"type": "order", "n": -2}), message(3, {"type": "order", "n": -3}))
    assert export(dataset, pubsub) == 2
    assert replay(dataset, pubsub, "--dry-run")["counts"]["loaded"] == 2
    assert waiting(pubsub) == 2
    assert replay(dataset, pubsub)["counts"] == {"loaded": 2, "discarded": 0, "refused": 0}
    assert dataset.rows('select _event_id, n from events."order" order by 1') == [("m1", 1), ("m2", -2), ("m3", -3)]
    assert dataset.rows("select count(*) from events._dead_letters where resolved_at is null") == [(0,)]
    assert waiting(pubsub) == 0


def test_a_letter_that_was_purged_is_put_together_from_the_topic_under_its_identity(dataset, pubsub):
    body = [{"type": "order", "n": -1, "big": 2**70}, {"type": "order", "n": 5}]
    refuse(dataset, message(2, body), message(3, {"type": "order", "n": -3}, {"tag": "x"}))
    letters = dataset.rows("select _event_id, _event_digest, published_at from events._dead_letters order by 1")
    export(dataset, pubsub)
    dataset.conn.execute("delete from events._dead_letters")
    assert replay(dataset, pubsub)["counts"]["loaded"] == 2
    stored = 'select _event_id, _event_digest, _published_at from events."order" where n < 0 order by 1'
    assert dataset.rows(stored) == letters
    assert dataset.rows('select big__v_text from events."order" where n = -1') == [(str(2**70),)]
    assert waiting(pubsub) == 0
    # The array itself, delivered once more, is known.
    dataset.load(message(2, body))
    assert dataset.rows('select count(*) from events."order"') == [(4,)]
    assert dataset.rows("select count(*) from events._dead_letters") == [(0,)]


def test_what_is_no_letter_or_not_understood_and_nowhere_else_stays_in_the_topic(dataset, pubsub):
    dataset.load(message(1, {"type": "order", "n": 1}), message(2, b"nonsense"))
    export(dataset, pubsub)
    dataset.conn.execute("delete from events._dead_letters")
    pubsub.publish(['{"type": "order", "n": 9}'])
    document = replay(dataset, pubsub, code=1)
    reasons = sorted(letter["reason"] for letter in document["letters"])
    assert "not JSON" in reasons[0]
    assert "no dead letter" in reasons[1]
    assert waiting(pubsub) == 2
    assert dataset.rows('select count(*) from events."order"') == [(1,)]


def test_a_refused_letter_that_is_open_in_the_table_leaves_the_topic(dataset, pubsub):
    dataset.load(message(1, {"type": "order", "n": 1}), message(2, b"nonsense"))
    export(dataset, pubsub)
    assert replay(dataset, pubsub, code=1)["counts"]["refused"] == 1
    assert waiting(pubsub) == 0
    assert dataset.rows("select count(*) from events._dead_letters where resolved_at is null") == [(1,)]


def test_letters_of_pubsubs_own_policy_are_loaded_by_the_publishers_identity(dataset, pubsub):
    dataset.load(message(1, {"type": "order", "n": 1}))
    forwarded = {"CloudPubSubDeadLetterSourceDeliveryCount": "5", "event_id": "shop/7"}
    pubsub.publish(['{"type": "order", "n": 7}'], forwarded)
    done = dataset.loader(
        *("dead-letters", "replay", "--from-subscription", pubsub.subscription),
        PUBSUB_EMULATOR_HOST=pubsub.endpoint,
        LOADER_EVENT_ID_ATTRIBUTE="event_id",
    )
    assert done.returncode == 0, done.stderr
    assert dataset.rows('select _event_id from events."order" where n = 7') == [("shop/7",)]
    assert waiting(pubsub) == 0


def test_the_live_subscription_is_refused(dataset, pubsub):
    dataset.load(message(1, {"type": "order", "n": 1}))
    done = dataset.loader(
        *("dead-letters", "replay", "--from-subscription", pubsub.subscription),
        PUBSUB_EMULATOR_HOST=pubsub.endpoint,
        LOADER_SUBSCRIPTION=pubsub.subscription,
    )
    assert done.returncode == 1
    assert "LOADER_SUBSCRIPTION itself" in done.stderr
