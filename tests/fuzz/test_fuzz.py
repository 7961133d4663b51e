"""Thousands of messages that nobody would write on purpose, through decoding, learning, fitting and COPY's text.

The properties are in fuzz_target.py, the inputs to start from in corpus/. CI draws the same examples each time;
elsewhere each run draws others. `python tests/fuzz/run_atheris.py` looks further, led by coverage."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from copy_text import parse_row
from fuzz_input import corpus, format_input, parse_input
from fuzz_target import check_message, check_rows, message
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Message
from loader.plan.book import PlanRules
from loader.worker.intake import Intake

pytestmark = pytest.mark.timeout(300)

CORPUS = corpus()
WIDE = DecodeRules(table_key="eventName", event_id_attribute="event_id")
NARROW = DecodeRules(
    table_key="eventName",
    event_id_key="id",
    table_prefix="p ",
    max_message_bytes=2_000,
    max_array_elements=12,
    max_keys=30,
    emulator=True,
)
BY_ATTRIBUTE = DecodeRules(table_attribute="ce-type", event_id_key="orderNo", default_table="Çok özel")
RULES = st.sampled_from([WIDE, NARROW, BY_ATTRIBUTE])
PLANS = st.sampled_from(
    [
        PlanRules(),
        PlanRules(max_nesting=0),
        PlanRules(max_nesting=1, keep_raw=True),
        PlanRules(max_columns=20, keep_attributes=True),
        PlanRules(max_tables=3),
        PlanRules(max_columns=20, max_tables=2, max_nesting=3, keep_raw=True, keep_attributes=True),
        PlanRules(json_keys=frozenset({"a", "drift.v"})),
    ]
)


def many(examples: int) -> settings:
    return settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


# --- strategies ---------------------------------------------------------------------------------------------------

_TOKENS = st.sampled_from(
    [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a":', b'"a"', b'"eventName":', b"1", b"-", b"0", b".5", b"e9", b"E+",
     b"null", b"true", b"NaN", b"-Infinity", b"\\u0000", b"\\ud800", b"\\udc00", b"\\", b"\\n", b" ", b"\n", b"\t",
     b"\0", b"\xff", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"9" * 25, b"18446744073709551616", b"[" * 60,
     b"]" * 60, b'{"a":' * 70, b"}" * 70, b"1," * 13, b"{}," * 9]
)  # fmt: skip
SOUP = st.lists(_TOKENS, max_size=25).map(b"".join)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        ["content-encoding", "Content-Encoding", "content-type", "Content-Type", "ce-specversion", "ce-id", "ce-source",
         "ce-type", "ce-data", "ce-", "event_id", "other", ""]
    ),
    st.sampled_from(
        ["", " ", "gzip", " GZIP ", "x-gzip", "identity", "application/json", "application/cloudevents+json",
         "application/cloudevents-batch+json", "application/cloudevents+avro", "APPLICATION/CLOUDEVENTS", "text/plain",
         "application/octet-stream", "1.0", "order.placed", "/a b%20", "nul\0", "é" * 300, "x" * 600]
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    max_size=5,
)  # fmt: skip

_TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", " ", "NaN", "infinity", "now", "today", "2026-02-30", "2026-11-30", "2026-11-30T12:00:00Z",
     "0001-01-01T00:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T12:00:60Z", "2026-11-30T12:00:00+15:59",
     "2026-11-30T12:00:00.123456789Z",
     "20261130T120000Z", "2026-11-30 12:00", "9999-12-31T23:59:59.999999-01:00", "٢٠٢٦-11-30T12:00:00Z", "\\N", "\\.",
     "\t", "\n", "\r\n", "\\", "\\\\", "\v\f\b", "\0", "\ud800", "\udc00\ud800", "{}", "[1]", "x" * 300,
     "18446744073709551616"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**29, -(10**400)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e16, 1e22, 9.3e18, 5e-324, -0.0])
    | _TEXTS
)
KEYS = st.text(max_size=4) | st.sampled_from(
    ["a", "A", "a ", "b", "userId", "user_id", "User ID", "value", "list", "a__b", "a__v_text", "a__v_bigint", "v", "",
     " ", "__", "_", "é", "日本", "_dlt_id", "_event_id", "_overflow", "_raw", "_attributes", "_wanted_table",
     "payload_dlt_id", "ctid", "dlt_id_key", "_dlt_list_idx", "y" * 70, "y" * 70 + "z", "1st", "x" * 1_100, "\0",
     "a\0", "\ud800",
     "6513270e-269e-0d37-f2a7-4de452e6b438", "20261130", "eventName", "id"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
RECORDS = st.dictionaries(KEYS, VALUES, max_size=6)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[dict[str, str], bytes]:
    """A corpus body with bits flipped, bytes cut out, repeated or put in, or with the tail of another one."""
    _, attributes, body = draw(st.sampled_from(CORPUS))
    data = bytearray(body)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["flip", "cut", "truncate", "insert", "repeat", "splice"]))
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(1, 30))
        if kind == "flip" and start < len(data):
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del data[start : start + length]
        elif kind == "truncate":
            del data[start:]
        elif kind == "insert":
            data[start:start] = draw(_TOKENS)
        elif kind == "repeat":
            data[start:start] = data[start : start + length] * draw(st.integers(1, 5))
        elif kind == "splice":
            data[start:] = draw(st.sampled_from(CORPUS))[2][draw(st.integers(0, 40)) :]
    attributes = dict(attributes)
    if draw(st.integers(0, 3)) == 0:
        attributes.update(draw(ATTRIBUTES))
    return attributes, bytes(data)


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, str], bytes]:
    """A message of random records as some publisher would write it."""
    value: Any = draw(RECORDS | st.lists(RECORDS, min_size=1, max_size=4))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1])))
    body = text.encode("utf-8", "surrogatepass")
    attributes = draw(st.just({}) | ATTRIBUTES)
    if draw(st.integers(0, 3)) == 0:
        attributes = {**attributes, "content-encoding": "gzip"}
        body = gzip.compress(body, draw(st.sampled_from([0, 6])), mtime=0)
    return attributes, body


@st.composite
def alike(draw: st.DrawFn) -> list[tuple[dict[str, str], bytes]]:
    """Many messages of few shapes, as a publisher sends them, and now and then a value of another type among them."""
    shapes = draw(st.lists(RECORDS, min_size=1, max_size=2))
    records: list[dict[str, Any]] = [
        {key: _another(value, number) for key, value in shapes[number % len(shapes)].items()}
        for number in range(draw(st.integers(2, 40)))
    ]
    for key, value in draw(st.dictionaries(KEYS, SCALARS, max_size=2)).items():
        records[draw(st.integers(0, len(records) - 1))][key] = value
    return [({}, json.dumps(record).encode()) for record in records]


def _another(value: Any, number: int) -> Any:
    """A value of the same type."""
    if type(value) is dict:
        return {key: _another(item, number) for key, item in value.items()}
    if type(value) is list:
        return [_another(item, number) for item in value]
    if type(value) is int:
        return value + number
    if type(value) is str and not value.endswith(("Z", "\\")):
        return f"{value}{number % 7 or ''}"
    return value


# --- targets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [WIDE, NARROW, BY_ATTRIBUTE], ids=["wide", "narrow", "by-attribute"])
@pytest.mark.parametrize(("name", "attributes", "body"), CORPUS, ids=[name for name, _, _ in CORPUS])
def test_every_input_of_the_corpus(name: str, attributes: dict[str, str], body: bytes, rules: DecodeRules) -> None:
    if check_message(attributes, body, rules):
        check_rows([message(attributes, body)], rules, PlanRules())
        check_rows([message(attributes, body)], rules, PlanRules(max_columns=20, max_tables=2, keep_raw=True))


def test_the_whole_corpus_in_one_bundle_and_in_two_lessons() -> None:
    everything = [message(attributes, body, number) for number, (_, attributes, body) in enumerate(CORPUS)]
    check_rows(everything, WIDE, PlanRules())
    check_rows(everything, NARROW, PlanRules(max_columns=20, max_tables=9, keep_raw=True), 25)


@many(2_200)
@given(mutated(), RULES)
def test_a_damaged_message_is_understood_or_refused_by_name(
    damaged: tuple[dict[str, str], bytes], rules: DecodeRules
) -> None:
    check_message(*damaged, rules)


@many(1_000)
@given(ATTRIBUTES, SOUP | st.binary(max_size=60), RULES)
@example({"content-encoding": "gzip"}, b"", WIDE)
def test_soup_is_understood_or_refused_by_name(attributes: dict[str, str], body: bytes, rules: DecodeRules) -> None:
    check_message(attributes, body, rules)


@many(600)
@given(written(), RULES)
def test_what_a_publisher_may_write_is_decoded_without_loss(
    one: tuple[dict[str, str], bytes], rules: DecodeRules
) -> None:
    check_message(*one, rules)


@many(400)
@given(st.lists(written(), min_size=1, max_size=4), RULES, PLANS, st.none() | st.integers(0, 4))
def test_random_records_become_rows_without_loss(
    several: list[tuple[dict[str, str], bytes]], rules: DecodeRules, plan: PlanRules, split: int | None
) -> None:
    check_rows(_deliveries(several), rules, plan, split)


@many(1_200)
@given(st.lists(mutated(), min_size=1, max_size=8), RULES, PLANS, st.none() | st.integers(0, 8))
def test_damaged_messages_become_rows_without_loss(
    several: list[tuple[dict[str, str], bytes]], rules: DecodeRules, plan: PlanRules, split: int | None
) -> None:
    check_rows(_deliveries(several), rules, plan, split)


@many(300)
@given(alike(), PLANS, st.none() | st.integers(0, 40))
def test_messages_of_few_shapes_become_rows_without_loss(
    several: list[tuple[dict[str, str], bytes]], plan: PlanRules, split: int | None
) -> None:
    check_rows(_deliveries(several), WIDE, plan, split)


@pytest.mark.parametrize(
    ("bodies", "plan"),
    [
        (['{"a":false}', *['{"a":[]}'] * 5], PlanRules(max_nesting=0)),
        (['{"a":false}', *['{"a":{}}'] * 5], PlanRules(max_nesting=0)),
        (['{"a":5}', *['{"a":[]}'] * 5], PlanRules(json_keys=frozenset({"a"}))),
        (['{":":[],"X":{"6513270e-269e-0d37-f2a7-4de452e6b438":null}}'], PlanRules()),
    ],
)
def test_what_was_found_once(bodies: list[str], plan: PlanRules) -> None:
    check_rows([message({}, body.encode(), number) for number, body in enumerate(bodies)], WIDE, plan)


def _deliveries(several: list[tuple[dict[str, str], bytes]]) -> list[Message]:
    return [message(attributes, body, number) for number, (attributes, body) in enumerate(several)]


@pytest.mark.parametrize(
    ("content_type", "body", "raw"),
    [
        ("text/plain", b"just\0text", "justtext"),
        ("", b"", None),
        ("image/png", b"\xff", "/w=="),
        ("application/json", b'[{"n":1}]', [{"n": 1}]),
    ],
)
def test_the_body_of_a_binary_cloudevent_is_kept_as_json(content_type: str, body: bytes, raw: Any) -> None:
    attributes = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/shop",
        "ce-type": "t",
        "content-type": content_type,
    }
    intake = Intake(Decoder(WIDE), lambda each, events: None, keep_raw=True)
    (event,) = intake.events([message(attributes, body)])
    assert intake.source.raw is not None
    assert json.loads(intake.source.raw(event)) == raw


@pytest.mark.parametrize("packed", [False, True])
def test_each_element_of_an_array_keeps_its_own_part_of_the_body(packed: bool) -> None:
    body = b'\xef\xbb\xbf [{"n":1},{"n":9007199254740993000000}]'
    attributes = {"content-encoding": "gzip"} if packed else {}
    intake = Intake(Decoder(WIDE), lambda each, events: None, keep_raw=True)
    events = list(intake.events([message(attributes, gzip.compress(body) if packed else body)]))
    assert intake.source.raw is not None
    assert [intake.source.raw(event) for event in events] == ['{"n":1}', '{"n":9007199254740993000000}']


# --- the target itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "attributes", "body"), CORPUS, ids=[name for name, _, _ in CORPUS])
def test_an_input_is_read_as_it_was_written(name: str, attributes: dict[str, str], body: bytes) -> None:
    assert parse_input(format_input(attributes, body)) == (attributes, body)


@pytest.mark.parametrize("line", [b"a\tb", b"a\rb\n", b"a\\qb\n", b"a\\\n", b"\\.\n", b"a\0\n", b"a\nb\n"])
def test_a_line_that_copy_would_read_differently_is_an_error(line: bytes) -> None:
    with pytest.raises(AssertionError):
        parse_row(line)


def test_a_lost_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.plan.fit import Fitter

    fill = Fitter._fill

    def forgetful(self: Any, plan: Any, node: Any, record: Any, row: Any, row_id: Any) -> None:
        fill(self, plan, node, {key: value for key, value in record.items() if key != "b"}, row, row_id)

    monkeypatch.setattr(Fitter, "_fill", forgetful)
    with pytest.raises(AssertionError, match="missing, extra"):
        check_rows([message({}, b'{"a":1,"b":2}')], WIDE, PlanRules())
