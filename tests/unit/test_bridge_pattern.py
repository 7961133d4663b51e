"""Regular expressions in conditions: no text can make one hang, and ordinary ones are taken as they are."""

from __future__ import annotations

import json
import random
import re

import pytest

from loader.bridge.condition.automaton import build
from loader.bridge.condition.compile import Unsearched, compile_condition
from loader.bridge.condition.linear import Linear
from loader.bridge.condition.parse import InvalidExpression
from loader.bridge.condition.pattern import LONGEST, study
from loader.bridge.config.load import examine, parse_configuration
from loader.bridge.formats.json import Json
from loader.bridge.frame import Frame, Payload
from loader.bridge.trial.testing import run_tests

ORDINARY = {
    r"^\d{4}-\d{2}-\d{2}$": None,
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$": None,
    r"^[a-z]+(-[a-z0-9]+)*$": None,
    r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$": None,
    r"^([\w-]+\.)+[\w-]+$": None,
    r"^(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$": None,
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$": None,
    r"^[0-9a-f]{64}$": None,
    r"^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$": None,
    r"^https?://[^\s/$.?#].[^\s]*$": None,
    r"^/api/v[0-9]+/users/\d+(/orders)?$": None,
    r"(?i)\b(error|fatal|panic)\b": None,
    r"^(GET|POST|PUT|DELETE) /": None,
    r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$": None,
    r"^\+?[1-9]\d{1,14}$": None,
    r"^#(?:[0-9a-fA-F]{3}){1,2}$": None,
    r"^\w+(\s+\w+)*$": None,
    r"^(\w+\s)*\w+$": None,
    r'^"(?:[^"\\]|\\.)*"$': None,
    r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$": None,
    r"^(?!test-).*": None,
    r"^\d{1,3}(,\d{3})*(\.\d+)?$": None,
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$": None,
    r"/(clicks|views|orders)/[^/]+/[0-9]+$": None,
    r"utm_(source|medium|campaign)=[^&]+": None,
    r"^(\d|[a-f])+:": None,
    r"^(?:.|\n)*x": None,
    r".*": None,
    r"error.*timeout": 20_000,
    r".*error.*timeout.*": 20_000,
    r"\s+$": 20_000,
    r"Mozilla/5\.0 \(.*\) AppleWebKit": 20_000,
    r"""(["']).*?\1""": 20_000,
    r"^\s*(\w+)\s*=\s*(.*?)\s*$": 2_000,
    r"a.*b.*c": 2_000,
}
"""Each with the longest text that `re` is given; those without a bound take time as a text has characters."""

BOUNDED = {
    r"""(["']).*?\1""": 20_000,
    r"(?i)\berror\b.*\btimeout\b": 20_000,
    r"(?m)^\s*\w+\s*=\s*.*$": 20_000,
    r"foo.*bar(?!x)": 20_000,
    r"a*+b*+c": 20_000,
}
"""Those for which nothing but `re` can tell: a longer text is refused."""

HANGING = [
    r"(a+)+$",
    r"(a*)*$",
    r"([a-zA-Z]+)*$",
    r"(a|aa)+$",
    r"(a|a?)+$",
    r"^(\w+\s?)*$",
    r"^(\w+\s*)+$",
    r"(x+x+)+y",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$",
    r"(\d|\d\d)*x",
    r"(?i)(a|AB?)*b[a-z]",
    r"^(.*,)+x$",
    r"(?:a|b|ab)*c",
    r"(?:b(?:a?)*)+$",
    r"(?=(a+)+$)a",
    r"(a{1,30}){1,30}b",
    r"((ab)*)*c",
    r"(a?){30}a{30}",
    r"^(.*?,){11}P",
    r"(.*a){20}$",
]


def matches(pattern: str) -> str:
    quoted = pattern.replace("\\", "\\\\")
    return f'matches(payload.a, "{quoted}")'


def frame(text: str) -> Frame:
    return Frame(Payload(b'{"a":"%s"}' % text.encode(), Json()), None, [], "topic", 0, 1, 1_000)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_an_ordinary_pattern_is_taken_and_its_longest_text_is_known(pattern):
    found = study(pattern)
    assert (found.refused, found.longest or found.ordinary or None) == (None, ORDINARY[pattern])


@pytest.mark.parametrize("pattern", HANGING)
def test_a_pattern_that_a_text_can_hang_is_refused_with_the_reason_and_what_to_write(pattern):
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    with pytest.raises(InvalidExpression, match=r"matches cannot take .*: on some texts its time .*: ") as raised:
        compile_condition(f'payload.b == 1 && matches(payload.a, "{quoted}")')
    assert raised.value.place.column == 19
    assert re.search(r"\bfor\b|\^", str(raised.value))


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?i).*B", "ab", True),
        (".*b", "ab", True),
        (".*?b$", "ba", False),
        (".*x|b", "ab", True),
        (".*", "", True),
        ("^.*b", "\\nb", False),
        ("(?i)B", "ab", True),
    ],
)
def test_what_is_found_is_what_python_finds(pattern, text, found):
    assert compile_condition(f"matches(payload.a, '{pattern}')").test(frame(text)) is found


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", [r"\b[a-z]+@", r"a*?b(?!x)", r"(?:\w|-)+\b@", r"^\ba*a*a*b", r"(?m)a*a*b$"])
def test_the_longest_text_is_searched_in_bounded_time_and_a_longer_one_is_refused(pattern):
    longest = study(pattern).longest
    assert longest in LONGEST.values()
    test = compile_condition(matches(pattern)).test
    assert test(frame("a" * longest)) is False
    with pytest.raises(Unsearched, match=f"on {longest:,} characters at most, and the text has {longest + 1:,}"):
        test(frame("a" * (longest + 1)))


@pytest.mark.parametrize("pattern", BOUNDED)
def test_a_pattern_that_only_re_can_search_for_keeps_its_bound(pattern):
    found = study(pattern)
    assert (found.refused, found.linear, found.longest) == (None, None, BOUNDED[pattern])


PROSE = "The quick brown fox, 17 of them, jumps over the lazy dog and is not seen again.\n" * 640
COMMON = [
    r".*foo.*",
    r"^.*foo.*bar.*$",
    r"foo.*bar",
    r"(?i).*error.*timeout.*",
    r"\d+-\d+",
    r"^\s*\w+\s*=\s*.*$",
    r"(?s)^The.*seen.*again\.\n$",
    r"[a-z]+@[a-z]+\.[a-z]{2,}",
]


@pytest.mark.parametrize("pattern", COMMON)
@pytest.mark.parametrize("end", ["", "foo and bar", "ERROR: a Timeout", "17-18 a@b.cd", "\n"])
def test_the_most_usual_shapes_are_answered_on_long_prose_as_python_would(pattern, end):
    text = PROSE + end
    assert len(text) > 50_000
    message = Frame(Payload(json.dumps({"a": text}).encode(), Json()), None, [], "topic", 0, 1, 1_000)
    assert compile_condition(matches(pattern)).test(message) is bool(re.search(pattern, text))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", [r"[a-z]+@", r"a*?b", r"(?:\w|-)+@", r"^a*a*a*b", r"a*a*b", r"a.*b.*c.*d"])
def test_a_long_text_that_was_chosen_to_be_slow_is_searched_in_time(pattern):
    assert compile_condition(matches(pattern)).test(frame("a" * 500_000)) is False


EXACT = [each for each in (*ORDINARY, *COMMON) if build(each).certain and build(each).exact]
EDGES = [r"^$", r"$", r"a$\n", r"\Aa|b\Z", r"(^|,)a($|,)", r"a{3,}b", r"(ab){2,4}c?$", r"(?i)STRASSE|\u017f", r"^a*$|x",
         r"[^a]b", r"(?s).\n.", r"(a|b*)c{0,2}$", r"a?\Z", r"^^a$$"]  # fmt: skip


@pytest.mark.parametrize("pattern", [*EXACT, *EDGES])
def test_the_search_for_long_texts_says_what_python_says(pattern):
    assert len(EXACT) > 30
    automaton = build(pattern)
    assert automaton.certain
    assert automaton.exact
    linear = Linear(automaton)
    expected = re.compile(pattern)
    letters = sorted({*"ab,c\n 1-@.xS\u017f\u20ac", *re.sub(r"\W", "", pattern)})
    chance = random.Random(pattern)
    for _ in range(600):
        text = "".join(chance.choices(letters, k=chance.randrange(12)))
        assert linear.search(text) is (expected.search(text) is not None), repr(text)


def test_what_the_search_keeps_is_bounded(monkeypatch):
    from loader.bridge.condition import linear as module

    monkeypatch.setattr(module, "MOST_STEPS", 100)
    search = Linear(build(r"a.{12}b.*c"))
    chance = random.Random(1)
    for _ in range(30):
        text = "".join(chance.choices("ab", k=200))
        assert not search.search(text)
        assert search.search(text + "c") is (re.search(r"a.{12}b.*c", text + "c") is not None)
        assert len(search._states) <= 101


def file(when: str) -> str:
    return (
        'endpoint "file" "a" {\n region = "r"\n environment = "e"\n path = "/a"\n}\n'
        'endpoint "file" "b" {\n region = "r"\n environment = "e"\n path = "/b"\n}\n'
        'pipeline "p" {\n source = "a"\n sinks = "b"\n on_refusal = "stop"\n stage "filter" {\n'
        f"  when = {when}\n }}\n}}\n"
    )


def test_a_message_with_a_longer_text_is_refused_and_not_taken_for_one_that_does_not_match():
    block = 'test "long" {\n pipeline = "p"\n input {\n value = { x = "%s" }\n }\n expect {\n refused = "20,001" }\n}\n'
    configuration = parse_configuration(file('!matches(payload.x, "a.*b\\\\b")') + block % ("a" * 20_001))
    assert [verdict.differences for verdict in run_tests(configuration)] == [()]


def test_the_check_tells_of_the_longest_text(tmp_path):
    path = tmp_path / "f.hcl"
    each = ("a.*b", r"a.*b\\b", r"a.*b\\b.*c", "^ok")
    path.write_text(file(" || ".join(f'matches(payload.x, "{pattern}")' for pattern in each)))
    told = [(each.severity, each.place.line, each.text[:43]) for each in examine(path, {}) if "matches" in each.text]
    assert told == [
        ("note", 16, r"matches tries 'a.*b\\b' on 20,000 character"),
        ("warning", 16, r"matches tries 'a.*b\\b.*c' on 2,000 charact"),
    ]
