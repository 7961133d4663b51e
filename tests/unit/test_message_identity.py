from __future__ import annotations

import subprocess
import sys

import pytest
from dlt.common.normalizers.json.helpers import get_nested_row_hash
from hypothesis import given
from hypothesis import strategies as st

from loader.message.decode import Decoder, DecodeRules
from loader.message.identity import (
    child_id,
    child_ids,
    digest,
    digests,
    dlt_id,
    dlt_ids,
    message_identity,
    publisher_identity,
)
from loader.message.message import Message


def identities(rules: DecodeRules, body: bytes, **attributes: str) -> list[str]:
    message = Message("ack", "4711", body, attributes, 1_700_000_000_123_456, 0)
    return [event.identity for event in Decoder(rules).decode(message)]


def test_the_message_id_is_the_identity_unless_something_else_is_asked_for() -> None:
    assert identities(DecodeRules(), b'{"id":1}', event_id="x") == ["4711"]


def test_on_an_emulator_the_publish_time_is_part_of_it() -> None:
    assert identities(DecodeRules(emulator=True), b"{}") == ["4711@1700000000123456"]
    assert message_identity("1", 2, True) != message_identity("1", 3, True)


def test_the_attribute_wins_over_the_key_and_the_key_over_the_message_id() -> None:
    rules = DecodeRules(event_id_attribute="event_id", event_id_key="id")
    assert identities(rules, b'{"id":"key"}', event_id="attribute") == ["attribute"]
    assert identities(rules, b'{"id":"key"}') == ["key"]
    assert identities(rules, b'{"id":12}') == ["12"]
    assert identities(rules, b"{}") == ["4711"]


@pytest.mark.parametrize(
    "value", ["", "x" * 513, "é" * 257, "a\0b", "a\ud800", None, True, False, 1.0, [], {}, 10**600]
)
def test_a_value_that_cannot_be_an_identity_counts_as_absent(value: object) -> None:
    assert publisher_identity(value) is None


@pytest.mark.parametrize("value", ["x", "x" * 512, "é" * 256, " ", 0, -1, 10**500])
def test_texts_and_integers_can_be_an_identity(value: object) -> None:
    assert publisher_identity(value) == str(value)


def test_a_key_is_judged_before_it_is_cleaned() -> None:
    rules = DecodeRules(event_id_key="id")
    assert identities(rules, rb'{"id":"a\u0000b"}') == ["4711"]
    assert identities(rules, rb'{"id":"\ud800"}') == ["4711"]
    assert identities(rules, rb'{"i\u0000d":"x"}') == ["4711"]


def test_an_integer_beyond_64_bits_is_an_identity_with_every_digit() -> None:
    rules = DecodeRules(event_id_key="id")
    assert identities(rules, b'{"id":123456789012345678901234567890}') == ["123456789012345678901234567890"]
    assert identities(rules, b'[{"id":1},{"id":-9223372036854775809}]') == ["1/0", "-9223372036854775809/1"]
    assert identities(rules, b'{"id":1e30}') == ["4711"]


def test_each_element_of_an_array_has_its_place_in_its_identity() -> None:
    assert identities(DecodeRules(), b'[{"a":1}]') == ["4711/0"]
    assert identities(DecodeRules(event_id_key="id"), b'[{"id":"x"},{"id":"x"},{}]') == ["x/0", "x/1", "4711/2"]


def test_ids_and_digests_are_the_same_for_ever() -> None:
    assert dlt_id("4711") == "Ulh7Bg13EQxQJsEpkPeL"
    assert digest(b"{}") == 137279666008780115
    assert digest(b"") == -1970711489451281740
    code = "from loader.message.identity import dlt_id, digest; print(dlt_id('4711'), digest(b'{}'))"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert fresh == [dlt_id("4711"), str(digest(b"{}"))]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_root_ids_are_spelled_like_those_of_dlt(identity: str) -> None:
    assert len(dlt_id(identity)) == 20
    assert "=" not in dlt_id(identity)


@given(st.text("abAB12+/", min_size=1, max_size=20), st.sampled_from(["t__items", "таблица"]), st.integers(0, 10**9))
def test_child_ids_are_those_that_dlt_computes(parent: str, table: str, index: int) -> None:
    assert child_id(parent, table, index) == get_nested_row_hash(parent, table, index)


@given(st.binary())
def test_a_digest_fits_a_bigint(body: bytes) -> None:
    assert -(2**63) <= digest(body) < 2**63


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=5))
def test_many_ids_and_digests_are_those_of_each_alone(texts: list[str]) -> None:
    assert dlt_ids(texts) == [dlt_id(text) for text in texts]
    assert list(digests([text.encode() for text in texts])) == [digest(text.encode()) for text in texts]
    assert child_ids(texts, "a__b", range(len(texts))) == [
        child_id(text, "a__b", index) for index, text in enumerate(texts)
    ]
