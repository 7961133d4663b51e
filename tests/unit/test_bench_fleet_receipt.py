"""The receipt of `bench fleet` must balance to the message, and must not when a single value is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loader.bench.fleet.content import path_of, record_digest, row_digest, spelled, spelling_of
from loader.bench.fleet.ledger import Compared, Ledger
from loader.bench.fleet.receipt import Receipt
from loader.bench.fleet.stored import Letters, Noted

GOOD = Receipt(
    published=1_000,
    messages=1_000,
    twice=10,
    twice_loadable=9,
    rows=985,
    content=Compared(),
    letters=Letters(open=5),
    noted=Noted(events=985, duplicates=12, loads=7),
)


def test_a_receipt_balances_when_every_message_is_accounted_for() -> None:
    assert GOOD.balanced
    assert GOOD.complaint() == ""
    assert GOOD.duplicates_averted == 12
    assert GOOD.as_dict()["balanced"] is True


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rows": 984, "noted": Noted(984, 12, 7)}, "1,000 = 984 + 5 + 10"),
        ({"rows": 986, "noted": Noted(986, 12, 7)}, "1,000 = 986 + 5 + 10"),
        ({"published": 999}, "999 = 985 + 5 + 10"),
        ({"letters": Letters(open=6, unexpected=1)}, "1 unexpected"),
        ({"letters": Letters(open=5, missing=1, doubled=1)}, "1 missing, 1 doubled"),
        ({"letters": Letters(open=5, different=1)}, "1 different"),
        ({"content": Compared(missing=1, unexpected=1)}, "1 missing"),
        ({"content": Compared(different=1, examples=("fleet/1/7: different",))}, "fleet/1/7"),
        ({"content": Compared(doubled=1)}, "1 doubled"),
        ({"noted": Noted(984, 12, 7)}, "985 = 984"),
        ({"noted": Noted(985, 8, 7)}, "8 >= 9"),
        ({"gaps": ("load 5, table orders: 1 rows missing",)}, "load 5, table orders"),
        ({"unacked": 1}, "1 unacked"),
        ({"unasked": ("worker 3 ended with exit code 1: …",)}, "worker 3 ended"),
    ],
)
def test_a_receipt_with_one_thing_wrong_does_not_balance_and_says_so(change: dict[str, Any], complaint: str) -> None:
    receipt = replace(GOOD, **change)
    assert not receipt.balanced
    assert complaint in receipt.complaint()


RECORD = {"kind": "orders", "number": 7, "ok": True, "amount": 12.0, "gone": None, "items": [{"count": 1}, {}]}


def _rows(ledger: Ledger, number: int, amount: str = "n:12", items: tuple[str, ...] = ("0", "1")) -> None:
    values = [("amount", amount), ("kind", "s:orders"), ("number", "n:7"), ("ok", "b:t")]
    ledger.find(number, row_digest("orders", "", values), True, "e")
    for place in items:
        ledger.find(number, row_digest("orders__items", place, [("count", "n:1")] * (place == "0")), False, "e")


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger(3)
    for number in (0, 1):
        made.expect(number, record_digest("orders", RECORD))
    _rows(made, 0)
    return made


def found(ledger: Ledger) -> tuple[int, int, int, int]:
    compared = ledger.compare(lambda number: f"event {number}")
    return compared.missing, compared.doubled, compared.different, compared.unexpected


def test_a_ledger_is_even_when_every_event_has_its_rows(ledger: Ledger) -> None:
    _rows(ledger, 1)
    assert found(ledger) == (0, 0, 0, 0)
    assert ledger.compare(str).equal
    assert ledger.rows == 2


def test_a_lost_event_is_missing(ledger: Ledger) -> None:
    assert found(ledger) == (1, 0, 0, 0)
    assert ledger.compare(lambda number: f"event {number}").examples == ("event 1: missing",)


def test_an_event_with_two_root_rows_is_doubled(ledger: Ledger) -> None:
    _rows(ledger, 1)
    _rows(ledger, 1)
    assert found(ledger) == (0, 1, 0, 0)


@pytest.mark.parametrize("amount", ["n:12.5", "s:12", "b:t"])
def test_a_wrong_value_or_type_makes_an_event_different(ledger: Ledger, amount: str) -> None:
    _rows(ledger, 1, amount=amount)
    assert found(ledger) == (0, 0, 1, 0)


@pytest.mark.parametrize("items", [(), ("0",), ("0", "1", "1"), ("1", "0", "2")])
def test_a_missing_or_additional_child_row_makes_an_event_different(ledger: Ledger, items: tuple[str, ...]) -> None:
    _rows(ledger, 1, items=items)
    assert found(ledger) == (0, 0, 1, 0)


def test_rows_of_poison_of_strangers_and_orphans_are_unexpected(ledger: Ledger) -> None:
    _rows(ledger, 1)
    _rows(ledger, 2)
    ledger.find(None, 5, True, "somebody else's")
    ledger.find(None, 5, False, "a row of orders__items without a parent")
    assert found(ledger) == (0, 0, 0, 3)


def test_values_that_changed_their_type_on_the_way_are_told_apart() -> None:
    assert len({spelled(value) for value in ("1", 1, True, 1.5, "1.5", "true")}) == 6
    assert spelled(12.0) == spelled(12) == spelling_of("double precision")("12") == spelling_of("bigint")("12")
    assert spelled(0.1) == spelling_of("double precision")("0.1")
    assert spelled("2026-01-02T03:04:05.120Z") == spelling_of("timestamp with time zone")("2026-01-02 03:04:05.12+00")
    assert spelled("2026-01-02T03:04:05.000Z") == spelling_of("timestamp with time zone")("2026-01-02 03:04:05+00")
    assert spelling_of("numeric")("1") != spelled(1)


def test_a_variant_column_has_the_path_of_its_own_column() -> None:
    assert path_of("status__v_text") == "status"
    assert path_of("detail__source__version") == "detail__source__version"
