"""What a book remembers, and what it must forget when a table changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.plan import names
from loader.plan.book import CHILD_FIRST, ROOT_FIRST, Book, Column, PlanRules, Table
from loader.plan.fit import Fitter
from loader.plan.kind import BIGINT, JSONB, TEXT, TIMESTAMPTZ, kind_of
from loader.plan.map import is_map
from loader.plan.policy import Misfit

SYSTEM = ("id", "load", "event", 1, "2026-11-30 12:00:00+00")


OWN_KINDS = {names.DLT_LIST_IDX: BIGINT, names.EVENT_DIGEST: BIGINT, names.PUBLISHED_AT: TIMESTAMPTZ}


def table(name: str, first: tuple[str, ...], **columns: Any) -> Table:
    own = {column: Column(column, OWN_KINDS.get(column, TEXT)) for column in first}
    return Table(name, own | {key: Column(key, kind) for key, kind in columns.items()}, frozenset({f"{name}_key"}))


def tables(**leaf: Any) -> dict[str, Table]:
    return {
        "t": table("t", ROOT_FIRST, a=BIGINT),
        "t__list": table("t__list", CHILD_FIRST, b=BIGINT),
        "t__list__leaves": table("t__list__leaves", CHILD_FIRST, **leaf),
        "other": table("other", ROOT_FIRST, a=BIGINT),
    }


RECORD = {"a": 1, "list": [{"b": 2, "leaves": [{"c": 3}]}]}


def fit(book: Book, record: dict[str, Any], name: str = "t") -> Fitter:
    fitter = Fitter(book)
    fitter.fit(0, name, record, SYSTEM, False, None)
    return fitter


def test_a_changed_grandchild_leaves_no_stale_plan_above_it() -> None:
    older = Book(tables(c=BIGINT), PlanRules())
    fit(older, RECORD)
    fit(older, {"a": 1}, "other")
    newer = Book(tables(c=BIGINT, d=TEXT), PlanRules())
    newer.inherit(older)
    assert newer.plans.keys() == {"other"}
    fitted = fit(newer, {"list": [{"leaves": [{"c": 3, "d": "new"}]}]})
    rows = fitted.tables["t__list__leaves"]
    assert dict(zip(rows.plan.columns, rows.rows[0], strict=True))["d"] == "new"


def test_unchanged_tables_keep_their_plans() -> None:
    older = Book(tables(c=BIGINT), PlanRules())
    fit(older, RECORD)
    newer = Book(tables(c=BIGINT), PlanRules())
    newer.inherit(older)
    assert newer.plans == older.plans
    assert newer.plans["t"] is older.plans["t"]
    assert newer.slots == older.slots > 0


def test_a_table_that_is_gone_takes_the_plans_above_it_along() -> None:
    older = Book(tables(c=BIGINT), PlanRules())
    fit(older, RECORD)
    left = tables(c=BIGINT)
    del left["t__list__leaves"]
    newer = Book(left, PlanRules())
    newer.inherit(older)
    assert newer.plans == {}
    with pytest.raises(Misfit, match="t__list__leaves"):
        fit(newer, RECORD)


def test_a_misfit_leaves_no_rows_behind() -> None:
    book = Book(tables(c=BIGINT), PlanRules())
    fitter = Fitter(book)
    with pytest.raises(Misfit):
        fitter.fit(0, "t", {**RECORD, "unknown": 1}, SYSTEM, False, None)
    assert all(rows.rows == rows.owners == [] for rows in fitter.tables.values())
    fitter.fit(0, "t", RECORD, SYSTEM, False, None)
    assert {name: len(rows.rows) for name, rows in fitter.tables.items()} == {
        "t": 1,
        "t__list": 1,
        "t__list__leaves": 1,
    }


def test_a_table_without_a_unique_index_on_the_row_id_has_no_plan() -> None:
    book = Book(tables(c=BIGINT), PlanRules())
    book.tables["t"].row_keys = frozenset()
    assert book.plan("t") is None
    assert book.plan("other") is not None


def test_the_memory_for_keys_is_bounded_over_all_tables_and_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.plan.fit.MAX_SLOTS", 300)
    book = Book({"t": table("t", ROOT_FIRST, _overflow=JSONB)}, PlanRules(max_columns=1))
    fitter = Fitter(book)
    for start in range(0, 1_000, 100):
        fitter.fit(0, "t", {f"k{start}": {f"key {start + n}": n for n in range(100)}}, SYSTEM, False, None)
    assert book.slots == 300
    kept = [json.loads(row[-1]) for row in fitter.tables["t"].rows]
    assert sum(len(inner) for row in kept for inner in row.values()) == 1_000, "nothing is lost by that"
    assert book.forgetful().slots == 0
    assert book.forgetful().tables is book.tables


def test_keys_of_megabytes_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_CACHE_LIMIT", 0)
    book = Book({"t": table("t", ROOT_FIRST, _overflow=JSONB)}, PlanRules(max_columns=1, max_tables=1))
    fitter = Fitter(book)
    cached = names.naming._normalize_identifier, names.naming.shorten_identifier
    for function in cached:
        function.cache_clear()
    for number in range(5):
        long = f"k{number}" + "x" * 1_000_000
        record = {long: 1, "inner": {long: [{long: 2}]}, long + "y": None}
        fitter.fit(0, "t", record, SYSTEM, False, None)
        assert json.loads(fitter.tables["t"].rows.pop()[-1]) == {long: 1, "inner": {long: [{long: 2}]}}
    (node,) = book.plans["t"].nodes.values()
    kept = [*node.slots, *node.slots["inner"][3].node.slots]
    assert max(map(len, kept)) < 100
    assert cached[0].cache_info().currsize < 5
    names.trim_caches()
    assert [function.cache_info().currsize for function in cached] == [0, 0]


def test_long_keys_count_for_more_than_short_ones() -> None:
    book = Book({"t": table("t", ROOT_FIRST, _overflow=JSONB)}, PlanRules(max_columns=1))
    fit(book, {"a": 1})
    short = book.slots
    fit(book, {"b" * 900: 1})
    assert book.slots - short == 3


@given(st.text("aB_-*@|+ .é9\t/", min_size=1, max_size=90))
def test_a_long_key_is_spelled_as_dlt_spells_it(key: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "LONGEST_KEPT_KEY", 0)
        long = names.of_key(key)
    assert long == names.of_key(key)


def test_no_more_tables_are_made_once_all_are_taken() -> None:
    book = Book(tables(c=BIGINT), PlanRules(max_tables=4, default_table="other"))
    assert book.destination("t") == ("t", None)
    assert book.destination("fresh") == ("other", "fresh")
    assert book.destination("other") == ("other", None)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("_dlt_id", "payload_dlt_id"),
        ("_dlt_anything", "payload_dlt_anything"),
        ("_event_id", "payload_event_id"),
        ("ctid", "payload_ctid"),
        ("xmin", "payload_xmin"),
        ("oid", "oid"),
        ("_mine", "_mine"),
    ],
)
def test_reserved_columns_are_renamed(column: str, name: str) -> None:
    assert names.unreserved(column) == name


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("items", "items"),
        ("dltIdKey", "payload_dlt_id_key"),
        ("dlt_id_idx", "payload_dlt_id_idx"),
        ("a__dlt_id_key", "a__payload_dlt_id_key"),
        ("my_dlt_id_key", "my_dlt_id_key"),
    ],
)
def test_a_list_never_takes_the_name_of_an_index_for_its_table(key: str, name: str) -> None:
    assert names.of_list(key) == name


@pytest.mark.parametrize("key", ["", " ", "__", "\t"])
def test_a_key_of_which_nothing_is_left_has_a_name(key: str) -> None:
    assert names.of_key(key) in (names.EMPTY_KEY, "_", "x", "xx")
    assert names.of_key(key)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["6513270e-269e-0d37-f2a7-4de452e6b438"], True),
        (["cus_9s6XKzkNRiz8i3", "a@b.example"], True),
        (["20261130", "2026-11"], True),
        (["total", "20261130"], False),
        (["first_name", "accessibility", "item_description"], False),
        ([], False),
    ],
)
def test_which_objects_are_maps(keys: list[str], expected: bool) -> None:
    assert is_map(dict.fromkeys(keys, 1)) is expected


def test_a_dropped_type_modifier_makes_another_kind() -> None:
    assert kind_of("character varying(3)") is not kind_of("character varying")
    assert kind_of("bigint") is kind_of("bigint")
