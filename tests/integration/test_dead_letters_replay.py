from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys

import psycopg
import pytest
from pydantic import SecretStr

from loader.commands.parts import make_database
from loader.dead_letter.replay import Impatience, Replay
from loader.dead_letter.store import Criteria, LetterStore
from loader.errors import LoaderError
from loader.message.message import Message
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts
from loader.worker.batch import MessageBatch
from loader.worker.learning import Learning

PUBLISHED = 1_800_000_000_000_000


def message(number, body, attributes=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Message(f"ack-{number}", f"m{number}", data, attributes or {}, PUBLISHED + number, 1)


class Dataset:
    """Loads messages as a worker does, and looks at what is there."""

    def __init__(self, url):
        self.url = url
        self.conn = psycopg.connect(url, autocommit=True)

    def settings(self, **values):
        return Settings(dataset="events", database_url=SecretStr(self.url), table_key="type", **values)

    def load(self, *messages, **values):
        settings = self.settings(**values)
        parts = Parts(settings, make_database(settings), Impatience())
        intake = parts.intake()
        lane, learning_lane = parts.lane("load", intake), parts.lane("learn", intake, parts.settled)
        learning = Learning(learning_lane, lambda loaded: None, lambda snapshot, lesson: None, lambda events: None)
        for loaded in lane.store(MessageBatch(intake, messages)):
            if loaded.misfits:
                learning.add(loaded.misfits)
        learning.finish()
        learning.run()
        lane.close()
        learning_lane.close()

    def replay(self, **values):
        settings = self.settings(**values)
        health = Impatience()
        store = LetterStore(self.conn, "events")
        replay = Replay(Parts(settings, make_database(settings), health), health, store)
        try:
            return list(replay.run(store.open_batches()))
        finally:
            replay.close()

    def rows(self, query):
        return self.conn.execute(query).fetchall()

    def letters(self):
        return self.rows("select _event_id, reason from events._dead_letters where resolved_at is null order by 1")


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def loader(dataset, *arguments, **environ):
    environment = {**os.environ, "LOADER_DATABASE_URL": dataset.url, "LOADER_TABLE_KEY": "type", **environ}
    return subprocess.run(
        [sys.executable, "-m", "loader", "dead-letters", *arguments],
        input="",
        capture_output=True,
        text=True,
        env=environment,
        timeout=90,
    )


def refuse_negative(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.conn.execute('alter table events."order" add constraint positive check (n > 0)')


def test_a_replayed_letter_keeps_identity_digest_and_publish_time_and_is_resolved(dataset):
    refuse_negative(dataset)
    dataset.load(message(2, {"type": "order", "n": -5}), message(3, {"type": "order", "n": 7}))
    letter = dataset.rows("select _event_id, _event_digest, published_at from events._dead_letters")
    assert [row[0] for row in letter] == ["m2"]
    dataset.conn.execute('alter table events."order" drop constraint positive')

    results = dataset.replay()

    assert [(result.event_id, result.outcome, result.table) for result in results] == [("m2", "loaded", "order")]
    stored = dataset.rows('select _event_id, _event_digest, _published_at from events."order" where n = -5')
    assert stored == letter
    assert dataset.letters() == []
    assert dataset.replay() == []


def test_a_letter_that_is_still_refused_stays_open_and_says_why_today(dataset):
    refuse_negative(dataset)
    dataset.load(message(2, {"type": "order", "n": -5}))
    dataset.conn.execute('alter table events."order" drop constraint positive')
    dataset.conn.execute('alter table events."order" add constraint large check (n > 0 or n < -10)')

    results = dataset.replay()

    assert [result.outcome for result in results] == ["refused"]
    assert "large" in results[0].reason
    assert dataset.rows("select count(*), count(resolved_at) from events._dead_letters") == [(1, 0)]
    assert "large" in dataset.rows("select detail from events._dead_letters")[0][0]


def test_a_message_that_nobody_understood_loads_once_the_settings_allow_it(dataset):
    body = [{"type": "order", "n": number} for number in range(3)]
    dataset.load(message(1, body), max_array_elements=2)
    assert [row[0] for row in dataset.letters()] == ["m1"]

    assert [result.outcome for result in dataset.replay()] == ["loaded"]

    assert dataset.rows('select _event_id, n from events."order" order by 1') == [("m1/0", 0), ("m1/1", 1), ("m1/2", 2)]
    assert dataset.letters() == []
    # The message itself, delivered once more, adds nothing.
    dataset.load(message(1, body))
    assert dataset.rows('select count(*) from events."order"') == [(3,)]
    assert dataset.letters() == []


def test_a_gzip_body_is_inflated_again_and_its_redelivery_is_a_duplicate(dataset):
    zipped = message(
        1, gzip.compress(json.dumps({"type": "order", "t": "x" * 500}).encode()), {"content-encoding": "gzip"}
    )
    dataset.load(zipped, max_message_bytes=100)
    assert len(dataset.letters()) == 1

    assert [result.outcome for result in dataset.replay()] == ["loaded"]

    dataset.load(zipped)
    assert dataset.rows('select _event_id from events."order"') == [("m1",)]
    assert dataset.letters() == []


def test_one_element_of_an_array_is_replayed_alone_with_every_digit(dataset):
    refuse_negative(dataset)
    dataset.load(message(2, [{"type": "order", "n": -1, "big": 2**70}, {"type": "order", "n": 2}]))
    assert dataset.letters() == [("m2/0", "refused by the database")]
    dataset.conn.execute('alter table events."order" drop constraint positive')

    assert [result.outcome for result in dataset.replay()] == ["loaded"]

    assert dataset.rows('select _event_id, big__v_text from events."order" where n = -1') == [("m2/0", str(2**70))]
    assert dataset.letters() == []


def test_an_identity_with_slashes_is_kept(dataset):
    refuse_negative(dataset)
    bridged = message(2, {"type": "order", "n": -1}, {"event_id": "cluster/topic/3/0", "content-encoding": ""})
    dataset.load(bridged, event_id_attribute="event_id")
    assert dataset.letters() == [("cluster/topic/3/0", "refused by the database")]
    dataset.conn.execute('alter table events."order" drop constraint positive')

    dataset.replay()

    assert dataset.rows('select _event_id from events."order" where n = -1') == [("cluster/topic/3/0",)]
    assert dataset.letters() == []


def test_a_reused_event_id_is_still_refused_and_adds_no_second_letter(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(message(1, {"type": "order", "n": 2}))
    assert dataset.letters() == [("m1", "event id reused")]

    assert [result.outcome for result in dataset.replay()] == ["refused"]

    assert dataset.letters() == [("m1", "event id reused")]
    assert dataset.rows('select n from events."order"') == [(1,)]


def test_an_event_whose_row_is_there_already_is_resolved(dataset):
    refuse_negative(dataset)
    dataset.load(message(2, {"type": "order", "n": -1}))
    dataset.conn.execute('alter table events."order" drop constraint positive')
    dataset.replay()
    dataset.conn.execute("update events._dead_letters set resolved_at = null, resolution = null")

    assert [result.outcome for result in dataset.replay()] == ["loaded"]

    assert dataset.rows('select count(*) from events."order" where n = -1') == [(1,)]
    assert dataset.letters() == []


def test_a_replay_learns_what_its_letters_need(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(
        message(2, {"type": "order", "n": "one", "late": True}), schema_contract="columns=freeze,data_type=freeze"
    )
    assert dataset.letters() == [("m2", "frozen by contract")]

    assert [result.outcome for result in dataset.replay()] == ["loaded"]

    assert dataset.rows('select n, n__v_text, late from events."order" order by _event_id') == [
        (1, None, None),
        (None, "one", True),
    ]


def test_letters_are_read_in_bounded_batches(dataset, monkeypatch):
    monkeypatch.setattr("loader.dead_letter.store._BATCH_BYTES", 1000)
    monkeypatch.setattr("loader.dead_letter.store._PAGE", 3)
    dataset.load(*[message(number, b"not json " + b"x" * 300) for number in range(20)])

    sizes = [len(batch) for batch in LetterStore(dataset.conn, "events").open_batches()]

    assert sum(sizes) == 20
    assert max(sizes) <= 3


def test_a_database_that_refuses_everything_ends_the_replay(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}), message(2, b"[1]"))
    dataset.conn.execute('update events._dead_letters set body = \'{"type": "order", "n": 3}\'')
    dataset.conn.execute("alter database " + dataset.conn.info.dbname + " set default_transaction_read_only = on")

    with pytest.raises(LoaderError, match="read-only"):
        dataset.replay()

    dataset.conn.execute("set default_transaction_read_only = off")
    assert [row[0] for row in dataset.letters()] == ["m2"]


def test_the_command_lists_shows_replays_and_purges(dataset):
    refuse_negative(dataset)
    dataset.load(message(2, {"type": "order", "n": -5}), message(3, b"\xff\x00"))
    before = dataset.rows("select * from events._dead_letters order by 1")

    listed = json.loads(loader(dataset, "list", "--json").stdout)
    assert listed["total"] == 2
    assert {letter["event_id"] for letter in listed["letters"]} == {"m2", "m3"}
    assert json.loads(loader(dataset, "list", "--json", "--table", "order").stdout)["total"] == 1
    assert json.loads(loader(dataset, "list", "--json", "--since", "2099-01-01").stdout)["total"] == 0

    shown = json.loads(loader(dataset, "show", "m3", "--json").stdout)["letters"][0]
    assert base64.b64decode(shown["body"]) == b"\xff\x00"
    assert loader(dataset, "show", "nothing").returncode == 1

    dry = loader(dataset, "replay", "m2", "--dry-run", "--json")
    assert (dry.returncode, json.loads(dry.stdout)["counts"]) == (0, {"loaded": 1, "discarded": 0, "refused": 0})
    assert dataset.rows("select * from events._dead_letters order by 1") == before

    still = loader(dataset, "replay", "--all")
    assert still.returncode == 1
    assert still.stdout.count("refused") >= 2
    assert loader(dataset, "replay", "m2", "nobody").returncode == 1

    dataset.conn.execute('alter table events."order" drop constraint positive')
    assert loader(dataset, "replay", "m2").returncode == 0
    assert json.loads(loader(dataset, "list", "--resolved", "--json").stdout)["total"] == 1

    refused = loader(dataset, "purge", "--all")
    assert refused.returncode == 1
    assert "--yes" in refused.stderr
    purged = loader(dataset, "purge", "--all", "--resolved-only", "--yes", "--json")
    assert json.loads(purged.stdout) == {"deleted": 1}
    assert dataset.letters() == [("m3", dataset.letters()[0][1])]


def test_a_dry_run_says_which_ddl_a_replay_would_run(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(message(2, {"type": "order", "late": True}), schema_contract="freeze")

    done = loader(dataset, "replay", "--all", "--dry-run")

    assert done.returncode == 0, done.stderr
    assert '"late" boolean' in done.stdout
    assert len(dataset.letters()) == 1


def test_purging_goes_in_batches_and_spares_the_young(dataset, monkeypatch):
    monkeypatch.setattr("loader.dead_letter.store._PURGE_BATCH", 3)
    dataset.load(*[message(number, b"no json") for number in range(8)])
    dataset.conn.execute(
        "update events._dead_letters set created_at = now() - interval '40 days' where _event_id < 'm7'"
    )
    store = LetterStore(dataset.conn, "events")
    (limit,) = dataset.conn.execute("select now() - interval '30 days'").fetchone()

    assert list(store.purge(Criteria(until=limit))) == [3, 3, 1]

    assert [row[0] for row in dataset.letters()] == ["m7"]


def test_what_the_database_refuses_as_a_whole_stays_open_letter_by_letter(dataset):
    dataset.load(message(0, {"type": "order", "n": 1}))
    dataset.load(*[message(n, {"type": "order", "late": n}) for n in range(1, 41)], schema_contract="freeze")
    dataset.conn.execute("alter table events.\"order\" add constraint never check (_event_id = 'm0')")

    results = dataset.replay()

    assert [result.outcome for result in results] == ["refused"] * 40
    assert "23514" in results[0].reason
    assert len(dataset.letters()) == 40
    dataset.conn.execute('alter table events."order" drop constraint never')
    assert [result.outcome for result in dataset.replay()] == ["loaded"] * 40
    assert dataset.rows('select count(*), count(late) from events."order"') == [(41, 40)]
    assert dataset.letters() == []


def test_what_the_contract_discards_is_resolved_as_discarded(dataset):
    dataset.load(message(1, {"type": "order", "n": 1}))
    dataset.load(message(2, {"type": "order", "late": True}), schema_contract="freeze")

    (result,) = dataset.replay(schema_contract="discard_row")

    assert result.outcome == "discarded"
    assert dataset.letters() == []
    assert dataset.rows("select resolution like 'discarded%' from events._dead_letters") == [(True,)]
    assert dataset.rows("select _event_id from events._discards") == [("m2",)]


def test_an_array_that_is_read_at_last_leaves_letters_of_its_bad_elements_only(dataset):
    refuse_negative(dataset)
    dataset.load(message(2, [{"type": "order", "n": n} for n in (5, -6, 7)]), max_array_elements=2)

    (result,) = dataset.replay()

    assert result.outcome == "refused"
    assert dataset.letters() == [("m2/1", "refused by the database")]
    assert dataset.rows('select _event_id from events."order" where n > 1 order by 1') == [("m2/0",), ("m2/2",)]
    assert dataset.rows("select resolution like '%%now letter%%' from events._dead_letters where _event_id = 'm2'") == [
        (True,)
    ]
    dataset.conn.execute('alter table events."order" drop constraint positive')
    assert [found.outcome for found in dataset.replay()] == ["loaded"]
    assert dataset.rows('select count(*) from events."order"') == [(4,)]
