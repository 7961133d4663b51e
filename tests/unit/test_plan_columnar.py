"""By column: many records at once become the very rows that the walk through the keys of each makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.learn.lesson import study
from loader.message.message import Event, Message, Refused
from loader.plan import columnar, fit, fitting
from loader.plan.book import Book, Column, PlanRules, Table
from loader.plan.fitting import Fitted, Source, fit_events
from loader.plan.kind import BY_DATA_TYPE, kind_of
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


def walked(book: Book, records: list[dict[str, Any]]) -> Fitted:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "lay_out", lambda plan, level, records: [])
        return fitted(book, records)


def laid_out(monkeypatch: pytest.MonkeyPatch, book: Book, records: list[dict[str, Any]]) -> tuple[Fitted, int]:
    """The outcome, and how many of the records were placed by column."""
    placed: list[int] = []
    real = fitting.lay_out

    def counting(plan: Any, level: int, records: Any) -> Any:
        blocks = real(plan, level, records)
        placed.extend(number for _, numbers in blocks for number in numbers)
        return blocks

    monkeypatch.setattr(fitting, "lay_out", counting)
    return fitted(book, records), len(placed)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "00501", "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.123456789Z", "2026-02-30T00:00:00Z"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
)
keys = st.sampled_from(
    ["a", "b", "userId", "user_id", "c d", "e", "v_json", "a__v_json", "a__v_text", "20261130", "a__20261130"]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
record_lists = st.lists(st.dictionaries(keys, values, min_size=1, max_size=5), min_size=1, max_size=8)


@given(record_lists)
def test_columns_make_the_rows_that_the_walk_makes(records: list[dict[str, Any]]) -> None:
    # The walk meets each key first, so that the second time most records can be laid out; thrice each, to be many.
    repeated = [record for record in records for _ in range(3)]
    book = book_for(records)
    fitted(book, records)
    assert rows(fitted(book, repeated)) == rows(walked(book_for(records), repeated))


SAMPLE = {"a": 1, "f": 1.5, "b": "x", "at": "2026-11-30T12:00:00Z", "n": {"z": 1, "y": {"x": True}}, "l": [{"q": 1}]}


def known(records: list[dict[str, Any]]) -> Book:
    """A book whose plans have met the keys of these records."""
    book = book_for(records)
    fitted(book, records)
    return book


def test_records_of_known_keys_are_laid_out_and_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{**SAMPLE, "a": n, "l": [{"q": n}, {"q": None}], "t": ["u", "v"]} for n in range(20)]
    result, placed = laid_out(monkeypatch, known(records), records)
    assert placed == 20
    assert rows(result) == rows(walked(book_for(records), records))
    assert len(result.tables["t__l"].rows) == 40


def test_lists_and_objects_that_are_always_empty_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{**SAMPLE, "none": [], "nothing": {}} for _ in range(6)]
    result, placed = laid_out(monkeypatch, known(records), records)
    assert placed == 6
    assert rows(result) == rows(walked(book_for(records), records))


def test_keys_that_are_missing_in_some_records_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    optional = [dict(SAMPLE) for _ in range(12)]
    for number, key in enumerate(SAMPLE):
        del optional[number][key]
        optional[number + 6][key] = None
    records = [SAMPLE, *optional]
    result, placed = laid_out(monkeypatch, known([SAMPLE]), records)
    assert placed == 13
    assert rows(result) == rows(walked(book_for([SAMPLE]), records))


@pytest.mark.parametrize(
    ("key", "odd"),
    [
        ("a", True),
        ("a", 1.5),
        ("a", "00501"),
        ("a", {"deeper": 1}),
        ("f", 7),
        ("at", "no instant"),
        ("b", 5),
        ("n", "no object"),
        ("n", {"z": "one"}),
        ("l", [1]),
        ("l", [1, {"q": 1}, None]),
        ("l", [{"q": "x"}]),
        ("l", {"q": 1}),
    ],
)
def test_a_value_of_another_type_is_laid_out_once_its_place_is_known(
    monkeypatch: pytest.MonkeyPatch, key: str, odd: Any
) -> None:
    usual = [{**SAMPLE, "a": n} for n in range(10)]
    records = [*usual[:5], {**SAMPLE, key: odd}, *usual[5:]]
    result, placed = laid_out(monkeypatch, known(records), records)
    assert placed == 11
    assert rows(result) == rows(walked(book_for(records), records))


@pytest.mark.parametrize(
    ("key", "odd"),
    [
        ("a", 2**63),
        ("a", 1e19),
        ("a", "00501"),
        ("f", 1e30),
        ("at", "9999-12-31T23:59:59-05:00"),
        ("at", "2026-02-30T00:00:00Z"),
        ("l", [[{"q": 1}]]),
        ("n", {"new": 1}),
        ("late", 1),
    ],
)
def test_one_odd_value_sends_its_record_alone_the_long_way(monkeypatch: pytest.MonkeyPatch, key: str, odd: Any) -> None:
    usual = [{**SAMPLE, "a": n} for n in range(10)]
    records = [*usual[:5], {**SAMPLE, key: odd}, *usual[5:]]
    result, placed = laid_out(monkeypatch, known(usual), records)
    assert placed == 10
    assert rows(result) == rows(walked(book_for(usual), records))


def test_an_instant_outside_the_years_of_all_readers_is_judged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"at": f"{year:04d}-06-01T12:00:00Z"} for year in (1, 2, 2026, 9998, 9999, 0)]
    book = known([{"at": "2026-11-30T12:00:00Z"}])
    assert rows(fitted(book, records)) == rows(walked(book_for([{"at": "2026-11-30T12:00:00Z"}]), records))


def test_two_keys_that_fill_one_column_are_never_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"userId": 1, "b": 1}, {"userId": 2, "b": 2}, {"user_id": 3, "userId": 4}, {"userId": 5, "b": 5}] * 3
    book = known(records)
    result, placed = laid_out(monkeypatch, book, records)
    assert placed == 0
    assert rows(result) == rows(walked(book_for(records), records))


def test_json_and_other_types_of_columns_are_laid_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {
        "j": "jsonb",
        "small": "integer",
        "day": "date",
        "price": "numeric(6,2)",
        "short": "character varying(3)",
    }
    system = {"_dlt_id": "text", "_dlt_load_id": "text", "_event_id": "text", "_event_digest": "bigint",
              "_published_at": "timestamp with time zone"}  # fmt: skip
    table = Table("t", row_keys=frozenset({"unique"}))
    table.columns.update({name: Column(name, kind_of(pg_type)) for name, pg_type in (system | columns).items()})
    good = {"j": {"k": [1, {}]}, "small": 5, "day": "2026-11-30", "price": 1.25, "short": "abc"}
    records = [good, {**good, "j": []}, {**good, "j": None}, {**good, "price": 3}, good, good]
    book = Book({"t": table}, RULES)
    fitted(book, records)
    result, placed = laid_out(monkeypatch, book, records)
    assert placed == 6
    odd = [{**good, key: value} for key, value in
           {"j": 5, "small": 2**31, "day": "30.11.", "price": 1.234, "short": "abcd"}.items()]  # fmt: skip
    for strange in [*odd, {**good, "j": [1e30]}]:
        result, placed = laid_out(monkeypatch, book, [*records, strange])
        assert placed == 6
        assert rows(result) == rows(walked(Book({"t": table}, RULES), [*records, strange]))


def test_records_with_few_keys_in_common_are_laid_out_by_their_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{f"k{kind}_{n}": kind for n in range(5)} for kind in range(10) for _ in range(6)]
    result, placed = laid_out(monkeypatch, known(records), records)
    assert placed == 60
    assert rows(result) == rows(walked(book_for(records), records))


def test_what_is_laid_out_in_vain_is_walked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    real = columnar._settled
    monkeypatch.setattr(columnar, "_settled", lambda *given: tries.append(1) or real(*given))
    records = [{"userId": 1, "user_id": 2}] * (60 * fitting._BATCH)
    fitted(known(records[:1]), records)
    assert 1 < len(tries) < 12


def test_duplicates_and_reused_identities_are_found_among_what_is_laid_out() -> None:
    events = events_of([{"a": n} for n in range(10)])
    book = known([{"a": 1}])
    twice = [*events, events[3], events[4]._replace(digest=99)]
    result = fit_events(book, twice, "load", source_of(events))
    assert [event.identity for event in result.duplicates] == [events[3].identity]
    assert [event.digest for event in result.reused] == [99]
    # Across batches too.
    many = events_of([{"a": n} for n in range(fitting._BATCH + 5)])
    result = fit_events(book, [*many, many[0], many[-1]], "load", source_of(many))
    assert [event.identity for event in result.duplicates] == [many[0].identity, many[-1].identity]
    assert len(result.events) == len(result.tables["t"].rows) == fitting._BATCH + 5


def test_rows_come_in_the_order_of_their_identities_whichever_way_they_were_placed() -> None:
    records = [{"a": n, "l": [{"q": 1}, {"q": 2}]} if n % 3 else {"b": n} for n in range(40)]
    records[7]["a"] = "odd"
    events = events_of(records)
    events.reverse()
    book = known(records)
    result = fit_events(book, events, "load", source_of(events))
    for table in result.tables.values():
        order = [(result.events[owner].identity, row[2]) for owner, row in zip(table.owners, table.rows, strict=True)]
        assert [identity for identity, _ in order] == sorted(identity for identity, _ in order)
        if table.plan.path[1:]:
            assert order == sorted(order)


def test_a_wide_row_that_is_mostly_empty_is_filled_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = {f"k{n}": n for n in range(300)}
    records = [{"k7": n, "k299": n} for n in range(8)]
    book = known([wide])
    result, placed = laid_out(monkeypatch, book, records)
    assert placed == 8
    assert rows(result) == rows(walked(book_for([wide]), records))


@pytest.mark.parametrize("where", [(columnar, "_spread"), (fit, "child_ids")])
def test_a_fault_in_laying_out_leaves_all_to_the_walk(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: tuple[Any, str]
) -> None:
    def fails(*given: Any) -> Any:
        raise RuntimeError("a fault of ours")

    records = [{**SAMPLE, "a": n} for n in range(fitting._BATCH + 5)]
    book = known(records[:1])
    monkeypatch.setattr(*where, fails)
    assert rows(fitted(book, records)) == rows(walked(book_for(records[:1]), records))
    assert caplog.text.count("could not be laid out by column") == 1


def test_an_event_whose_raw_cannot_be_kept_as_it_is_does_not_touch_its_neighbours() -> None:
    records: list[dict[str, Any]] = [{"a": n} for n in range(8)]
    book = known(records)
    book.tables["t"].columns["_raw"] = Column("_raw", BY_DATA_TYPE["json"])
    raw_book = Book(book.tables, PlanRules(keep_raw=True))
    events = events_of(records)

    def raw(event: Event) -> str:
        if event.identity == events[3].identity:
            raise Refused("bad", "no raw")
        return "{}"

    plain = source_of(events)
    result = fit_events(raw_book, events, "load", Source(record=plain.record, exact=plain.exact, raw=raw))
    result = fit_events(raw_book, events, "load", Source(record=plain.record, exact=plain.exact, raw=raw))
    assert [event.identity for event, _ in result.refused] == [events[3].identity]
    assert len(result.tables["t"].rows) == 7
    assert all(row[raw_book.plans["t"].index["_raw"]] == "{}" for row in result.tables["t"].rows)
