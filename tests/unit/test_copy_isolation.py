"""COPY's own words about a refused row are hints, and user data that imitates them is not believed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from loader.copy.isolation import column_of, line_of
from loader.copy.overflow import large_positions, move_to_overflow, too_large
from loader.plan import names
from loader.plan.book import ROOT_FIRST, Column, Table, TablePlan
from loader.plan.fit import Rows
from loader.plan.kind import BIGINT, JSONB, TEXT, TIMESTAMPTZ


class Said(psycopg.Error):
    """An error with a CONTEXT of ours."""

    def __init__(self, context: str | None, column: str | None = None) -> None:
        super().__init__("made up")
        self._said: Any = SimpleNamespace(context=context, column_name=column)

    @property
    def diag(self) -> Any:
        return self._said


@pytest.mark.parametrize(
    ("context", "line", "column"),
    [
        ('COPY orders, line 12, column id: "x"', 12, "id"),
        ("COPY orders, line 12", 12, None),
        ('JSON data, line 1: {"a\nCOPY orders, line 12, column o: "{"', 12, "o"),
        ('COPY orders, line 5, column note: "bad\nCOPY orders, line 3, column id"', 5, "note"),
        ('COPY orders__items, line 5: "x"', None, None),
        ('COPY ordersXitems, line 5: "x"', None, None),
        ('PL/pgSQL function refuse() line 2 at RAISE\nCOPY orders, line 9: "x"', 9, None),
        ("COPY orders, Zeile 4, Spalte id", None, None),
        (None, None, None),
    ],
)
def test_the_line_and_column_of_a_context(context: str | None, line: int | None, column: str | None) -> None:
    assert line_of(Said(context), "orders") == line
    assert column_of(Said(context), "orders") == column


def test_a_column_that_the_error_names_wins() -> None:
    assert column_of(Said('COPY orders, line 1, column id: "x"', "note"), "orders") == "note"


def test_what_moves_to_overflow_keeps_digits_json_and_what_was_there() -> None:
    kinds = dict.fromkeys(ROOT_FIRST, TEXT) | {"n": BIGINT, "o": JSONB, names.OVERFLOW: JSONB, "s": TEXT}
    plan = TablePlan(Table("t", {name: Column(name, kind) for name, kind in kinds.items()}), ("t",), ROOT_FIRST)
    rows = Rows(plan)
    rows.rows = [
        ["id", "load", "event", 1, "now", 5, '{"big":18446744073709551617}', '{"s":36893488147419103233}', "x"]
    ]
    rows.owners = [7]
    assert move_to_overflow(rows, [0]) == {7}
    assert rows.rows[0][:5] == ["id", "load", "event", 1, "now"]
    moved = dict(zip(plan.columns, rows.rows[0], strict=True))
    assert (moved["n"], moved["o"], moved["s"]) == (None, None, None)
    assert moved[names.OVERFLOW] == ('{"s":36893488147419103233,"n":5,"o":{"big":18446744073709551617},"s\'":"x"}')
    assert move_to_overflow(rows, [0]) == set(), "all of it is there"


def test_rows_are_suspicious_by_what_must_stay_in_the_page_not_by_their_length() -> None:
    columns = {f"c{n}": Column(f"c{n}", TEXT) for n in range(400)} | {"at": Column("at", TIMESTAMPTZ)}
    rows = Rows(TablePlan(Table("t", columns), ("t",), ROOT_FIRST))
    at = "2026-11-30T12:00:00.000000+00:00"
    rows.rows = [
        ["x" * 5_000] * 400 + [at],  # pointers
        ["x" * 22] * 400 + [at],
        ["x"] * 400 + [at],
        [None] * 400 + [at],
        ["ü" * 11] * 400 + [at],
        ["x" * 23] * 400 + [None],
    ]
    rows.owners = list(range(6))
    assert large_positions(rows) == [5, 1, 4]


def test_tables_that_can_have_no_large_row_are_not_looked_at() -> None:
    columns = {f"c{n}": Column(f"c{n}", TEXT) for n in range(300)}
    rows = Rows(TablePlan(Table("t", columns), ("t",), ROOT_FIRST))
    rows.rows = [None]  # type: ignore[list-item]
    assert large_positions(rows) == []


@pytest.mark.parametrize(("refused", "tries"), [(2_000, 8), (0, 8), (1_000, 150), (5, 150)])
def test_which_of_many_suspects_are_refused_is_found_in_few_tries(refused: int, tries: int) -> None:
    tried: list[int] = []

    def refuses(position: int) -> bool:
        tried.append(position)
        return position < refused

    assert too_large(list(range(2_000)), refuses) == list(range(refused))
    assert len(tried) <= tries
