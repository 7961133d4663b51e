"""Records whose types drift by path and by message: every scalar that goes in is found in the tables, exactly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from leaves import sent, stored
from loading_harness import Loading

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64 - 1, 2**64, 2**64 + 1, 10**29, -(10**40)]),
    st.sampled_from([0.5, 1.0, 1e16, 1e22, 9.3e18, 1e300, 5e-324, 0.1]),
    st.sampled_from(
        ["", " ", "00501", "NaN", "Infinity", "now", "infinity", "today", "2026-02-30", "2026-02-30T00:00:00Z", "true",
         "0x10", "1_000", "null", "\\N", "\\.", "a\tb\nc", "x" * 300, "2026-11-30", "2026-11-30T12:00:00Z",
         "2026-11-30T12:00:00", "2026-11-30 12:00:00+05:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
         "0000-00-00T00:00:00Z", "12026-11-30T12:00:00Z", "\uf0262026", "e\u0301", "\U0001f600", "{}", "{1,2}", "5",
         "1e999", "18446744073709551616"]
    ),
)  # fmt: skip
KEYS = st.sampled_from(
    ["a", "A", "a ", "b", "userId", "user_id", "UserID", "user id", "value", "list", "a__b", "a__v_text", "a__v_bigint",
     "", " ", "é", "日本", "select", "_dlt_id", "_event_id", "payload_dlt_id", "_overflow", "ctid", "_dlt_list_idx",
     "y" * 70, "y" * 70 + "z", "1st", "m5a0c1"]
)  # fmt: skip
MAP_KEYS = st.sampled_from(["6513270e-269e-0d37-f2a7-4de452e6b438", "20261130", "507f1f77bcf86cd799439011"])


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(KEYS, values, max_size=5)


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), objects(inner), st.dictionaries(MAP_KEYS, inner, min_size=1, max_size=2)
    ),
    max_leaves=12,
)
RECORDS = st.lists(objects(VALUES), min_size=1, max_size=25)
_numbers = itertools.count()


@pytest.mark.parametrize("rules", [{}, {"max_nesting": 0}, {"max_nesting": 1}, {"max_columns": 20}, {"max_tables": 3}])
def test_no_leaf_is_lost_or_changed(new_loading: Callable[..., Loading], rules: dict[str, int]) -> None:
    # Shrinking would run a database through thousands of examples: small ones are drawn often enough.
    @settings(
        max_examples=10,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(RECORDS, st.integers(1, 25))
    def check(records: list[dict[str, Any]], size: int) -> None:
        loading = new_loading(dataset=f"d{next(_numbers)}", table_key=None, default_table="drift", **rules)
        try:
            for start in range(0, len(records), size):
                messages = loading.load(json.dumps(record) for record in records[start : start + size])
                loading.assert_settled(messages)
            assert loading.letters() == []
            missing, extra = sent(records) - stored(loading), stored(loading) - sent(records)
            assert (missing, extra) == ({}, {})
            assert loading.count("drift") == len(records)
            assert not loading.patience.errors
        finally:
            loading.execute(f"drop schema if exists {loading.dataset} cascade")
            loading.close()

    check()


@pytest.mark.parametrize("shapes", list(itertools.permutations([5, {"b": 5}, [5, [6]]])))
def test_scalar_dict_and_list_at_one_path_in_any_order(loading: Loading, shapes: list[Any]) -> None:
    records = [{"eventName": "t", "a": shape} for shape in shapes]
    for record in records:
        loading.load([record])
    loading.load(records)
    assert stored(loading) == sent(records * 2)
    assert loading.letters() == []


def test_keys_that_clean_to_one_name_in_one_object(loading: Loading) -> None:
    records: list[dict[str, Any]] = [
        {"eventName": "t", "userId": 1, "user_id": 2, "User ID": 3},
        {"eventName": "t", "user_id": [1, 2], "userId": [3, 4], "UserId": {"x": [5]}},
        {"eventName": "t", "user_id": {"x": 1, "X": 2}, "userId": {"x": 3}},
        {"eventName": "t", "a": {"b": [1]}, "a__b": [2], "a ": {"b": [3]}},
        {"eventName": "t", "x": 2**70, "x__v_text": "mine"},
        {"eventName": "t", "x__v_text": "mine", "x": 2**70},
    ]
    for record in records:
        loading.load([record])
        loading.load([record])
    loading.load(records)
    assert stored(loading) == sent(records * 3)
    assert loading.letters() == []


def test_beyond_the_budget_colliding_keys_and_objects_under_them_lose_nothing(
    new_loading: Callable[..., Loading],
) -> None:
    loading = new_loading(max_columns=20)
    filler = {f"k{n}": n for n in range(40)}
    records: list[dict[str, Any]] = [
        {"eventName": "t", **filler},
        {"eventName": "t", "z": 1, "Z": {"b": 2}},
        {"eventName": "t", "Z": {"b": 2}, "z": 1, "z ": [3]},
        {"eventName": "t", "z": {"b": 1}, "Z": {"B": 2, "b": 3}, "z__b": 4},
        {"eventName": "t", "z": [1, 2], "Z": [3, {"b": 4}]},
    ]
    for record in records:
        loading.load([record])
    loading.load(records)
    assert stored(loading) == sent(records * 2)
    assert loading.letters() == []


def test_a_map_that_was_empty_at_first_does_not_become_columns(loading: Loading) -> None:
    ids = [f"{n:08d}" for n in range(30)]
    loading.load([{"eventName": "t", "scores": {}}, {"eventName": "t", "scores": {ids[0]: 1}}])
    loading.load([{"eventName": "t", "scores": {}}, *({"eventName": "t", "scores": {key: 1}} for key in ids)])
    assert loading.columns("t") == {"event_name": "text", "scores": "jsonb"}


def test_a_record_of_an_object_and_a_map_of_ids_in_one_bundle(loading: Loading) -> None:
    records = [
        {"eventName": "t", "scores": {"total": 1}},
        *({"eventName": "t", "scores": {f"{n:08d}": n}} for n in range(30)),
    ]
    loading.load(records)
    assert len(loading.columns("t")) < 6
    assert stored(loading) == sent(records)


@pytest.mark.parametrize(
    "body", ['\ufeff{"o":{"n":18446744073709551616}}', '{"s":"\\ud83d","o":{"n":99999999999999999999}}']
)
def test_big_integers_in_bodies_that_only_the_slow_parser_reads(new_loading: Callable[..., Loading], body: str) -> None:
    loading = new_loading(max_nesting=0)
    loading.load([body])
    assert loading.letters() == []
    number = loading.execute("select o ->> 'n' from unknown").fetchone()
    assert number is not None
    assert number[0] in body


def test_more_spellings_of_keys_than_a_plan_remembers(
    new_loading: Callable[..., Loading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.plan.fit.MAX_SLOTS", 3)
    loading = new_loading(max_columns=20)
    spellings = ["userId", "user_id", "user id", "user-id", "USER_ID", "User Id", "user.id"]
    records: list[dict[str, Any]] = [{"eventName": "t", "p": 1, "q": 2, "r": 3}]
    for first, second in itertools.permutations(spellings, 2):
        records.append({"eventName": "t", first: 1, second: 2, "p": 3})
        records.append({"eventName": "t", first: [1, {"x": 1}], second: [2], "q": [4]})
        records.append({"eventName": "t", first: {"x": 1}, second: {"x": 2}})
    for start in range(0, len(records), 20):
        loading.load(records[start : start + 20])
    loading.load(records)
    assert stored(loading) == sent(records * 2)
    assert loading.letters() == []


@pytest.mark.parametrize("nesting", [1, 10])
def test_lists_under_two_keys_that_shared_a_column_before(new_loading: Callable[..., Loading], nesting: int) -> None:
    loading = new_loading(max_nesting=nesting)
    records: list[dict[str, Any]] = [
        {"eventName": "t", "user_id": False},
        {"eventName": "t", "userId": [1], "user_id": [2]},
        {"eventName": "t", "user_id": [2**70, {"a": 1}], "userId": [1], "UserId": [[3]]},
    ]
    for start in range(3):
        loading.load(records[start:] + records[:start])
    assert stored(loading) == sent(records * 3)
    assert loading.letters() == []
    assert loading.patience.errors == []
