"""Dead letters that stand in a Pub/Sub topic, read through a subscription of it: those that LOADER_DEAD_LETTER_TOPIC
exported, and those that a dead-letter policy of Pub/Sub's own forwarded.

The table is the record: a letter that is in it is replayed from there, whole. One that was purged is put together again
from the message. A message is acknowledged once its letter is settled, or is open in the table."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from loader.dead_letter.letter import letter_of_message
from loader.dead_letter.store import LetterStore, StoredLetter
from loader.message.identity import digest, message_identity
from loader.message.message import Message
from loader.pull import protocol as pb
from loader.pull.channel import Stub
from loader.pull.receive import messages as read_messages

PREFIX = "original."
"""In front of the attributes of the original message, see export.py."""
_FORWARDED = "CloudPubSubDeadLetterSource"
"""Start of the attributes that Pub/Sub adds: https://cloud.google.com/pubsub/docs/handling-failures"""
_PUBLISHED = "CloudPubSubDeadLetterSourceTopicPublishTime"
_PER_PULL = 100
_PER_CALL = 1_000
_LEASE_SECONDS = 600  # the longest there is; what is not settled by then comes again
_PULL_SECONDS = 2.0
_QUIET_PULLS = 2
"""The service may answer a pull with nothing while there is something."""


@dataclass(frozen=True, slots=True)
class Found:
    """One message of the topic. Without a letter, `problem` says why."""

    message: Message
    letter: StoredLetter | None
    problem: str = ""
    settled: bool = False
    """The table says that this letter is resolved."""


@dataclass(slots=True)
class LetterTopic:
    """Letters behind one subscription. Raises grpc.RpcError."""

    stub: Stub
    subscription: str
    store: LetterStore
    emulator: bool
    _kept: dict[str, str] = field(default_factory=dict)
    """Message id → ack id of what is not acknowledged, held until the end so that it does not come again meanwhile."""

    def batches(self) -> Iterator[list[Found]]:
        """All that is there now, in pieces. Each message must be given to `settle` or `keep`."""
        quiet = 0
        while quiet < _QUIET_PULLS:
            taken = [message for message in self._pull() if not self._again(message)]
            quiet = quiet + 1 if not taken else 0
            if taken:
                yield [self._find(message) for message in taken]

    def settle(self, messages: Sequence[Message]) -> None:
        """Acknowledge: their letters are settled, or stand in the table."""
        if messages:
            ids = [message.ack_id for message in messages]
            self.stub.acknowledge(pb.AcknowledgeRequest(subscription=self.subscription, ack_ids=ids))

    def keep(self, messages: Sequence[Message]) -> None:
        """Leave in the topic."""
        for message in messages:
            self._kept[message.message_id] = message.ack_id

    def close(self) -> None:
        """Give back what was kept."""
        ids = list(self._kept.values())
        for start in range(0, len(ids), _PER_CALL):
            self._lease(ids[start : start + _PER_CALL], 0)
        self._kept.clear()

    def _pull(self) -> list[Message]:
        request = pb.PullRequest(subscription=self.subscription, max_messages=_PER_PULL)
        try:
            answer = self.stub.pull(request, timeout=_PULL_SECONDS)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return []
            raise
        taken, _size = read_messages(answer)
        self._lease([message.ack_id for message in taken], _LEASE_SECONDS)
        return taken

    def _again(self, message: Message) -> bool:
        """A message that was kept and has come back all the same: its newest ack id is the one to give back."""
        if message.message_id not in self._kept:
            return False
        self._kept[message.message_id] = message.ack_id
        return True

    def _lease(self, ids: list[str], seconds: int) -> None:
        if ids:
            self.stub.modify_ack_deadline(
                pb.ModifyAckDeadlineRequest(subscription=self.subscription, ack_ids=ids, ack_deadline_seconds=seconds)
            )

    def _find(self, message: Message) -> Found:
        attributes = message.attributes
        letter_id = attributes.get("letter_id")
        if letter_id and attributes.get("event_id"):
            for letter in self.store.find(letter_id):
                if letter.letter_id == letter_id:
                    return Found(message, letter, settled=letter.resolved_at is not None)
            if "body_omitted" in attributes:
                return Found(message, None, f"its body is not in the topic: {attributes['body_omitted']}")
            return _found(message, letter_of_export)
        if any(name.startswith(_FORWARDED) for name in attributes):
            return _found(message, lambda each: letter_of_forwarded(each, self.emulator))
        return Found(message, None, "it is no dead letter: neither the loader nor a dead-letter policy put it there")


def _found(message: Message, make: Any) -> Found:
    try:
        return Found(message, make(message))
    except (ValueError, KeyError) as error:
        return Found(message, None, f"its attributes are not as the export writes them: {error!r}")


def letter_of_export(message: Message) -> StoredLetter:
    """The letter of a message that the loader exported. Raises KeyError, ValueError."""
    about = message.attributes
    is_record = about.get("is_record") == "true"
    told = about.get("event_digest")
    # Of one element of an array only the element is here: without the digest of the whole body, its own has to do.
    number = int(told) if told else digest(message.data)
    return _letter(
        message,
        about["letter_id"],
        about["event_id"],
        number,
        about.get("reason", ""),
        about.get("table"),
        about["message_id"],
        datetime.datetime.fromisoformat(about["published_at"]),
        {name.removeprefix(PREFIX): value for name, value in about.items() if name.startswith(PREFIX)},
        is_record,
    )


def letter_of_forwarded(message: Message, emulator: bool) -> StoredLetter:
    """The letter of a message that Pub/Sub's own policy forwarded, under a message id of its own: unless the publisher
    names its events, the original id is lost, and with it the way to see whether it was loaded before.

    Raises ValueError."""
    told = message.attributes.get(_PUBLISHED)
    moment = datetime.datetime.fromisoformat(told) if told else _moment(message.published)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    original = {name: value for name, value in message.attributes.items() if not name.startswith(_FORWARDED)}
    published = round(moment.timestamp() * 1_000_000)
    identity = message_identity(message.message_id, published, emulator)
    number = digest(message.data)
    reason = "forwarded by Pub/Sub"
    made = letter_of_message(message, identity, number, reason, "")
    return _letter(message, made.letter_id, identity, number, reason, None, message.message_id, moment, original, False)


def _letter(
    message: Message,
    letter_id: str,
    event_id: str,
    number: int,
    reason: str,
    table: str | None,
    message_id: str,
    published: datetime.datetime,
    attributes: Mapping[str, str],
    is_record: bool,
) -> StoredLetter:
    return StoredLetter(
        letter_id,
        event_id,
        number,
        reason,
        message.attributes.get("detail", ""),
        message.attributes.get("sqlstate"),
        table,
        message.attributes.get("column"),
        message_id,
        published,
        0,
        message.ordering_key,
        attributes,
        "base64",
        base64.b64encode(message.data).decode(),
        is_record,
        "",
        "",
        _moment(message.published),
        None,
        None,
    )


def _moment(micros: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)
