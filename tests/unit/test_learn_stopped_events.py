"""An event that the contract stops half way is taken back: the lesson is the one that would be without it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loader.learn import lesson as lesson_module
from loader.learn.draft import Discarded, Draft, Frozen
from loader.learn.lesson import Lesson, copy_tables, study
from loader.message.message import Event, Message
from loader.plan.book import Book, Column, PlanRules, Table
from loader.plan.fit import Fitter
from loader.plan.fitting import Source
from loader.plan.kind import BY_DATA_TYPE, kind_of
from loader.settings.contract import parse_contract

SOURCE = Source(record=lambda event: event.record or {}, exact=lambda event: event.record or {})
MESSAGE = Message("", "m", b"", {}, 0, 0)


def events_of(records: list[tuple[str, dict[str, Any]]]) -> list[Event]:
    return [Event(MESSAGE, f"e{number}", number, table, record) for number, (table, record) in enumerate(records)]


def known_tables() -> dict[str, Table]:
    """What is there before: a table of ours, and one of the user's own without a unique index."""
    tables: dict[str, Table] = {}
    events = events_of([("t", {"a": 1, "b": "x", "c": {"a": 1}, "l": [{"a": 1}]})])
    for addition in study({}, PlanRules(), parse_contract("evolve"), events, SOURCE).additions:
        table = tables.setdefault(addition.table, Table(addition.table, row_keys=frozenset({"unique"})))
        table.columns[addition.column] = Column(addition.column, BY_DATA_TYPE[addition.data_type])
    theirs = {name: Column(name, kind_of(of)) for name, of in {"a": "bigint", "b": "text"}.items()}
    tables["theirs"] = Table("theirs", theirs, foreign=frozenset(theirs))
    return tables


def begun_anew(rules: PlanRules, contract: str, events: list[Event]) -> Lesson:
    """The lesson by its plain meaning: each event that is stopped, and the work begins again without it."""
    lesson = Lesson()
    while True:
        book = Book(copy_tables(known_tables()), rules)
        draft = Draft(parse_contract(contract), book)
        stopped = False
        for position, event in enumerate(events):
            if position in lesson.frozen or position in lesson.discarded:
                continue
            draft.begin(event.identity)
            table, wanted = book.destination(event.table)
            try:
                Fitter(book, draft).fit(0, table, event.record or {}, ("",) * 5, True, wanted)
            except Frozen as error:
                lesson.frozen[position] = str(error)
            except Discarded as error:
                lesson.discarded[position] = str(error)
            else:
                continue
            stopped = True
            break
        if not stopped:
            lesson.additions, lesson.unkeyed = draft.additions, draft.unkeyed
            return lesson


keys = st.sampled_from(["a", "A", "b", "c", "l", "new", "c__a", "a__v_text", "20261130"])
values = st.recursive(
    st.sampled_from([1, 1.5, "x", True, None, 2**70]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=4,
)
records = st.tuples(st.sampled_from(["t", "t", "theirs", "fresh"]), st.dictionaries(keys, values, max_size=4))
CONTRACTS = """
data_type=freeze data_type=discard_row columns=freeze columns=discard_row tables=freeze tables=discard_row
columns=discard_value,data_type=freeze tables=discard_value,data_type=freeze
"""
contracts = st.sampled_from(CONTRACTS.split())
rules_of = st.sampled_from([PlanRules(), PlanRules(max_columns=11), PlanRules(max_tables=4)])


@given(st.lists(records, max_size=8), contracts, rules_of)
@example([("t", {"new": [1], "a": "x"}), ("t", {"new": [1]})] * 2, "data_type=freeze", PlanRules())
@example([("theirs", {"new": 1, "a": "x"}), ("fresh", {"a": 1})] * 2, "data_type=freeze", PlanRules(max_tables=4))
def test_a_lesson_is_the_one_that_would_be_without_the_events_that_are_stopped(
    records: list[tuple[str, dict[str, Any]]], contract: str, rules: PlanRules
) -> None:
    events = events_of(records)
    before = known_tables()
    assert study(before, rules, parse_contract(contract), events, SOURCE) == begun_anew(rules, contract, events)
    assert before == known_tables(), "what is there is not touched"


def test_each_event_is_studied_once_however_many_are_stopped() -> None:
    fits: list[int] = []
    records = [("fresh", {"w": n}) if n % 2 else ("t", {f"new{n}": n, "a": "now text"}) for n in range(200)]
    source = Source(record=lambda event: fits.append(event.digest) or records[event.digest][1], exact=SOURCE.exact)
    events = [event._replace(record=None) for event in events_of(records)]
    lesson = study(known_tables(), PlanRules(), parse_contract("data_type=freeze"), events, source)
    assert list(lesson.frozen) == list(range(0, 200, 2))
    assert {addition.table for addition in lesson.additions} == {"fresh"}
    assert fits == list(range(200))


def test_a_long_lesson_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    ticks = iter(range(0, 1000, 2))
    monkeypatch.setattr(lesson_module.time, "monotonic", lambda: float(next(ticks)))
    caplog.set_level(logging.INFO, logger=lesson_module.__name__)
    study({}, PlanRules(), parse_contract("evolve"), events_of([("t", {"a": n}) for n in range(6)]), SOURCE)
    assert [record.getMessage() for record in caplog.records] == [
        "learning goes on: 2 of 6 events studied in 6 s, columns to add 6, events stopped 0",
        "learning goes on: 5 of 6 events studied in 12 s, columns to add 6, events stopped 0",
    ]
