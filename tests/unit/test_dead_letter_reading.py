from __future__ import annotations

import base64
import datetime
import gzip
import json

import pytest

from loader.dead_letter.letter import letter_of_event, letter_of_message
from loader.dead_letter.reading import message_of, read_letter
from loader.dead_letter.store import StoredLetter
from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Message, Refused

PUBLISHED = 1_800_000_000_123_456
NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def message(data, attributes=None):
    return Message("ack", "77", data, attributes or {}, PUBLISHED, 3, "key")


def stored(letter):
    """A letter as it comes back from the database."""
    published = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
        microseconds=letter.message.published
    )
    return StoredLetter(
        letter.letter_id,
        letter.event_id,
        letter.digest,
        letter.reason,
        letter.detail,
        letter.sqlstate,
        letter.table,
        letter.column,
        letter.message.message_id,
        published,
        letter.message.attempt,
        letter.message.ordering_key,
        dict(letter.message.attributes),
        letter.body_encoding,
        letter.body,
        letter.is_record,
        "1.0",
        "worker",
        NOW,
        None,
        None,
    )


def through_a_letter(data, attributes=None, then=None, **rules):
    """Each event of a message, and what is read from the letter of it."""
    decoder = Decoder(DecodeRules(**rules))
    exactly = {event.identity: event for event in decoder.decode_exactly(message(data, attributes))}
    for event in decoder.decode(message(data, attributes)):
        letter = letter_of_event(
            event, lambda asked: exactly[asked.identity].record, "why", "detail", table=event.table
        )
        again = read_letter(stored(letter), Decoder(DecodeRules(**(then or rules))), exactly=True)
        yield exactly[event.identity], again


EVENT = {"type": "order", "n": 2**70, "deep": {"list": [1, "é", None]}}
BODY = json.dumps(EVENT).encode()
CLOUD = {"ce-specversion": "1.0", "ce-id": "a/1", "ce-source": "/shop", "ce-type": "sold"}


@pytest.mark.parametrize(
    ("data", "attributes"),
    [
        (BODY, {}),
        (gzip.compress(BODY), {"content-encoding": "gzip"}),
        (json.dumps([EVENT, EVENT]).encode(), {}),
        (gzip.compress(json.dumps([EVENT, EVENT]).encode()), {"content-encoding": "gzip"}),
        (BODY, {"id": "cluster/topic/3/0"}),
        (gzip.compress(BODY), {"id": "cluster/topic/3/0", "content-encoding": "gzip"}),
        (json.dumps([EVENT]).encode(), {"id": "cluster/topic/3/0"}),
        (BODY, {**CLOUD, "content-type": "application/json"}),
        (
            json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": EVENT}).encode(),
            {"content-type": "application/cloudevents+json"},
        ),
        (BODY, {"kind": "Order Placed"}),
        (json.dumps([EVENT, EVENT]).encode(), {"kind": "Order Placed"}),
    ],
)
def test_a_letter_gives_back_the_event_that_it_was_written_for(data, attributes):
    rules = {"table_key": "type", "table_attribute": "kind", "event_id_attribute": "id"}
    pairs = list(through_a_letter(data, attributes, **rules))
    assert pairs
    for event, again in pairs:
        assert [(one.identity, one.digest, one.table, one.record) for one in again] == [
            (event.identity, event.digest, event.table, event.record)
        ]
        assert again[0].message.published == PUBLISHED
        assert dict(again[0].message.attributes) == attributes


def test_an_emulators_identity_stays_where_no_emulator_is_set():
    for _, again in through_a_letter(BODY, emulator=True, then={"emulator": False}):
        assert again[0].identity == f"77@{PUBLISHED}"


def test_an_identity_stays_whatever_the_settings_say_now():
    for _, again in through_a_letter(b'{"id": "new", "n": 1}', then={"event_id_key": "id"}):
        assert again[0].identity == "77"


def test_a_message_that_nobody_understood_gets_the_publishers_identity_if_it_has_one():
    letter = stored(letter_of_message(message(b'{"id": "theirs"}'), f"77@{PUBLISHED}", 5, "too many keys", "detail"))
    assert [event.identity for event in read_letter(letter, Decoder(DecodeRules()))] == [f"77@{PUBLISHED}"]
    by_key = Decoder(DecodeRules(event_id_key="id"))
    assert [event.identity for event in read_letter(letter, by_key)] == ["theirs"]


def test_elements_of_a_message_that_nobody_understood_are_numbered():
    for data in (b' [{"a": 1}, {"a": 2}]', b'\xef\xbb\xbf[{"a": 1}, {"a": 2}]'):
        letter = stored(letter_of_message(message(data), f"77@{PUBLISHED}", 5, "too many elements", "detail"))
        events = read_letter(letter, Decoder(DecodeRules()))
        assert [event.identity for event in events] == [f"77@{PUBLISHED}/0", f"77@{PUBLISHED}/1"]


def test_what_still_cannot_be_understood_is_refused_again():
    letter = stored(letter_of_message(message(b"\xff\x00"), "77", 5, "not JSON", "detail"))
    assert letter.body_encoding == "base64"
    assert base64.b64decode(letter.body) == message_of(letter).data == b"\xff\x00"
    with pytest.raises(Refused):
        read_letter(letter, Decoder(DecodeRules()))
