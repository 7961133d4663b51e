"""A dead letter: the message (or one element of its array) as it came, and why it was not loaded."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loader.message.identity import dlt_id
from loader.message.message import Event, Message


@dataclass(frozen=True, slots=True)
class Letter:
    """One row of `_dead_letters`."""

    letter_id: str
    event_id: str
    digest: int
    reason: str
    """A short stable code, the same for each fault of a kind."""
    detail: str
    """What was wrong, naming row, column and value where they are known."""
    sqlstate: str | None
    table: str | None
    column: str | None
    message: Message
    body_encoding: str
    """`text`, or `base64` when the bytes cannot stand in a text column."""
    body: str
    is_record: bool
    """The body is one element of the message's array, as JSON, rather than the message's data."""
    root: str | None = None
    """The root table that the event belongs to; None when the message was not understood."""


def letter_of_message(message: Message, identity: str, digest: int, reason: str, detail: str) -> Letter:
    """The letter of a message that could not be understood at all."""
    encoding, body = _encode(message.data)
    return Letter(
        letter_id(identity, digest),
        identity,
        digest,
        reason,
        _printable(detail),
        None,
        None,
        None,
        message,
        encoding,
        body,
        False,
    )


def letter_of_event(
    event: Event,
    exact: Callable[[Event], dict[str, Any]],
    reason: str,
    detail: str,
    *,
    sqlstate: str | None = None,
    table: str | None = None,
    column: str | None = None,
) -> Letter:
    """The letter of an event; of an array's element only that element is kept, its neighbours are loaded."""
    message = event.message
    is_record = message.data.lstrip()[:1] == b"[" or event.identity.rpartition("/")[0] != ""
    if is_record:
        encoding, body = _encode(json.dumps(exact(event), ensure_ascii=False).encode("utf-8", "replace"))
    else:
        encoding, body = _encode(message.data)
    return Letter(
        letter_id(event.identity, event.digest, event.table),
        event.identity,
        event.digest,
        reason,
        _printable(detail),
        sqlstate,
        table,
        _printable(column) if column else None,
        message,
        encoding,
        body,
        is_record,
        event.table,
    )


def letter_id(identity: str, digest: int, root: str | None = None) -> str:
    """The key of a letter. `root` is the event's root table: a publisher's identity may stand in several, each of
    which may refuse it. A message that was not understood has none."""
    return dlt_id(f"{identity}\n{digest}" if root is None else f"{identity}\n{digest}\n{root}")


def _encode(data: bytes) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(data).decode()
    if "\0" in text:
        return "base64", base64.b64encode(data).decode()
    return "text", text


def _printable(text: str) -> str:
    """Text that Postgres can hold, whatever it quotes."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()[:4000]
