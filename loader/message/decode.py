"""From a message to its events: the whole step, with a short road for the common message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from orjson import loads as parse_fast

from loader.message import cloudevent
from loader.message.body import LARGEST_EXACT, Parsed, kind_of, parse
from loader.message.identity import digest, digests, message_identity, publisher_identity
from loader.message.inflation import inflate
from loader.message.limits import Limits, check_before_parsing, check_parsed
from loader.message.message import Event, Message, Refused
from loader.message.table import TableNamer
from loader.message.text import Cleaned, clean

# Attributes that change how a body is read. Names are lower case by convention; HTTP-minded publishers capitalise.
_MEANINGFUL = frozenset(["content-encoding", "Content-Encoding", "content-type", "Content-Type", "ce-specversion"])

_new = tuple.__new__  # a NamedTuple's own constructor is a Python function


@dataclass(frozen=True, slots=True)
class DecodeRules:
    """What decides how a message becomes events. Fields are named as the settings."""

    default_table: str = "unknown"
    table_prefix: str = ""
    table_key: str = ""
    table_attribute: str = ""
    event_id_key: str = ""
    event_id_attribute: str = ""
    max_message_bytes: int = 10 * 1024 * 1024
    max_array_elements: int = 10_000
    max_keys: int = 5_000
    emulator: bool = False
    """Whether the subscription is an emulator's, whose message ids start again after a restart."""


class Decoder:
    """Decodes messages by one set of rules. For one thread (it counts what it cleaned)."""

    def __init__(self, rules: DecodeRules) -> None:
        self.rules = rules
        self.cleaned = Cleaned()
        """Texts changed so far because Postgres cannot hold them."""
        self.namer = TableNamer(rules.default_table, rules.table_prefix)
        self._limits = Limits.of(rules.max_array_elements, rules.max_keys)
        self._harmless = min(self._limits.harmless, rules.max_message_bytes)
        self._table_key = rules.table_key
        self._by_key = bool(rules.table_key) and not rules.table_attribute
        by_message = not (rules.event_id_key or rules.event_id_attribute)
        self._by_message_id = by_message and not rules.emulator
        self._by_id_and_time = by_message and rules.emulator

    def decode(self, message: Message) -> list[Event]:
        """The events of one message, in the order of its array; at least one.

        Raises Refused, and nothing else, for a message that can never become events.
        """
        data = message.data
        attributes = message.attributes
        if attributes and not _MEANINGFUL.isdisjoint(attributes):
            return self._decode_fully(message, False)
        walk = len(data) > self._harmless and self._check(data)
        # `parse` and `_table`, spelled out: two calls are a tenth of the whole step.
        try:
            record = parse_fast(data)
        except ValueError:
            return self._decode_fully(message, False)
        if b"\\" in data and b"\\u0000" in data:
            return self._decode_fully(message, False)
        if walk:
            check_parsed(record, self._limits)
        if type(record) is not dict:
            return self._events(message, data, record, False, False, False)
        if self._by_message_id:
            identity = message.message_id
        elif self._by_id_and_time:
            identity = f"{message.message_id}@{message.published}"  # as message_identity spells it
        else:
            found = self._identity(message, record)
            if found is None:
                return self._decode_fully(message, True)
            identity = found
        table = self.namer(record.get(self._table_key)) if self._by_key else self._table(message, record)
        return [_new(Event, (message, identity, digest(data), table, record))]

    def decode_all(self, messages: Sequence[Message]) -> list[Event] | None:
        """The events of messages that are all common ones, step by step for all of them; None when one is not.

        As `decode` of each, at half the cost. Raises nothing.
        """
        bodies = [message.data for message in messages]
        attributes = [message.attributes for message in messages]
        if any(attributes) and not _MEANINGFUL.isdisjoint(chain.from_iterable(attributes)):
            return None
        try:
            if max(map(len, bodies), default=0) > self._harmless:
                for body in bodies:
                    if len(body) > self._harmless and self._check(body):
                        return None
            records = list(map(parse_fast, bodies))
        except (Refused, ValueError):
            return None
        joined = b"".join(bodies)  # one search instead of one a message
        if (b"\\" in joined and b"\\u0000" in joined) or not set(map(type, records)) <= {dict}:
            return None
        identities: list[str | None]
        if self._by_message_id:
            identities = [message.message_id for message in messages]
        elif self._by_id_and_time:
            identities = [f"{message.message_id}@{message.published}" for message in messages]
        else:
            identities = list(map(self._identity, messages, records))
            if None in identities:
                return None
        if self._by_key:
            tables = self.namer.all([record.get(self._table_key) for record in records])
        else:
            tables = list(map(self._table, messages, records))
        return list(map(_new, repeat(Event), zip(messages, identities, digests(bodies), tables, records, strict=True)))

    def decode_exactly(self, message: Message) -> list[Event]:
        """As `decode`, at a higher cost, with every digit of integers beyond 64 bits.

        For whoever meets a float of at least `body.LARGEST_EXACT` in a record: orjson makes floats of such integers.
        Identities, digests and tables are those that `decode` gives; a float that is still there is one in the body.
        """
        return self._decode_fully(message, True)

    def body(self, message: Message) -> bytes:
        """The inflated body. Raises Refused as `decode` does."""
        attributes = message.attributes
        data = message.data
        if attributes:
            encoding = attributes.get("content-encoding") or attributes.get("Content-Encoding") or ""
            if encoding.strip().lower() in ("gzip", "x-gzip"):
                return inflate(data, self.rules.max_message_bytes) if data else data
        if len(data) > self.rules.max_message_bytes:
            raise self._too_large(data)
        return data

    def _check(self, data: bytes) -> bool:
        if len(data) > self.rules.max_message_bytes:
            raise self._too_large(data)
        return check_before_parsing(data, self._limits)

    def _too_large(self, data: bytes) -> Refused:
        limit = self.rules.max_message_bytes
        return Refused("body too large", f"the body has {len(data)} bytes; LOADER_MAX_MESSAGE_BYTES is {limit}")

    def _table(self, message: Message, record: dict[str, Any]) -> str:
        rules = self.rules
        if rules.table_attribute:
            value = message.attributes.get(rules.table_attribute)
            if value is not None and value.strip():
                return self.namer(value)
        if rules.table_key:
            return self.namer(record.get(rules.table_key))
        return self.namer.default

    def _identity(
        self, message: Message, record: dict[str, Any], is_cloudevent: bool = False, exact: bool = False
    ) -> str | None:
        """The identity before `/<i>`, or None when the record must be parsed exactly first."""
        rules = self.rules
        if rules.event_id_attribute:
            identity = publisher_identity(message.attributes.get(rules.event_id_attribute))
            if identity is not None:
                return identity
        if rules.event_id_key:
            value = record.get(rules.event_id_key)
            if type(value) is float and not exact and abs(value) >= LARGEST_EXACT:
                return None
            identity = publisher_identity(value)
            if identity is not None:
                return identity
        if is_cloudevent:
            identity = publisher_identity(cloudevent.identity(record))
            if identity is not None:
                return identity
        return message_identity(message.message_id, message.published, rules.emulator)

    def _decode_fully(self, message: Message, exactly: bool) -> list[Event]:
        """The long road: gzip, CloudEvents, text to clean, integers beyond 64 bits."""
        body = self.body(message)
        mode = cloudevent.mode(message.attributes)
        if mode == "binary":
            record = cloudevent.context(message.attributes)
            if not cloudevent.has_json_data(message.attributes):
                record.update(cloudevent.text_data(message.attributes, body))
            elif body:
                record["data"], _ = self._parse(body, exactly)
            return self._events(message, body, record, True, exactly, True)  # attributes can hold U+0000 too
        if mode is not None:
            cloudevent.check_format(message.attributes)
        value, dirty = self._parse(body, exactly)
        if mode == "batch" and type(value) is not list:
            raise Refused("bad CloudEvent", f"a batch of CloudEvents is an array; the body is {kind_of(value)}")
        if mode == "structured":
            if type(value) is not dict:
                raise Refused("bad CloudEvent", f"a structured CloudEvent is an object; the body is {kind_of(value)}")
            cloudevent.check_envelope(value, "the CloudEvent")
        return self._events(message, body, value, mode is not None, exactly, dirty)

    def _parse(self, body: bytes, exactly: bool) -> Parsed:
        walk = len(body) > self._harmless and self._check(body)
        parsed = parse(body, exactly)
        if walk:
            check_parsed(parsed.value, self._limits)
        return parsed

    def _events(
        self, message: Message, body: bytes, value: Any, is_cloudevent: bool, exactly: bool, dirty: bool
    ) -> list[Event]:
        if type(value) is dict:
            records = [value]
        elif type(value) is list:
            records = value
            self._check_array(records, is_cloudevent)
        else:
            raise Refused("not an object", f"the body is {kind_of(value)}, not a JSON object")
        of_body = digest(body)
        of_message = message.message_id if self._by_message_id and not is_cloudevent else None
        events: list[Event] = []
        for index, record in enumerate(records):
            identity = of_message or self._identity(message, record, is_cloudevent, exactly)
            if identity is None:
                return self._decode_fully(message, True)
            if records is value:
                identity = f"{identity}/{index}"
            if dirty:
                clean(record, self.cleaned)  # after its identity: cleaned, two identities could become one
            events.append(_new(Event, (message, identity, of_body, self._table(message, record), record)))
        return events

    def _check_array(self, records: list[Any], is_cloudevent: bool) -> None:
        if not records:
            raise Refused("not an object", "the body is an empty array")
        for index, record in enumerate(records):
            if type(record) is not dict:
                raise Refused(
                    "not an object", f"the body is an array whose element {index} is {kind_of(record)}, not an object"
                )
            if is_cloudevent:
                cloudevent.check_envelope(record, f"CloudEvent {index} of the batch")
