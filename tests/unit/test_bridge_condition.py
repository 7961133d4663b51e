"""Conditions: what they mean, that they only read, and what they cost to read."""

from __future__ import annotations

import pytest

from loader.bridge.condition.compile import compile_condition, compile_value
from loader.bridge.condition.parse import InvalidExpression
from loader.bridge.config.model import Place
from loader.bridge.config.tree import Expression
from loader.bridge.formats.json import Json
from loader.bridge.frame import Frame, Payload, Undecodable

BODY = (
    b'{"event":"view","country":"FR","ms":12,"one":1,"yes":true,"no":false,"nil":null,"text":"1",'
    b'"user":{"id":7,"tier":"gold"},"list":[{"b":1},2],"big":123456789012345678901234567890}'
)
STATES = {"users": {"7": {"tier": "gold"}, "k1": "x", "123456789012345678901234567890": "big"}}


def frame(body: bytes | None = BODY, **given) -> Frame:
    return Frame(
        Payload(body, Json()),
        given.get("key", b"k1"),
        given.get("headers", [("h", b"1"), ("h", b"2"), ("bad", b"\xff"), ("nil", None)]),
        "orders",
        3,
        9,
        1000,
    )


def holds(text: str, of: Frame | None = None) -> bool:
    return compile_condition(text, STATES.__getitem__).test(of or frame())


@pytest.mark.parametrize(
    "text",
    [
        'payload.country == "FR"',
        "payload.ms > 5 && payload.ms <= 12",
        "payload.ms == 12.0",
        "payload.user.tier == 'gold'",
        'payload["user"]["id"] == 7',
        "payload.list[0].b == 1",
        "payload.list[1] == 2",
        "payload.nil == null",
        "payload.nothing == null && payload.nothing.below == null",
        "payload.country in ['FR', 'DE'] and not payload.ms == 1",
        'contains(["FR", "DE"], payload.country)',
        "contains(payload.list, 2)",
        "2 in payload.list",
        "'a' in 'abc'",
        "payload.yes",
        "!payload.no",
        "!payload.nothing",
        "payload.yes == true",
        'headers.h == "2"',
        'headers["h"] == "2"',
        "headers.bad == null",
        'topic == "orders" && key == "k1" && partition == 3 && offset == 9 && timestamp == 1000',
        'startswith(topic, "ord") && endswith(topic, "ers") && matches(topic, "^o.*s$")',
        'lower("AB") == "ab" && upper("ab") == "AB" && length(payload.list) == 2',
        "number(payload.text) == 1 && text(payload.ms) == '12'",
        "coalesce(payload.nothing, payload.ms) == 12",
        "(payload.yes ? 1 : 2) == 1",
        "payload.ms + 1 == 13 && payload.ms * 2 == 24 && payload.ms - 2 == 10 && payload.ms / 5 == 2.4",
        "1 + 2 * 3 == 7 && -payload.ms == -12",
        'lookup.users[payload.user.id].tier == "gold"',
        'lookup.users[key] == "x"',
        "lookup.users.k1 == 'x'",
        "has(lookup.users[key]) && !has(lookup.users['none'])",
        "payload.a == null || payload.b",
        "payload.big == 123456789012345678901234567890",
        "payload.big != 123456789012345678901234567891",
        "has(lookup.users[payload.big])",
        "payload.country == 'FR' # a remark",
    ],
)
def test_a_condition_holds(text):
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "payload.one == true",
        "payload.yes == 1",
        "payload.text == 1",
        'payload.one == "1"',
        "payload.one in [true]",
        "payload.text > 0",
        "payload.nothing > 0",
        "payload.nothing < 0",
        "payload.ms",
        "payload.text",
        "payload.country.below == 'x'",
        "payload.list[9] == 1",
        "payload.list.x == 1",
        "payload.ms / 0 == 0",
        "payload.user > 1",
        "payload.list in ['a']",
        "topic.x == 'a'",
        "matches(payload.ms, '1')",
        "number('1e999') == 1",
        "number('nan') == 1",
    ],
)
def test_no_conversion_makes_a_condition_hold(text):
    assert not holds(text)


def test_conditions_over_headers_topic_and_key_leave_the_payload_undecoded():
    message = frame(b"not json")
    compiled = compile_condition(
        'headers.h == "2" && topic == "orders" && key == "k1" && lookup.users[key] == "x"', STATES.__getitem__
    )
    assert compiled.test(message)
    assert not compiled.reads_payload
    assert compiled.lookups == {"users"}
    assert not message.payload.decoded


def test_the_payload_is_decoded_once_for_many_conditions():
    message = frame()
    decodes = []
    decode = message.payload.format.decode
    message.payload.format.decode = lambda value: decodes.append(1) or decode(value)  # type: ignore[method-assign]
    for text in ("payload.ms == 12", 'payload.country == "FR"', "payload.user.id == 7"):
        assert compile_condition(text).test(message)
    assert len(decodes) == 1


def test_a_changed_field_is_what_a_later_condition_reads():
    message = frame()
    message.set(("country",), "DE")
    assert holds('payload.country == "DE"', message)


def test_a_tombstone_has_null_fields():
    assert holds("payload.a == null && payload == null && !has(payload.a.b)", frame(None))


def test_what_is_not_the_format_raises_and_is_not_taken_for_false():
    with pytest.raises(Undecodable):
        holds("payload.a == 1", frame(b"{"))


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("1 == 1", True),
        ("true", True),
        ("1 == 2", False),
        ("false && payload.a", False),
        ("payload.a && 1 == 2", False),
        ("payload.a || true", True),
        ("!(payload.a && false)", True),
        ("payload.a == 1", None),
        ("payload.a || false", None),
    ],
)
def test_a_condition_that_no_message_changes_is_known(text, constant):
    assert compile_condition(text).constant is constant


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("payload.a = 1", 11, "equality is =="),
        ("foo.x == 1", 1, "unknown name 'foo'"),
        ("payloda.x == 1", 1, "did you mean 'payload'"),
        ("startwith(topic, 'a')", 1, "did you mean 'startswith'"),
        ("startswith(topic)", 1, "is used as startswith(text, prefix)"),
        ("matches(topic, '(')", 1, "not a regular expression"),
        ("matches(topic, key)", 1, "it must be a text"),
        ("payload.a ==", 13, "expected a value"),
        ("payload.", 9, "expected the name of a field"),
        ("lookup == 1", 1, "lookup.NAME[key]"),
        ("payload.a 1", 11, "expected an operator"),
        ("__import__('os')", 1, "unknown function"),
        ("payload.__class__()", 18, "expected an operator"),
        ("(" * 60 + "1" + ")" * 60, 51, "nested deeper"),
        ("!" * 60 + "payload.a", 51, "nested deeper"),
    ],
)
def test_a_faulty_expression_is_told_with_its_column(text, column, says):
    with pytest.raises(InvalidExpression) as raised:
        compile_condition(text)
    assert says in str(raised.value)
    assert raised.value.place.column == column


def test_the_place_of_a_fault_counts_from_where_the_expression_stands():
    with pytest.raises(InvalidExpression) as raised:
        compile_value(Expression("payload.a &&\n  nope", Place("f", 7, 12)))
    assert (raised.value.place.line, raised.value.place.column) == (8, 3)


def test_attributes_of_python_objects_cannot_be_reached():
    for text in ("payload.__class__ == null", "topic.__class__ == null", "headers.__len__ == null", "key.join == null"):
        assert holds(text)
