"""The demo's messages in order: which type comes when, what changes on the way, what is sent twice, what is broken."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import Literal, NamedTuple

import orjson

from loader.demo.shop import Shop

FEWEST = 20
"""Messages below which not everything that is to be seen would have its place."""
SEED = 7

# When something happens for the first time, as a share of all messages.
_TICKETS = 0.20
_REPEAT = 0.25
_LATE_COLUMNS = 0.35
_NOT_JSON = 0.40
_CONFLICT = 0.50
_LATE_TABLE = 0.60
_NOT_AN_OBJECT = 0.70

_TYPES = ("page_viewed", "courier_position", "payment_captured", "order_placed", "support_ticket_opened")
_WEIGHTS = (50, 25, 12, 11, 2)
_CHANGES = {
    "order_placed": (_LATE_COLUMNS, 0.3),
    "courier_position": (_CONFLICT, 0.1),
    "payment_captured": (_LATE_TABLE, 0.05),
}
"""Type → share of messages after which some come in their later form, and how many of them do."""
ROUTED = "page_viewed"
"""The type that goes by Kafka and a router where Kafka is part of the demo."""
_REPEAT_EVERY = 97
_REMEMBERED = 50


class Sample(NamedTuple):
    """One message to publish."""

    event_id: str
    """The publisher's identity of the event, sent as the attribute `event_id`; a repeat has that of the original."""
    body: bytes
    kind: Literal["event", "repeat", "poison"]
    type: str = ""
    """Of the event; empty for poison."""


def samples(total: int, rate: float, start: datetime.datetime, seed: int = SEED) -> Iterator[Sample]:
    """`total` messages, two of them poison. The same arguments make the same messages, byte for byte."""
    shop = Shop(seed, start)
    pick = random.Random(seed + 1)
    # What must be seen even in a short run has a place of its own; the rest is chance.
    forced = {
        0: ("page_viewed", False),
        1: ("order_placed", False),
        2: ("payment_captured", False),
        3: ("courier_position", False),
        int(total * _TICKETS): ("support_ticket_opened", False),
        int(total * _LATE_COLUMNS): ("order_placed", True),
        int(total * _CONFLICT): ("courier_position", True),
        int(total * _LATE_TABLE): ("payment_captured", True),
    }
    broken = {int(total * _NOT_JSON): _cut_off, int(total * _NOT_AN_OBJECT): _list_with_a_number}
    remembered: list[Sample] = []
    for number in range(total):
        if number in broken:
            yield Sample(_event_id(number), broken[number](shop, number / rate), "poison")
            continue
        if number == int(total * _REPEAT) or (number % _REPEAT_EVERY == 14 and number not in forced):
            yield pick.choice(remembered)._replace(kind="repeat")
            continue
        kind, changed = forced.get(number) or _choose(pick, number / total)
        body = orjson.dumps(shop.makers[kind](number / rate, changed))
        sample = Sample(_event_id(number), body, "event", kind)
        if kind != ROUTED:  # behind Kafka an event is known by its place there, not by the publisher's id
            remembered.append(sample)
        del remembered[:-_REMEMBERED]
        yield sample


def _event_id(number: int) -> str:
    return f"evt-{number + 1:06d}"


def _choose(pick: random.Random, share: float) -> tuple[str, bool]:
    kind = pick.choices(_TYPES, _WEIGHTS)[0]
    if kind == "support_ticket_opened" and share < _TICKETS:
        kind = "page_viewed"
    since, often = _CHANGES.get(kind, (1.0, 0.0))
    return kind, share >= since and pick.random() < often


def _cut_off(shop: Shop, second: float) -> bytes:
    """A publisher that died while it wrote."""
    return orjson.dumps(shop.page_viewed(second, False))[:58]


def _list_with_a_number(shop: Shop, second: float) -> bytes:
    """A batch in which one element is no object."""
    return orjson.dumps([shop.page_viewed(second, False), 42])
