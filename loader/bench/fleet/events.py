"""The events of a run: the same for the same seed, each made from its number alone, over tables that drift.

A table's records gain keys from phase to phase of the backlog, and at times a value has another type than before."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Any

KEY = "kind"
"""LOADER_TABLE_KEY."""
ATTRIBUTE = "event_id"
"""LOADER_EVENT_ID_ATTRIBUTE."""
TABLES = (
    "orders", "payments", "refunds", "visits", "clicks", "searches", "carts", "sessions", "signups", "logins",
    "shipments", "returns", "reviews", "messages", "invoices", "coupons", "transfers", "alerts", "readings", "errors",
)  # fmt: skip
PHASES = 12
_FARTHEST = 30_000
"""Events between the first and the second publication of one, at most."""

_numbers = Struct("<8Q").unpack
_pair = Struct("<qq").pack
_CITIES = ("Zürich", "São Paulo", "東京", "Oslo", "Köln", "Lima")


class Events:
    """All events of a run. `distinct` of them have numbers from 0; some are published twice, some are poison."""

    def __init__(self, messages: int, twice: float, poison: float, seed: int) -> None:
        self.messages = messages
        """Publications, second ones included."""
        self.twice = round(messages * twice)
        self.distinct = messages - self.twice
        self.poison = round(messages * poison)
        """Events that can never be loaded, of the distinct ones."""
        self._seed = seed
        self._shift = seed * 7919

    def identity(self, number: int) -> str:
        """The event id."""
        return f"fleet/{self._seed}/{number}"

    def number(self, identity: str) -> int | None:
        """The number of an event id, None for one that was never published."""
        start, _, digits = identity.rpartition("/")
        if start != f"fleet/{self._seed}" or not digits.isascii() or not digits.isdigit():
            return None
        number = int(digits)
        return number if number < self.distinct and str(number) == digits else None

    def is_poison(self, number: int) -> bool:
        """Whether the event can never be loaded: exactly `poison` of all are, at even distances."""
        return self._one_of(self.poison, (number + self._shift) % self.distinct)

    def is_published_twice(self, number: int) -> bool:
        """Exactly `twice` of all are, at even distances."""
        return self._one_of(self.twice, number)

    def _one_of(self, wanted: int, number: int) -> bool:
        return number * wanted // self.distinct != (number + 1) * wanted // self.distinct

    def stream(self) -> Iterator[int]:
        """Numbers in publish order; those published twice come again within the next 30,000."""
        again: list[tuple[int, int]] = []
        for number in range(self.distinct):
            while again and again[0][0] <= number:
                yield heapq.heappop(again)[1]
            yield number
            if self.is_published_twice(number):
                later = number + 1 + self._draws(number)[7] % min(_FARTHEST, max(1, self.distinct // 10))
                heapq.heappush(again, (later, number))
        while again:
            yield heapq.heappop(again)[1]

    def body(self, number: int) -> bytes:
        """What is published."""
        if not self.is_poison(number):
            return encode(self.record(number))
        kind = self._draws(number)[6] % 4
        if kind == 0:
            return f"event {number} is not JSON".encode()
        if kind == 1:
            return encode(self.record(number))[:-1]
        if kind == 2:
            return b"\xff\xfe\x00" + str(number).encode()
        return f"[[{number}]]".encode()

    def _draws(self, number: int) -> tuple[int, ...]:
        return _numbers(blake2b(_pair(self._seed, number)).digest())

    def record(self, number: int) -> dict[str, Any]:
        """The event before encoding, as if it were no poison."""
        which, instant, user, amount, rare, details, added, _ = self._draws(number)
        index = which % len(TABLES)
        phase = number * PHASES // self.distinct
        offset = index % 3
        record: dict[str, Any] = {
            KEY: TABLES[index],
            "number": number,
            "at": _instant(instant),
            "user": f"u-{user % 1_000_000:06d}",
            "city": _CITIES[user % 7] if user % 7 < 6 else None,
            "amount": amount % 100_000 / 100,
            "status": amount % 6 * 100,
            "ok": bool(amount & 64),
        }
        # One record in eight or sixteen says the same in another type than all before it.
        if phase >= 3 + offset and rare % 8 == 0:
            record["status"] = "retrying"
        if phase >= 6 + offset and rare >> 8 & 15 == 0:
            record["user"] = user % 1_000_000
        if phase >= 9 and rare >> 16 & 15 == 0:
            record["amount"] = f"{amount % 1000},50 EUR"
        if index % 2 == 0:
            record["detail"] = _detail(details, phase, rare)
        if index % 4 == 1:
            record["items"] = [_item(details >> 8 * place, phase) for place in range(details % 4)]
        for place in range(1, phase + 1):
            if added >> 2 * place & 3:
                record[f"added_{place}"] = _added(index + place, details >> place)
        return record


def encode(record: dict[str, Any]) -> bytes:
    """As it is published."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def _instant(draw: int) -> str:
    return (
        f"2026-{draw % 12 + 1:02d}-{draw // 12 % 28 + 1:02d}T{draw >> 12 & 15:02d}:{(draw >> 16) % 60:02d}"
        f":{(draw >> 24) % 60:02d}.{(draw >> 32) % 1000:03d}Z"
    )


def _detail(draw: int, phase: int, rare: int) -> Any:
    if phase >= 8 and rare >> 24 & 15 == 0:
        return f"none, see {draw % 1000}\t\\N"
    detail: dict[str, Any] = {"code": draw % 50, "source": {"name": f"s{draw >> 8 & 15}"}}
    if phase >= 5:
        detail["source"]["version"] = f"1.{draw >> 12 & 15}"
    return detail


def _item(draw: int, phase: int) -> dict[str, Any]:
    item: dict[str, Any] = {"sku": f"s-{draw % 10_000}", "count": draw >> 4 & 7, "price": draw % 9_999 / 100}
    if phase >= 4:
        item["gift"] = bool(draw & 1024)
    if phase >= 7 and draw & 15 == 0:
        item["count"] = "a dozen"
    return item


def _added(kind: int, draw: int) -> Any:
    return (draw % 1_000_000, f"text {draw % 1000}", draw % 1000 / 8, bool(draw & 1))[kind % 4]
