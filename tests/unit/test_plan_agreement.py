"""What a lesson drafts is what loading then asks for: an event that was learned fits, whatever its keys spell."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from loader.learn.lesson import copy_tables, study
from loader.learn.settled import Settled
from loader.message.message import Event, Message
from loader.plan.book import Book, Column, PlanRules, Table
from loader.plan.fitting import Source, fit_events
from loader.plan.kind import BY_DATA_TYPE
from loader.plan.policy import Policy, Strict
from loader.settings.contract import parse_contract

LESSONS = 3
"""As many as loader/worker/learning.py gives an event."""


class Dataset:
    """Tables in memory that learn and load as a worker does."""

    def __init__(self, rules: PlanRules, contract: str = "evolve") -> None:
        self.rules = rules
        self.contract = parse_contract(contract)
        self.tables: dict[str, Table] = {}
        self.book = Book({}, rules)
        self.stored: list[str] = []
        """Each cell that was stored, as text."""
        self.count = 0

    def load(self, records: list[dict[str, Any]]) -> None:
        events = []
        for record in records:
            self.count += 1
            message = Message("", f"m{self.count:05d}", json.dumps(record).encode(), {}, self.count, 0)
            events.append(Event(message, message.message_id, self.count, "t", record))
        found = {event.identity: event.record or {} for event in events}
        source = Source(record=lambda event: found[event.identity], exact=lambda event: found[event.identity])
        misfits = self._fit(events, source, Strict(self.rules))
        for _ in range(LESSONS):
            if misfits:
                misfits = self._fit(self._learn(misfits, source), source, Settled(self.rules, self.contract))
        assert not misfits, f"dead letters: {[found[event.identity] for event in misfits]}"

    def _fit(self, events: list[Event], source: Source, policy: Policy) -> list[Event]:
        """The misfits."""
        fitted = fit_events(self.book, events, "load", source, policy)
        assert not fitted.refused
        for rows in fitted.tables.values():
            self.stored += [str(cell) for row in rows.rows for cell in row if cell is not None]
        return fitted.misfits

    def _learn(self, events: list[Event], source: Source) -> list[Event]:
        """The events that the contract did not stop."""
        lesson = study(self.tables, self.rules, self.contract, events, source)
        assert not lesson.refused
        self.tables = copy_tables(self.tables)
        for addition in lesson.additions:
            table = self.tables.setdefault(addition.table, Table(addition.table, row_keys=frozenset({"unique"})))
            table.columns[addition.column] = Column(addition.column, BY_DATA_TYPE[addition.data_type])
        book = Book(self.tables, self.rules)
        book.inherit(self.book)
        self.book = book
        stopped = lesson.frozen.keys() | lesson.discarded.keys()
        return [event for position, event in enumerate(events) if position not in stopped]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [] if value is None else [value]


# What dlt and the loader spell themselves: variants, nested columns, child tables, own columns; and ids and dates.
SPELLED = """
a A b v_json v_text v_bigint a__v_json a__v_text a__v_bigint a__b a__b__v_json a__v_json__v_text a__v_text__v_json
_dlt _dlt_id _dlt_parent_id payload_dlt_id dlt_id_key _overflow _event_id value list a__list a__value __
20261130 2026-11-30 a__20261130
"""
keys = st.sampled_from(SPELLED.split())
numbers = iter(range(1_000_000, 2_000_000_000))
scalars = st.sampled_from(["text", "bigint", "double", "timestamp", "bool", "none", "huge"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)
records = st.dictionaries(keys, values, min_size=1, max_size=4)
bundles = st.lists(st.lists(records, min_size=1, max_size=4), min_size=1, max_size=4)


def unlike_any_other(shape: Any) -> Any:
    """The same shape with values of which each is found again wherever it is stored."""
    if isinstance(shape, dict):
        return {key: unlike_any_other(value) for key, value in shape.items()}
    if isinstance(shape, list):
        return [unlike_any_other(value) for value in shape]
    number = next(numbers)
    made = {
        "text": f"x{number}x",
        "bigint": number,
        "double": number + 0.5,
        "timestamp": f"2026-11-30T12:00:00.{number % 1_000_000:06d}Z",
        "bool": True,
        "none": None,
        "huge": 2**64 + number,
    }
    return made[shape]


MAP = {"20261130": "bigint"}
RULES = [
    PlanRules(),
    PlanRules(max_columns=12),
    PlanRules(max_nesting=1),
    PlanRules(max_tables=2),
    PlanRules(json_keys=frozenset({"a"}), max_columns=14),
]
CONTRACTS = """
columns=discard_value data_type=discard_value tables=discard_value
columns=discard_value,data_type=discard_value,tables=discard_value columns=freeze data_type=freeze tables=discard_row
"""


@given(bundles, st.sampled_from(RULES))
@example([[{"a": {"b": "bigint"}}], [{"a": {"v_json": "text"}}], [{"a": {"b": "bigint"}}] * 9], PlanRules())
@example([[{"a": {"b": "bigint"}}], [{"a__v_json": "text"}], [{"a": {"b": "bigint"}}] * 9], PlanRules())
@example([[{"a": "bigint"}], [{"a": MAP, "A": {"b": "text"}}]], PlanRules())
@example([[{"a": "bigint"}], [{"a": MAP}], [{"a": {"b": "text"}, "A": {"b": "text"}}]], PlanRules())
def test_what_was_learned_fits_and_loses_nothing(bundles: list[list[dict[str, Any]]], rules: PlanRules) -> None:
    dataset = Dataset(rules)
    given_leaves: list[Any] = []
    for bundle in bundles:
        records = [unlike_any_other(record) for record in bundle]
        given_leaves += leaves(records)
        dataset.load(records)
    stored = "\n".join(dataset.stored)
    assert [leaf for leaf in given_leaves if leaf is not True and str(leaf) not in stored] == []


@given(bundles, st.sampled_from(RULES), st.sampled_from(CONTRACTS.split()))
@example([[{"a": "text"}, {"a__v_json": [], "a": []}]], RULES[-1], "columns=discard_value")
def test_what_the_contract_lets_through_fits(
    bundles: list[list[dict[str, Any]]], rules: PlanRules, contract: str
) -> None:
    dataset = Dataset(rules)
    dataset.load([unlike_any_other({"a": "bigint", "b": {"a": "text"}, "a__list": ["text"]})])
    dataset.contract = parse_contract(contract)
    for bundle in bundles:
        dataset.load([unlike_any_other(record) for record in bundle])
