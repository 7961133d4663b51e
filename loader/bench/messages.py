"""Messages to measure with: four shapes, each the same for the same number, as a publisher would send them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from loader.message.message import Message

TABLE_KEY = "type"
_FIRST_ID = 13_000_000_000_000_000
_FIRST_PUBLISHED = 1_796_000_000_000_000
_COUNTRIES = ("DE", "FR", "US", "BR", "IN", "JP")
_PATHS = ("/", "/products", "/cart", "/checkout", "/help/returns", "/search")


def _instant(number: int, rng: random.Random) -> str:
    return f"2026-11-30T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.{rng.randrange(1000):03d}Z"


def flat(number: int, rng: random.Random) -> dict[str, Any]:
    """10 keys, about 190 bytes: six texts (one an instant), two integers, a float, a boolean."""
    return {
        "type": "page_view",
        "visit": number,
        "user": f"u-{rng.randrange(1_000_000):06d}",
        "at": _instant(number, rng),
        "path": rng.choice(_PATHS),
        "country": rng.choice(_COUNTRIES),
        "session": f"{rng.getrandbits(64):016x}",
        "status": 200,
        "took_ms": round(rng.random() * 500, 2),
        "mobile": rng.random() < 0.4,
    }


def nested(number: int, rng: random.Random) -> dict[str, Any]:
    """Three objects, one of them in another; 12 columns, about 230 bytes."""
    return {
        "type": "api_call",
        "at": _instant(number, rng),
        "caller": {
            "id": rng.randrange(1_000_000),
            "plan": rng.choice(("free", "pro")),
            "country": rng.choice(_COUNTRIES),
        },
        "request": {
            "method": rng.choice(("GET", "POST")),
            "path": rng.choice(_PATHS),
            "size": rng.randrange(10_000),
            "client": {"name": "sdk", "version": f"1.{rng.randrange(20)}"},
        },
        "status": rng.choice((200, 201, 404)),
        "took_ms": round(rng.random() * 500, 2),
    }


def lists(number: int, rng: random.Random) -> dict[str, Any]:
    """A root and five child rows: three objects and two texts in lists; about 265 bytes."""
    return {
        "type": "order",
        "at": _instant(number, rng),
        "order": number,
        "customer": f"u-{rng.randrange(1_000_000):06d}",
        "items": [
            {"sku": f"s-{rng.randrange(10_000)}", "quantity": rng.randrange(1, 9), "price": round(rng.random() * 99, 2)}
            for _ in range(3)
        ],
        "coupons": [f"c-{rng.randrange(1_000)}", f"c-{rng.randrange(1_000)}"],
        "total": round(rng.random() * 300, 2),
    }


def mixed(number: int, rng: random.Random) -> dict[str, Any]:
    """60 % flat, 30 % nested, 10 % with lists: five tables, 1.5 rows a message."""
    part = rng.random()
    return (flat if part < 0.6 else nested if part < 0.9 else lists)(number, rng)


SHAPES: dict[str, Callable[[int, random.Random], dict[str, Any]]] = {
    "flat": flat,
    "nested": nested,
    "lists": lists,
    "mixed": mixed,
}


def bodies(shape: str, count: int, start: int = 0) -> Iterator[bytes]:
    """`count` bodies of a shape, from number `start`."""
    make = SHAPES[shape]
    rng = random.Random(start)
    for number in range(start, start + count):
        yield json.dumps(make(number, rng), separators=(",", ":")).encode()


def padded(size: int, count: int, start: int = 0) -> Iterator[bytes]:
    """Flat bodies with a text that makes each `size` bytes long."""
    for body in bodies("flat", count, start):
        room = size - len(body) - len(',"note":""')
        yield body[:-1] + b',"note":"' + b"x" * max(0, room) + b'"}'


def messages(shape: str, count: int, start: int = 0) -> list[Message]:
    """Messages as the puller hands them over: ids that grow, 20 of them a millisecond, no attributes."""
    return [
        Message(f"ack-{number}", str(_FIRST_ID + number * 7), body, {}, _FIRST_PUBLISHED + number * 50, 0)
        for number, body in enumerate(bodies(shape, count, start), start)
    ]
