"""Moulds: a record that repeats a shape becomes the very rows that the walk through its keys makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.learn.lesson import study
from loader.message.message import Event, Message
from loader.plan import fit as fit_module
from loader.plan import mould as mould_module
from loader.plan.book import Book, Column, PlanRules, Table
from loader.plan.fitting import Fitted, Source, fit_events
from loader.plan.kind import BY_DATA_TYPE
from loader.plan.mould import MAX_KEYS, MAX_MOULDS, Mould
from loader.settings.contract import SchemaContract

RULES = PlanRules()


def events_of(records: list[dict[str, Any]]) -> list[Event]:
    return [
        Event(Message(f"ack-{n}", f"m-{n:05d}", json.dumps(record).encode(), {}, n, 0), f"m-{n:05d}", n, "t", record)
        for n, record in enumerate(records)
    ]


def source_of(events: list[Event]) -> Source:
    records = {event.identity: event.record or {} for event in events}
    return Source(record=lambda event: records[event.identity], exact=lambda event: records[event.identity])


def book_for(records: list[dict[str, Any]]) -> Book:
    events = events_of(records)
    tables: dict[str, Table] = {}
    for addition in study({}, RULES, SchemaContract(), events, source_of(events)).additions:
        table = tables.setdefault(addition.table, Table(addition.table, row_keys=frozenset({"unique"})))
        table.columns[addition.column] = Column(addition.column, BY_DATA_TYPE[addition.data_type])
    return Book(tables, RULES)


def fitted(book: Book, records: list[dict[str, Any]]) -> Fitted:
    events = events_of(records)
    return fit_events(book, events, "load", source_of(events))


def rows(result: Fitted) -> dict[str, Any]:
    cells = {
        name: [dict(zip(table.plan.columns, map(repr, row), strict=True)) for row in table.rows]
        for name, table in result.tables.items()
        if table.rows
    }
    return {"rows": cells, "refused": [text for _, text in result.refused], "misfits": len(result.misfits)}


def without_moulds(book: Book, records: list[dict[str, Any]]) -> Fitted:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module, "keep_mould", lambda plan, node, shape, system: None)
        return fitted(book, records)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "00501", "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.123456789Z", "2026-02-30T00:00:00Z"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
)
keys = st.sampled_from(["a", "b", "userId", "user_id", "c d", "e"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
record_lists = st.lists(st.dictionaries(keys, values, min_size=1, max_size=5), min_size=1, max_size=8)


@given(record_lists)
def test_moulds_make_the_rows_that_the_walk_makes(records: list[dict[str, Any]]) -> None:
    # Each record comes three times, so that the second and the third find the mould of the first.
    repeated = [record for record in records for _ in range(3)]
    assert rows(fitted(book_for(records), repeated)) == rows(without_moulds(book_for(records), repeated))


def test_a_record_of_a_known_shape_is_cast() -> None:
    records = [
        {"a": n, "b": "x", "at": "2026-11-30T12:00:00Z", "n": {"z": n}, "l": [{"q": 1, "r": 2}]} for n in range(3)
    ]
    book = book_for(records)
    result = fitted(book, records)
    moulds = book.plans["t"].node(RULES.max_nesting).moulds
    assert [found.__class__ for found in moulds.values()] == [Mould]
    assert [row[book.plans["t"].index["a"]] for row in result.tables["t"].rows] == [0, 1, 2]


@pytest.mark.parametrize("odd", [2**63, -(2**63) - 1, "no instant", 1e30])
def test_a_value_that_the_mould_does_not_take_goes_the_long_way(odd: Any) -> None:
    usual = {"a": 1, "b": "2026-11-30T12:00:00Z", "c": 1.5}
    strange = dict(usual)
    strange[{int: "a", str: "b", float: "c"}[type(odd)]] = odd
    records = [usual, usual, strange, usual]
    assert rows(fitted(book_for(records), records)) == rows(without_moulds(book_for(records), records))


def test_a_mould_is_dropped_when_another_key_comes_to_fill_one_of_its_columns() -> None:
    records = [{"userId": 1, "b": 1}, {"userId": 2, "b": 2}, {"user_id": 3, "userId": 4}, {"userId": 5, "b": 5}]
    assert rows(fitted(book_for(records), records)) == rows(without_moulds(book_for(records), records))


def test_shapes_without_end_do_not_fill_the_memory() -> None:
    letters = "abcdefghijkl"
    records = [{key: 1 for n, key in enumerate(letters) if mask >> n & 1} for mask in range(1, 2**9)]
    wide = {f"k{n}": 1 for n in range(MAX_KEYS + 1)}
    book = book_for([*records, wide])
    fitted(book, [wide, *records])
    shapes = book.plans["t"].node(RULES.max_nesting).moulds
    assert len(shapes) == MAX_MOULDS
    assert all(len(names) <= MAX_KEYS for names, _ in shapes)


def test_what_has_no_mould_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    make = mould_module._mould
    monkeypatch.setattr(mould_module, "_mould", lambda *given: tries.append(1) or make(*given))
    records = [{"a": 1}, {"a": "text"}] + [{"a": "text"}] * 50
    fitted(book_for(records), records)
    assert len(tries) < 10
