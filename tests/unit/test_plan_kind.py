"""A value goes into a column only if it comes back exactly."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.plan.kind import REFUSED, InexactNumber, json_text, kind_of

TOKEN = "6513270e-269e-0d37-f2a7-4de452e6b438"


@pytest.mark.parametrize(
    ("pg_type", "taken", "refused"),
    [
        ("bigint", [0, 2**63 - 1, -(2**63)], [2**63, 1.0, True, "1"]),
        ("integer", [2**31 - 1, -(2**31)], [2**31, 1.0, True]),
        ("smallint", [2**15 - 1], [2**15, "1"]),
        ("double precision", [0.1, 5, 2**53, 2**64], [2**53 + 1, 10**400, True, "0.1"]),
        ("real", [0.5, 1, 2**24], [0.1, 2**24 + 1, 1e39, 10**400, True]),
        ("boolean", [True, False], [1, 0, "true"]),
        ("character varying", ["", "x" * 10_000], [1, True, 1.0]),
        ("character varying(3)", ["", "abc", "日本語"], ["abcd", "abc "]),
        ("character(3)", ["abc", " bc"], ["ab", "abcd", "ab ", ""]),
        ("numeric", [1, 0.1, 10**60], [True, "1"]),
        ("numeric(6,2)", [12.25, 9999.99, 5, -1], [0.125, 10_000, 1e10, True]),
        ("numeric(3,0)", [999], [1000, 0.5]),
        ("date", ["2026-11-30", "0001-01-01"], ["2026-02-30", "0000-01-01", "20261130", "today", "2026-11-30 "]),
        ("uuid", [TOKEN], [TOKEN.upper(), TOKEN.replace("-", ""), f"{{{TOKEN}}}"]),
        ("jsonb", [{}, [], {"a": 1}], ["{}", 1, True]),
        ("timestamp with time zone", ["2026-11-30T12:00:00Z"], ["2026-11-30", "now", "infinity", 1764504000]),
        ("timestamp without time zone", [], ["2026-11-30T12:00:00"]),
        ("timestamp(3) with time zone", [], ["2026-11-30T12:00:00Z"]),
        ("bytea", [], ["YWJj"]),
        ("text[]", [], ["{1}", [1]]),
        ("public.mood", [], ["happy"]),
    ],
)
def test_what_a_column_takes(pg_type: str, taken: list[Any], refused: list[Any]) -> None:
    accept = kind_of(pg_type).accept
    assert [value for value in taken if accept(value) is REFUSED] == []
    assert [value for value in refused if accept(value) is not REFUSED] == []


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_a_number_that_a_double_takes_is_the_same_number(value: float) -> None:
    taken = kind_of("double precision").accept(value)
    if taken is not REFUSED:
        assert float(taken) == value
        assert math.isfinite(float(taken))


@pytest.mark.parametrize("number", [2.0**63, -(2.0**63), 1e19, 1e22, 1e300, 9.3e18])
def test_json_of_a_float_that_may_have_been_an_integer_asks_for_an_exact_reading(number: float) -> None:
    for value in ({"a": number}, [[number]], {"a": [1, {"b": number}]}):
        with pytest.raises(InexactNumber):
            json_text(value)
        assert orjson.loads(json_text(value, exact=True)) == value


@pytest.mark.parametrize("value", [{"a": 2**64}, [10**40], {"a": {"b": [-(2**70)]}}])
def test_json_of_an_integer_beyond_64_bit_asks_for_the_exact_way_which_keeps_every_digit(value: Any) -> None:
    with pytest.raises(InexactNumber):
        json_text(value)
    assert eval(json_text(value, exact=True)) == value


@given(st.integers(-(2**63), 2**64 - 1) | st.floats(-1e17, 1e17) | st.text())
def test_json_of_everything_else_is_written_at_once(value: Any) -> None:
    try:
        text = json_text([value])
    except InexactNumber:
        assert isinstance(value, str)  # a text that looks like such a number costs a second reading, nothing else
        return
    assert orjson.loads(text) == [value]
