"""HCL: values, places, references, and errors that say where and what."""

from __future__ import annotations

import pytest

from loader.bridge.config.finding import InvalidConfiguration
from loader.bridge.config.hcl import parse, read_file
from loader.bridge.config.reference import Reference, Variable, resolve
from loader.bridge.config.tree import Expression
from loader.errors import ConfigurationError


def value(text: str):
    return parse(f"x = {text}", "f.hcl").attributes["x"].value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("-1", -1),
        ("-2.5", -2.5),
        ("1e5", 1e5),
        ("true", True),
        ("null", None),
        ('"a"', "a"),
        (r'"a\n\"\\\u00e9"', 'a\n"\\é'),
        ('"$${a}%%{b}"', "${a}%{b}"),
        ("[]", []),
        ('[1, "a",\n # c\n true]', [1, "a", True]),
        ('{ a = 1, "b.c" : 2\n d = {} }', {"a": 1, "b.c": 2, "d": {}}),
        ("(1)", 1),
        ("<<EOF\na\n  b\nEOF", "a\n  b\n"),
        ("<<-EOF\n  a\n    b\n  EOF", "a\n  b\n"),
    ],
)
def test_a_plain_value_is_read_as_what_it_is(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "text", ['payload.a == "x"', "!payload.a", 'headers["x"]', "lookup.c[payload.id].tier", "has(key)", "a ? 1 : 2"]
)
def test_what_depends_on_a_message_stays_an_expression_with_its_text_and_place(text):
    found = value(text)
    assert isinstance(found, Expression)
    assert (found.text, found.place.line, found.place.column) == (text, 1, 5)


def test_an_expression_reaches_over_lines_but_not_over_the_next_attribute():
    block = parse("a {\n  when = payload.a == 1 &&\n    payload.b == 2\n  other = 3\n}", "f").blocks[0]
    assert block.attributes["when"].value.text == "payload.a == 1 &&\n    payload.b == 2"
    assert block.attributes["other"].value == 3


def test_blocks_keep_the_order_of_the_file_and_their_lines():
    blocks = parse('stage "b" {}\nstage "a" {}\nstage "b" {}\n', "f").blocks
    assert [(block.labels[0].text, block.place.line) for block in blocks] == [("b", 1), ("a", 2), ("b", 3)]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('a "b" {\n  x = \n}', "2:7", "expected a value"),
        ("a {\n  b {\n    x = 1\n}\n", "1:3", "{ is never closed"),
        ('x = "abc\ny = 1', "1:5", "not closed"),
        ("x = [1 2]", "1:8", "expected , or a new line or ]"),
        ("}", "1:1", "unexpected '}'"),
        ("a {\n x = 1\n x = 2\n}", "3:2", "set in line 2 already"),
        ("x = {\na = 1\na = 2\n}", "3:1", "stands twice"),
        (r'x = "\d"', "1:6", r"\d is no escape"),
        ('x = "${payload.a}"', "1:6", 'env("NAME")'),
        ('x = "%{if a}b%{endif}"', "1:6", "%{"),
        ("x = env(1)", "1:5", "env() takes"),
        ('x = env("not a name")', "1:5", "env() takes"),
        ('a "${env("X")}" {}', "1:3", "a label must be a plain text"),
    ],
)
def test_a_fault_is_named_with_line_column_and_what_is_allowed(text, place, says):
    with pytest.raises(InvalidConfiguration) as raised:
        parse(text, "f.hcl")
    assert f"f.hcl:{place}: " in str(raised.value)
    assert says in str(raised.value)


def test_all_faults_are_told_at_once():
    with pytest.raises(InvalidConfiguration) as raised:
        parse('a {\n x = 1\n x = 2\n y = "${b}"\n}', "f")
    assert [finding.place.line for finding in raised.value.findings] == [3, 4]


def test_a_secret_written_into_the_file_is_not_repeated_in_the_error():
    with pytest.raises(InvalidConfiguration) as raised:
        parse('x = secret("hunter2")', "f")
    assert "hunter2" not in str(raised.value)


def test_a_reference_is_resolved_late_and_never_shown(tmp_path):
    (tmp_path / "key").write_text("s3cret\n")
    found = value(f'"a-${{env("A")}}-${{secret("file:{tmp_path}/key")}}"')
    assert isinstance(found, Reference)
    assert found.secret
    assert found.resolve({"A": "1"}) == "a-1-s3cret"
    assert "s3cret" not in repr(found) + str(found)


def test_a_variable_that_is_not_set_is_named_with_its_place_and_a_default_stands_in():
    with pytest.raises(ConfigurationError, match=r'f\.hcl:1:5: env\("NOPE"\) is not set'):
        resolve(value('env("NOPE")'), {"NOPE": ""})
    assert resolve({"a": [value('env("NOPE", "d")')]}, {}) == {"a": ["d"]}
    assert value('<<EOF\n${secret("env:X")}\nEOF').parts == (Variable("env", "X", secret=True), "\n")


def test_references_are_equal_by_what_they_say_not_where_they_stand():
    first, second = (parse(text, "f").attributes["x"].value for text in ('x = env("A")', '\n\nx = env("A")'))
    assert first == second


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_file(tmp_path / "none.hcl")
    (tmp_path / "latin.hcl").write_bytes(b"\xe9")
    with pytest.raises(ConfigurationError, match="not UTF-8 at byte 0"):
        read_file(tmp_path / "latin.hcl")
