"""Keys that spell the names that dlt and the loader make themselves: one such event must not cost another its place."""

from __future__ import annotations

from typing import Any

import pytest
from loading_harness import Loading

GOOD = {"id": 1, "city": "Berlin"}
MAP = {"20261130": 1}


@pytest.mark.parametrize(
    "poison",
    [
        {"customer": {"id": 1, "v_json": "anything"}},
        {"customer__v_json": "anything"},
        {"customer": {"v_json": {"id": 1}}},
        {"customer": {"v_text": 1, "v_bigint": "x"}, "customer__v_double": [1]},
    ],
)
def test_an_event_whose_key_spells_a_variant_column_leaves_the_next_ones_their_place(
    loading: Loading, poison: dict[str, Any]
) -> None:
    for records in ([{"customer": GOOD}] * 5, [poison], [{"customer": GOOD}] * 5):
        loading.load([{"eventName": "order", **record} for record in records])
    assert loading.letters() == []
    assert loading.count("order") == 11
    assert sum(row.get("customer__city") == "Berlin" for row in loading.rows("order")) == 10


@pytest.mark.parametrize(
    "bundles",
    [
        [[{"a": 5}], [{"a": MAP, "A": {"l": "x"}}]],
        [[{"a": 5}], [{"a": MAP}], [{"a": MAP, "A": {"l": "x"}}]],
        [[{"a": 5}], [{"A": {"l": "x"}, "a": MAP}, {"a": MAP, "A": {"l": "x"}}]],
        [[{"a": 5}], [{"a": MAP}], [{"a": {"l": "x"}, "A": {"l": "x"}}]],
    ],
)
def test_a_map_and_an_object_under_keys_of_one_name_are_both_kept(
    loading: Loading, bundles: list[list[dict[str, Any]]]
) -> None:
    for records in bundles:
        loading.load([{"eventName": "order", **record} for record in records])
    assert loading.letters() == []
    rows = loading.rows("order")
    assert len(rows) == sum(map(len, bundles))
    for row, record in zip(rows, (record for records in bundles for record in records), strict=True):
        assert ("x" in str(row)) == ("x" in str(record))
        assert ("20261130" in str(row)) == ("20261130" in str(record))


def test_the_columns_of_a_map_that_was_flattened_go_on_to_be_filled(loading: Loading) -> None:
    loading.load([{"eventName": "order", "sales": {"2026": 1, "2027": 2, "total": 3}}])
    loading.load([{"eventName": "order", "sales": {"2026": 4, "2027": 5}, "new": True}])
    assert loading.letters() == []
    columns = loading.columns("order")
    assert "sales" not in columns
    assert [row["sales___2027"] for row in loading.rows("order")] == [2, 5]
