from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.message.body import parse_exactly
from loader.message.text import Cleaned, clean, clean_text, jsonb_text

ANY_TEXT = st.text(st.characters())  # with surrogates
ANY_JSON = st.recursive(
    st.integers() | st.text(st.sampled_from('\0\ud83d\ude00\\u0a"'), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("a\0\ud800", max_size=4), inner, max_size=4),
)


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in [key, *texts(item)]]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


def test_clean_text_is_the_same_object() -> None:
    text = "naïve \U0001f600"
    assert clean_text(text) is text


def test_keys_that_meet_when_cleaned_lose_nothing() -> None:
    counts = Cleaned()
    assert clean({"k\0": 1, "k": 2, "\0k": 3, "k_2": 4}, counts) == {"k_3": 1, "k": 2, "k_4": 3, "k_2": 4}
    assert counts.nul == 2


def test_cleaning_never_recurses() -> None:
    value: Any = "\0"
    for _ in range(5000):
        value = [value]
    clean(value)
    while isinstance(value, list):
        value = value[0]
    assert value == ""


@given(ANY_JSON)
def test_postgres_can_hold_what_was_cleaned(value: Any) -> None:
    for text in texts(clean(value)):
        assert "\0" not in text
        text.encode()


@given(ANY_TEXT | st.lists(st.sampled_from(["\0", "\ud83d", "\ude00", "\\", "u0000", '"'])).map("".join))
def test_jsonb_text_says_what_the_cleaned_record_says(text: str) -> None:
    body = json.dumps([text, 10**30]).encode()
    assert json.loads(jsonb_text(body)) == parse_exactly(body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'\xef\xbb\xbf{"n":123456789012345678901234567890.10}', '{"n":123456789012345678901234567890.10}'),
        (rb'{"a":"x\u0000y"}', '{"a":"xy"}'),
        (rb'{"a":"x\\u0000y"}', r'{"a":"x\\u0000y"}'),
        (rb'{"a":"x\\\u0000y"}', r'{"a":"x\\y"}'),
        (rb'{"a":"\ud83d\ude00\ude00\uD83D"}', '{"a":"\\ud83d\\ude00\ufffd\ufffd"}'),
        (rb'{"a":"\ud83d\u0000\ude00"}', '{"a":"\ufffd\ufffd"}'),
        (b'{"a":"1e99999","b":1e-5}', '{"a":"1e99999","b":1e-5}'),
        (b'{"a":1e-99999}', '"{\\"a\\":1e-99999}"'),
        (b'{"a\\n":1e-99999}\n', '"{\\"a\\\\n\\":1e-99999}\\u000a"'),
    ],
)
def test_jsonb_text_keeps_everything_that_jsonb_takes(body: bytes, text: str) -> None:
    assert jsonb_text(body) == text
    json.loads(text)


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


def test_thousands_of_keys_that_meet_are_told_apart_without_trying_all_pairs() -> None:
    base = "k" * 5000
    met = clean({base[:i] + "\0" + base[i:]: i for i in range(5000)})
    assert list(met)[:2] == [base, base + "_2"]
    assert list(met.values()) == list(range(5000))
