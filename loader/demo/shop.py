"""An online shop that delivers: five types of events as its services might publish them.

Two of them change while the demo runs, as payloads do: keys arrive late, and a number turns into text."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

_PRODUCTS = (
    ("TEA-0042", "Assam, 250 g", 8.9),
    ("TEA-0108", "Sencha, 100 g", 12.5),
    ("CUP-0007", "Stoneware cup", 17.25),
    ("POT-0001", "Cast iron teapot", 64.0),
    ("HON-0300", "Heather honey", 9.75),
)
_CUSTOMERS = (
    ("Aoife Byrne", "12 Quay Street", "Galway", "H91 X2C4", "IE"),
    ("Jonas Weber", "Lindenallee 3", "Leipzig", "04105", "DE"),
    ("Mei Tanaka", "2-4-1 Sakae", "Nagoya", "460-0008", "JP"),
    ("Lucía Ortega", "Calle Sol 9", "Sevilla", "41003", "ES"),
    ("Sam Okafor", "88 Main Street", "Holtsville", "00501", "US"),
)
_PAGES = ("/", "/tea", "/tea/assam", "/pots", "/basket", "/checkout")
_SUBJECTS = ("Parcel not here yet", "Cup arrived broken", "Change my address", "Invoice with VAT, please")
Payload = dict[str, Any]


class Shop:
    """Makes payloads. The same seed and start make the same ones in the same order."""

    def __init__(self, seed: int, start: datetime.datetime) -> None:
        self._random = random.Random(seed)
        self._start = start
        self._orders = 1_000
        self._payments = 70_000
        self._tickets = 300
        self.makers: dict[str, Callable[[float, bool], Payload]] = {
            "page_viewed": self.page_viewed,
            "order_placed": self.order_placed,
            "payment_captured": self.payment_captured,
            "courier_position": self.courier_position,
            "support_ticket_opened": self.support_ticket_opened,
        }
        """Event type → maker of `(seconds since the start, changed)`; `changed` is the payload's later form."""

    def _time(self, second: float) -> str:
        return (self._start + datetime.timedelta(seconds=second)).isoformat(timespec="milliseconds")

    def page_viewed(self, second: float, changed: bool) -> Payload:
        """The most frequent one, with a list of plain texts now and then."""
        pick = self._random
        payload: Payload = {
            "type": "page_viewed",
            "viewed_at": self._time(second),
            "path": pick.choice(_PAGES),
            "load_ms": pick.randint(40, 900),
            "visitor": {"id": f"v{pick.getrandbits(32):08x}", "returning": pick.random() < 0.4},
            "device": {"os": pick.choice(("iOS", "Android", "Windows")), "width": pick.choice((390, 820, 1920))},
        }
        if pick.random() < 0.2:
            payload["experiments"] = pick.sample(("short-checkout", "new-menu", "big-photos"), 2)
        return payload

    def order_placed(self, second: float, changed: bool) -> Payload:
        """Two levels of nesting and two of lists; later with a gift note and loyalty points."""
        pick = self._random
        self._orders += 1
        name, street, city, postcode, country = pick.choice(_CUSTOMERS)
        items = []
        for sku, title, price in pick.sample(_PRODUCTS, pick.randint(1, 3)):
            item: Payload = {"sku": sku, "title": title, "quantity": pick.randint(1, 3), "price": price}
            if pick.random() < 0.4:
                item["discounts"] = [{"code": pick.choice(("SPRING", "WELCOME")), "percent": pick.choice((5, 10))}]
            items.append(item)
        payload: Payload = {
            "type": "order_placed",
            "order_id": self._orders,
            "placed_at": self._time(second),
            "customer": {
                "name": name,
                "address": {"street": street, "city": city, "postcode": postcode, "country": country},
            },
            "items": items,
            "total": round(sum(item["price"] * item["quantity"] for item in items), 2),
            "currency": "EUR",
        }
        if changed:
            payload["gift_note"] = pick.choice(("Happy birthday!", "Get well soon", "For the new kitchen"))
            payload["loyalty"] = {"tier": pick.choice(("leaf", "bud")), "points": pick.randint(5, 120)}
        return payload

    def payment_captured(self, second: float, changed: bool) -> Payload:
        """Amounts, and card digits that must stay text; later with a list of refunds, which is a table of its own."""
        pick = self._random
        self._payments += 1
        payload: Payload = {
            "type": "payment_captured",
            "payment_id": self._payments,
            "order_id": pick.randint(1_001, max(1_001, self._orders)),
            "captured_at": self._time(second),
            "amount": {"value": round(pick.uniform(8, 180), 2), "currency": "EUR"},
            "card": {"brand": pick.choice(("visa", "mastercard")), "last4": f"{pick.randint(0, 9_999):04d}"},
        }
        if changed:
            payload["refunds"] = [{"reason": "damaged", "value": round(pick.uniform(2, 8), 2)}]
        return payload

    def courier_position(self, second: float, changed: bool) -> Payload:
        """A new version of the app sends the battery as text: the type conflict."""
        pick = self._random
        battery = pick.randint(5, 100)
        return {
            "type": "courier_position",
            "courier": {"id": pick.randint(1, 40), "vehicle": pick.choice(("bike", "van"))},
            "at": self._time(second),
            "position": {"lat": round(pick.uniform(53.2, 53.4), 5), "lon": round(pick.uniform(-9.2, -8.9), 5)},
            "battery": f"{battery}%" if changed else battery,
        }

    def support_ticket_opened(self, second: float, changed: bool) -> Payload:
        """Rare, and unknown until a while after the start: a table that arrives late."""
        pick = self._random
        self._tickets += 1
        subject = pick.choice(_SUBJECTS)
        messages: list[Payload] = [{"author": "customer", "text": f"{subject}. Can you help?"}]
        if pick.random() < 0.5:
            messages[0]["attachments"] = [{"name": "photo.jpg", "bytes": pick.randint(20_000, 900_000)}]
        return {
            "type": "support_ticket_opened",
            "ticket_id": self._tickets,
            "opened_at": self._time(second),
            "subject": subject,
            "priority": pick.choice(("low", "normal", "high")),
            "messages": messages,
        }
