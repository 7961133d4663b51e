"""Intake: the messages of a bundle become events, or dead letters when they cannot be understood."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loader.dead_letter.letter import Letter, letter_of_message
from loader.message import cloudevent
from loader.message.decode import Decoder
from loader.message.identity import digest, message_identity, publisher_identity
from loader.message.message import Event, Message, Refused
from loader.message.text import Cleaned, clean, jsonb_text
from loader.plan.fitting import Source
from loader.plan.kind import json_text

_BATCH = 500
"""Messages decoded at a time: their records are in memory together, 2 KB each."""


class Intake:
    """Decodes for one lane. `expect` hears of messages that hold several events."""

    def __init__(
        self,
        decoder: Decoder,
        expect: Callable[[Message, int], None],
        *,
        keep_attributes: bool = False,
        keep_raw: bool = False,
    ) -> None:
        self.decoder = decoder
        self._expect = expect
        self._again: dict[str, tuple[str, dict[str, Event]]] = {}
        self.letters: list[Letter] = []
        self.refused: dict[str, Message] = {}
        """By ack id. They gather until `forget`: a bundle may be read in halves, each of which resets `letters`."""
        self.source = Source(
            record=self._record,
            exact=self._exact,
            attributes=self._attributes if keep_attributes else None,
            raw=self._raw if keep_raw else None,
        )

    def events(self, messages: Sequence[Message]) -> Iterator[Event]:
        """The events of messages, one after the other. Afterwards `letters` and `refused` hold what is none."""
        self.letters = []
        for start in range(0, len(messages), _BATCH):
            batch = messages[start : start + _BATCH]
            events = self.decoder.decode_all(batch)
            yield from self._each(batch) if events is None else events

    def _each(self, messages: Sequence[Message]) -> Iterator[Event]:
        decode = self.decoder.decode
        for message in messages:
            try:
                events = decode(message)
            except Refused as error:
                self.refused[message.ack_id] = message
                self.letters.append(self.letter(message, error))
                continue
            if len(events) == 1:
                yield events[0]
                continue
            self._expect(message, len(events))
            yield from events

    def letter(self, message: Message, error: Refused) -> Letter:
        """The letter of a message that is refused as a whole."""
        rules = self.decoder.rules
        identity = None
        if rules.event_id_attribute:
            identity = publisher_identity(message.attributes.get(rules.event_id_attribute))
        if identity is None:
            identity = message_identity(message.message_id, message.published, rules.emulator)
        return letter_of_message(message, identity, digest(message.data), error.reason, error.detail)

    def forget(self) -> None:
        """Let go of what was read again: one array may have taken many times the memory of its message."""
        self._again.clear()
        self.refused.clear()

    def _record(self, event: Event) -> dict[str, Any]:
        return self._reread(event, self.decoder.decode)

    def _exact(self, event: Event) -> dict[str, Any]:
        return self._reread(event, self.decoder.decode_exactly)

    def _reread(self, event: Event, decode: Callable[[Message], list[Event]]) -> dict[str, Any]:
        """The event's record, read from its message; elements of one array are asked for one after the other."""
        ack_id, by_identity = self._again.get(decode.__name__, ("", {}))
        if ack_id != event.message.ack_id or event.identity not in by_identity:
            by_identity = {found.identity: found for found in decode(event.message)}
            self._again[decode.__name__] = (event.message.ack_id, by_identity)
        found = by_identity.get(event.identity)
        if found is None or found.record is None:
            raise Refused("not found again", f"event {event.identity!r} is not in its message when that is read again")
        return found.record

    def _attributes(self, event: Event) -> str:
        # A copy: what is cleaned for the column must not change the message, which may yet become a dead letter.
        return json_text(clean(dict(event.message.attributes), Cleaned()), True)

    def _raw(self, event: Event) -> str:
        body = self.decoder.body(event.message)
        attributes = event.message.attributes
        if cloudevent.mode(attributes) == "binary" and not (body and cloudevent.has_json_data(attributes)):
            # The data alone, as its column holds it: a text, bytes in base64, or nothing.
            data = next(iter(cloudevent.text_data(attributes, body).values()), None)
            return json_text(clean(data, Cleaned()), True)
        if body.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[" and cloudevent.mode(attributes) != "binary":
            return json_text(self._exact(event), True)
        return jsonb_text(body)
