from __future__ import annotations

import pytest

from loader.demo.ages import Ages
from loader.demo.progress import Dead, Progress
from loader.demo.publisher import Published
from loader.demo.receipt import Receipt


def receipt(**changes):
    figures = {"published": 100, "repeats": 5, "loaded": 92, "duplicates": 5, "dead_lettered": 2, "discarded": 1}
    return Receipt(**{**figures, **changes})


def test_a_receipt_balances_when_every_message_has_one_outcome():
    assert receipt().balanced
    assert receipt().verdict == "It balances: nothing lost, nothing doubled."


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"loaded": 91}, -1),
        ({"loaded": 95}, 3),
        ({"dead_lettered": 1}, -1),
        ({"discarded": 2}, 1),
        ({"duplicates": 4}, -1),
        ({"published": 1_105}, -1_005),
    ],
)
def test_a_receipt_that_does_not_balance_says_by_how_much(changes, difference):
    found = receipt(**changes)
    assert not found.balanced
    assert found.difference == difference
    assert f"{abs(difference):,}" in found.verdict


def test_repeated_deliveries_are_told_apart_and_hide_no_lost_event():
    assert receipt(duplicates=12).redelivered == 7
    assert receipt(duplicates=12).balanced
    # Seven events are missing, and seven deliveries were repeated: the sums agree, the receipt does not.
    assert receipt(duplicates=12, loaded=85).difference == -7


def test_the_wait_goes_on_for_a_lost_event_though_duplicates_make_up_for_it_in_number():
    published = Published(messages=100, repeats=5)
    progress = Progress(events={"order": 90}, duplicates=20, dead=[Dead("a", "not JSON", "")] * 2)
    assert progress.waiting(published) == 3
    progress.events["page"] = 3
    assert progress.waiting(published) == 0
    progress.duplicates = 4
    assert progress.waiting(published) == 1


def test_quantiles_are_right_to_one_per_cent():
    ages = Ages()
    for number in range(1, 1_001):
        ages.add(number / 100)
    assert ages.quantile(0.5) == pytest.approx(5.0, rel=0.01)
    assert ages.quantile(0.99) == pytest.approx(9.9, rel=0.01)
    assert ages.quantile(1.0) == pytest.approx(10.0, rel=0.01)


def test_ages_of_two_tables_are_merged_and_none_have_no_quantile():
    first, second = Ages(), Ages()
    assert first.quantile(0.5) is None
    first.add(0.0, 3)
    second.add(8.0)
    first.merge(second)
    assert first.count == 4
    assert first.quantile(0.75) == pytest.approx(0.001, rel=0.01)
    assert first.quantile(0.76) == pytest.approx(8.0, rel=0.01)
