"""The schema contract: whatever it says, each event is a row, a dead letter or a counted discard, and what loads
is whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from loading_harness import Loading

from loader.settings.contract import parse_contract

SEED = [{"eventName": "t", "a": 1, "l": [{"x": 1}], "d": {"y": 1}}]
EVENTS = [
    {"eventName": "t", "a": 2, "l": [{"x": 3}]},
    {"eventName": "t", "a": "text"},
    {"eventName": "t", "b": 1},
    {"eventName": "t", "l": [{"x": "text"}]},
    {"eventName": "t", "l": [{"z": 1}, {"x": 2}]},
    {"eventName": "t", "l": [{"n": [1]}]},
    {"eventName": "t", "d": {"z": 1, "y": "text"}},
    {"eventName": "t", "m": [1]},
    {"eventName": "t", "l": 7},
    {"eventName": "new", "a": 1},
]


@pytest.mark.parametrize(
    ("contract", "rows", "letters"),
    [
        ("evolve", 10, 0),
        ("freeze", 1, 9),
        ("discard_row", 1, 0),
        ("discard_value", 9, 0),
        ("columns=freeze", 6, 4),
        ("columns=discard_row,data_type=freeze", 4, 2),
        ("tables=freeze,columns=discard_value,data_type=discard_row", 4, 3),
        ("tables=discard_value,data_type=freeze", 6, 3),
    ],
)
def test_nothing_goes_uncounted(new_loading: Callable[..., Loading], contract: str, rows: int, letters: int) -> None:
    seeding = new_loading()
    seeding.load(SEED)
    loading = new_loading(schema_contract=parse_contract(contract))
    messages = loading.load(EVENTS)
    loading.assert_settled(messages)
    loading.load_messages(messages)  # once more: nothing is doubled, in whatever way it ended
    stored = sum(loading.count(table) for table in loading.tables() if "__" not in table) - 1
    assert (stored, len(loading.letters())) == (rows, letters)
    (kept,) = loading.execute("select count(distinct _event_id) from _discards").fetchone() or (0,)
    assert stored + letters + kept == len(EVENTS)


def test_a_discarded_event_is_kept_with_every_digit(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(schema_contract=parse_contract("discard_row"))
    loading.assert_settled(loading.load(['{"eventName": "t", "n": 123456789012345678901234567890}']))
    assert loading.execute("select body from _discards").fetchall() == [
        ('{"eventName": "t", "n": 123456789012345678901234567890}',)
    ]
