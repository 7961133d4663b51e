from __future__ import annotations

import re
from typing import Any

import pytest
from dlt.common.normalizers.naming.snake_case import NamingConvention
from hypothesis import given
from hypothesis import strategies as st

from loader.message.table import TableNamer

VALID = re.compile(r"[a-z0-9][a-z0-9_]*")


@pytest.mark.parametrize("value", ["order", "Order Placed", "a.b", "x" * 200, "orders!", "a+b", "HTTPServer", "t_1"])
def test_an_ordinary_name_is_spelled_as_dlt_spells_it(value: str) -> None:
    assert TableNamer()(value) == NamingConvention(63).normalize_identifier(value)


@pytest.mark.parametrize("value", [None, "", "  \t", 42, True, 1.5, {"a": 1}, ["t"]])
def test_a_value_that_is_no_text_means_the_default_table(value: Any) -> None:
    assert TableNamer("Other Things")(value) == "other_things"


@pytest.mark.parametrize(
    ("value", "table"),
    [
        ("_dlt_loads", "events_dlt_loads"),
        ("__DLT_version", "events_dlt_version"),
        ("_dead_letters", "events_dead_letters"),
        ("1st", "events_1st"),
        ("orders__items", "orders_items"),
        ("pg_class", "pg_class"),
    ],
)
def test_internal_and_child_tables_are_never_hit(value: str, table: str) -> None:
    assert TableNamer()(value) == table


def test_names_beyond_ascii_stay_readable_and_distinct() -> None:
    namer = TableNamer()
    assert namer("café") == "cafe_2d03c5d6"
    assert namer("cafè") != namer("café")
    assert namer("событие") != namer("событий")
    assert namer("событие") == "events_9e176c80"
    assert namer("naïve Straße").startswith("naive_strae_")


def test_names_of_punctuation_alone_are_distinct() -> None:
    names = {TableNamer()(value) for value in ["---", "???", "!", "_", "+", "*", "@"]}
    assert len(names) == 7
    assert all(name.startswith("events_") for name in names)


def test_the_prefix_comes_before_naming_and_applies_to_the_default_table() -> None:
    namer = TableNamer("unknown", "Shop-")
    assert namer("Order") == "shop_order"
    assert namer("_dlt_loads") == "shop_dlt_loads"
    assert namer(None) == "shop_unknown"


def test_a_table_name_per_message_takes_no_memory() -> None:
    namer = TableNamer()
    shortened = NamingConvention.shorten_identifier.cache_info().currsize
    normalized = NamingConvention._normalize_identifier.cache_info().currsize
    for i in range(10_000):
        namer(f"name {i}")
    assert len(namer._names) <= 4096
    namer("x" * 1_000_000)
    assert all(len(name) <= 256 for name in namer._names)
    assert NamingConvention.shorten_identifier.cache_info().currsize == shortened
    assert NamingConvention._normalize_identifier.cache_info().currsize == normalized


@given(st.one_of(st.text(), st.text("_-1a é\0\ud800!", max_size=100)), st.sampled_from(["", "_", "p_", "1", "é"]))
def test_every_text_becomes_a_valid_name_always_the_same(value: str, prefix: str) -> None:
    name = TableNamer(prefix=prefix)(value)
    assert VALID.fullmatch(name)
    assert "__" not in name
    assert len(name) <= 63
    assert TableNamer(prefix=prefix)(value) == name
    assert NamingConvention(63).normalize_tables_path(name) == name, "dlt must not spell it otherwise later"


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_beyond_ascii_do_not_meet(one: str, other: str) -> None:
    one, other = one + "é", other + "é"
    if one.strip() != other.strip() and not set("\0") & set(one + other):
        assert TableNamer()(one) != TableNamer()(other)
