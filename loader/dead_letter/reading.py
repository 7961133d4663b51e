"""Reads a stored letter again: the events that it holds, under the identity and publish time that they had."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from loader.dead_letter.store import StoredLetter
from loader.message import cloudevent
from loader.message.decode import Decoder
from loader.message.identity import message_identity
from loader.message.message import Event, Message

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# A letter of one element holds the element's JSON: how the whole body was packed does not apply to it any more.
_PACKING = frozenset({"content-encoding", "content-type", "ce-specversion"})


def message_of(letter: StoredLetter) -> Message:
    """The message as it was delivered, with the element for data where the letter is of one. Its `ack_id` is the
    letter's id: nothing can be acked here."""
    published = (letter.published_at - _EPOCH) // datetime.timedelta(microseconds=1)
    return Message(
        letter.letter_id,
        letter.message_id,
        letter.data,
        dict(letter.attributes),
        published,
        letter.attempt,
        letter.ordering_key,
    )


def read_letter(letter: StoredLetter, decoder: Decoder, *, exactly: bool = False) -> list[Event]:
    """The letter's events by today's rules. Raises Refused when it still cannot be understood.

    An event that was understood before keeps its identity whatever the settings say now. A message that never was had
    the message's identity for want of a better one: that stands unless today's rules find the publisher's own."""
    message = message_of(letter)
    decode = decoder.decode_exactly if exactly else decoder.decode
    if letter.is_record:
        event = decode(message._replace(attributes=_unpacked(message.attributes)))[0]
        table = _table_of_attribute(letter, decoder) or event.table
        return [Event(message, letter.event_id, letter.event_digest, table, event.record)]
    events = decode(message)
    if letter.table_name is not None:
        return [event._replace(identity=letter.event_id) for event in events]
    stand_ins = {message_identity(message.message_id, message.published, emulator) for emulator in (False, True)}
    if not _is_array(message, decoder):
        event = events[0]
        return [event._replace(identity=letter.event_id) if event.identity in stand_ins else event]
    named = []
    for event in events:
        base, _, index = event.identity.rpartition("/")
        named.append(event._replace(identity=f"{letter.event_id}/{index}") if base in stand_ins else event)
    return named


def _is_array(message: Message, decoder: Decoder) -> bool:
    """Whether the message's events are elements, with an index at the end of their identities."""
    if cloudevent.mode(message.attributes) == "binary":
        return False
    return decoder.body(message).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _table_of_attribute(letter: StoredLetter, decoder: Decoder) -> str | None:
    """What the attribute says, which may be one that is left out for decoding."""
    name = decoder.rules.table_attribute
    value = letter.attributes.get(name) if name else None
    return decoder.namer(value) if value is not None and value.strip() else None


def _unpacked(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if name.lower() not in _PACKING}
