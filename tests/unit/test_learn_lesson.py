"""What misfits ask for: columns, variants and child tables, and what a contract forbids."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from loader.learn.draft import NeedsAdoption
from loader.learn.lesson import Lesson, study
from loader.message.message import Event, Message
from loader.plan.book import Book, Column, PlanRules, Table
from loader.plan.fitting import Source
from loader.plan.kind import kind_of
from loader.settings.contract import SchemaContract, parse_contract


def learn(*records: dict[str, Any], contract: str = "evolve", **rules: Any) -> Lesson:
    message = Message("ack", "id", b"", {}, 0, 0)
    events = [Event(message, f"e{number}", number, "t", record) for number, record in enumerate(records)]
    source = Source(record=lambda event: event.record, exact=lambda event: event.record)
    chosen: SchemaContract = parse_contract(contract)
    return study({}, PlanRules(**rules), chosen, events, source)


def asked(lesson: Lesson) -> dict[str, str]:
    return {
        f"{addition.table}.{addition.column}": addition.data_type
        for addition in lesson.additions
        if not addition.column.startswith(("_dlt", "_event", "_published"))
    }


def test_each_new_column_names_the_event_that_first_asked_for_it() -> None:
    lesson = learn({"a": 1}, {"a": 2, "b": "x"})
    assert asked(lesson) == {"t.a": "bigint", "t.b": "text"}
    first = {addition.column: addition.first_event for addition in lesson.additions}
    assert (first["a"], first["b"]) == ("e0", "e1")


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ([1, "x"], {"t.v": "bigint", "t.v__v_text": "text"}),
        ([2**64], {"t.v": "bigint", "t.v__v_text": "text"}),
        (["2026-11-30T12:00:00Z", "x", 5], {"t.v": "timestamp", "t.v__v_text": "text", "t.v__v_bigint": "bigint"}),
        ([0.5, 5, 2**53 + 1], {"t.v": "double", "t.v__v_bigint": "bigint"}),
        ([True, 1], {"t.v": "bool", "t.v__v_bigint": "bigint"}),
        ([None, {}, []], {}),
        ([1, {"b": 2}, [3]], {"t.v": "bigint", "t.v__b": "bigint", "t__v.value": "bigint"}),
        ([{"20261130": 1}, {"20261201": 2}], {"t.v": "json"}),
        ([{}, {"20261130": 1}], {"t.v": "json"}),
    ],
)
def test_what_values_of_one_key_ask_for(values: list[Any], columns: dict[str, str]) -> None:
    assert asked(learn(*({"v": value} for value in values))) == columns


def test_beyond_the_budget_one_column_takes_the_rest() -> None:
    lesson = learn({f"k{number}": number for number in range(100)}, max_columns=20)
    assert len(asked(lesson)) == 16
    assert asked(lesson)["t._overflow"] == "json"


def test_an_event_that_the_contract_stops_half_way_leaves_no_trace() -> None:
    lesson = learn({"a": 1}, {"new": 1, "a": "not a number"}, {"b": 1}, contract="data_type=freeze")
    assert lesson.frozen.keys() == {1}
    assert "t.a__v_text" not in asked(lesson)
    assert "t.new" not in asked(lesson)
    assert "t.b" in asked(lesson)


def test_a_huge_array_is_studied_in_little_memory() -> None:
    record = {"list": [{"v": 1}] * 20_000}
    tracemalloc.start()
    try:
        lesson = learn(record)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert asked(lesson) == {"t__list.v": "bigint"}
    assert peak < 20 * 1024 * 1024


@pytest.mark.parametrize(
    ("column", "pg_type", "fits"),
    [
        ("_dlt_id", "character varying", True),
        ("_dlt_id", "uuid", False),
        ("_dlt_load_id", "bigint", False),
        ("_event_digest", "integer", False),
        ("_published_at", "timestamp with time zone", True),
        ("_published_at", "date", False),
    ],
)
def test_a_table_whose_own_columns_are_of_another_type_is_named_and_no_message_blamed(
    column: str, pg_type: str, fits: bool
) -> None:
    types = {
        "_dlt_id": "text",
        "_dlt_load_id": "text",
        "_event_id": "text",
        "_event_digest": "bigint",
        "_published_at": "timestamp with time zone",
        column: pg_type,
    }
    columns = {name: Column(name, kind_of(of)) for name, of in types.items()}
    table = Table("t", columns, row_keys=frozenset({"t_key"}))
    assert (Book({"t": table}, PlanRules()).plan("t") is not None) == fits
    message = Message("ack", "id", b"", {}, 0, 0)
    source = Source(record=lambda event: event.record, exact=lambda event: event.record)
    event = Event(message, "e", 0, "t", {"a": 1})
    if fits:
        assert asked(study({"t": table}, PlanRules(), SchemaContract(), [event], source)) == {"t.a": "bigint"}
        return
    with pytest.raises(NeedsAdoption, match=f"table t has a column {column} of another type"):
        study({"t": table}, PlanRules(), SchemaContract(), [event], source)
