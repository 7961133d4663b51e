from __future__ import annotations

import datetime
import json

import pytest

from loader.demo.events import FEWEST, samples

START = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)


def bodies(kind, total=3_000, only="event"):
    return [json.loads(one.body) for one in samples(total, 500, START) if one.kind == only if kind in one.body.decode()]


def test_the_same_seed_makes_the_same_bytes_and_another_seed_others():
    first, again = list(samples(500, 100, START)), list(samples(500, 100, START))
    assert first == again
    assert first != list(samples(500, 100, START, seed=8))


@pytest.mark.parametrize("total", [FEWEST, 21, 60, 400, 7_500])
def test_everything_that_is_to_be_seen_comes_even_in_a_short_run(total):
    made = list(samples(total, 100, START))
    events = [json.loads(one.body) for one in made if one.kind == "event"]
    assert len(made) == total
    assert len({event["type"] for event in events}) == 5
    assert sum(one.kind == "poison" for one in made) == 2
    assert any(one.kind == "repeat" for one in made)
    assert any("gift_note" in event for event in events)
    assert any("refunds" in event for event in events)
    assert {type(event["battery"]) for event in events if "battery" in event} == {int, str}


def test_columns_and_a_table_arrive_late():
    orders, payments = bodies("order_placed"), bodies("payment_captured")
    first_note = next(position for position, order in enumerate(orders) if "gift_note" in order)
    first_refund = next(position for position, payment in enumerate(payments) if "refunds" in payment)
    assert first_note > len(orders) / 4
    assert first_refund > len(payments) / 2


def test_orders_nest_objects_and_lists_in_lists():
    orders = bodies("order_placed")
    assert all(order["customer"]["address"]["postcode"] for order in orders)
    assert any("discounts" in item for order in orders for item in order["items"])


def test_one_poison_is_no_json_and_the_other_is_a_list_with_a_number():
    cut_off, mixed = [one.body for one in samples(400, 100, START) if one.kind == "poison"]
    with pytest.raises(ValueError):
        json.loads(cut_off)
    assert [type(element) for element in json.loads(mixed)] == [dict, int]


def test_a_repeat_is_an_earlier_message_byte_for_byte_and_no_other_message_shares_an_event_id():
    seen = {}
    for one in samples(3_000, 500, START):
        if one.kind == "repeat":
            assert seen[one.event_id] == one.body
        else:
            assert one.event_id not in seen
            seen[one.event_id] = one.body
