"""Stages: what they keep, change and refuse, and that no message vanishes."""

from __future__ import annotations

from typing import Any

import pytest

from loader.bridge.config.load import parse_configuration
from loader.bridge.formats.json import Json
from loader.bridge.frame import Frame, Payload, Unavailable
from loader.bridge.sources.file import FileSource
from loader.bridge.stages.rate import Rate
from loader.bridge.stages.registry import build, kinds
from loader.bridge.stages.stage import Outcome, Stage
from loader.errors import ConfigurationError

JSON = Json()

FILE = """
endpoint "file" "in" {{
  region = "l"
  environment = "t"
  path = "-"
}}
endpoint "file" "a" {{
  region = "l"
  environment = "t"
  path = "a"
}}
endpoint "file" "b" {{
  region = "l"
  environment = "t"
  path = "b"
}}
lookup "users" {{
  file {{ path = "users.json" }}
}}
pipeline "p" {{
  source = "in"
  sinks = ["a", "b"]
  on_refusal = "stop"
  {stage}
}}
"""


class Context:
    pipeline = "p"
    sinks = ("a", "b")

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.users: dict[str, Any] | None = {"7": {"tier": "gold"}}

    def lookup(self, name: str) -> dict[str, Any]:
        if self.users is None:
            raise Unavailable(name)
        return self.users

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


def make(stage: str, context: Context | None = None) -> Stage:
    """A stage as a file describes it."""
    configuration = parse_configuration(FILE.format(stage=stage), environ={})
    return build(configuration.pipelines["p"].stages[0], context or Context())


def frame(body: bytes | None, key: bytes | None = b"k", headers: Any = (), offset: int = 0) -> Frame:
    return Frame(Payload(body, JSON), key, headers, "t", 0, offset)


def one(stage: str, body: bytes | None, **given: Any) -> Frame:
    outcome = make(stage).apply([frame(body, **given)])
    assert not outcome.refused
    return outcome.frames[0]


def refusal(stage: str, body: bytes) -> str:
    outcome = make(stage).apply([frame(body)])
    assert (outcome.frames, outcome.filtered) == ([], 0)
    return outcome.refused[0][1]


def values(outcome: Outcome) -> list[bytes | None]:
    return [each.value() for each in outcome.frames]


EXAMPLES = {
    "convert": 'stage "convert" { to = "json" }',
    "copy_field": 'stage "copy_field" {\n from = "a"\n to = "b"\n}',
    "drop_fields": 'stage "drop_fields" { fields = ["a"] }',
    "flatten": 'stage "flatten" { each = "a" }',
    "filter": 'stage "filter" { when = payload.a == 1 }',
    "multiply": 'stage "multiply" {\n copies = 3\n new_ids = "a"\n}',
    "rename": 'stage "rename" { fields = { a = "b" } }',
    "route": 'stage "route" {\n rule {\n when = payload.a == 1\n to = "a"\n }\n}',
    "sample": 'stage "sample" {\n rate = 0.5\n by = payload.a\n}',
    "set": 'stage "set" { fields = { a = payload.b } }',
    "throttle": 'stage "throttle" { rate = 1000 }',
}


def test_every_kind_of_stage_is_registered_documented_and_has_an_example_here():
    assert set(kinds()) - {"trail"} == set(EXAMPLES)
    for kind in kinds().values():
        assert kind.summary.endswith(".")
        assert all(option.help.endswith(".") for option in kind.options)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_no_message_vanishes_whatever_the_payload_is(kind):
    bodies = [b'{"a":1}', b'{"b":2}', None, b"{", b"[1]", b'"x"', b"5", b"null", b'{"a":{"c":1}}', b""]
    stage = make(EXAMPLES[kind])
    for number, body in enumerate(bodies):
        outcome = stage.apply([frame(body, offset=number)])
        copies = 3 if kind == "multiply" and outcome.frames else 1
        assert len(outcome.frames) / copies + len(outcome.refused) + outcome.filtered == 1
        assert all(reason for _, reason in outcome.refused)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_stage_changes_neither_the_shared_payload_nor_a_neighbours_frame(kind):
    payload = Payload(b'{"a":1,"b":{"c":[1,2]}}', JSON)
    neighbour = Frame(payload, b"k", (("h", b"1"),), "t", 0, 1)
    make(EXAMPLES[kind]).apply([Frame(payload, b"k", neighbour.headers, "t", 0, 1)])
    assert neighbour.value() == b'{"a":1,"b":{"c":[1,2]}}'
    assert neighbour.fields == {"a": 1, "b": {"c": [1, 2]}}
    assert neighbour.headers == (("h", b"1"),)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_stage_says_why(kind):
    assert make(EXAMPLES[kind]).why(frame(b'{"a":1}'))


def test_a_filter_keeps_the_order_and_counts_what_it_drops():
    frames = [frame(b'{"a":%d}' % number) for number in (1, 2, 1, 3)]
    outcome = make(EXAMPLES["filter"]).apply(frames)
    assert outcome.frames == [frames[0], frames[2]]
    assert outcome.filtered == 2


def test_a_lookup_that_is_not_there_yet_holds_the_batch_and_drops_nothing():
    context = Context()
    context.users = None
    with pytest.raises(Unavailable):
        make('stage "filter" { when = has(lookup.users[payload.id]) }', context).apply([frame(b'{"id":7}')])
    context.users = {"7": 1}
    assert make('stage "filter" { when = has(lookup.users[payload.id]) }', context).apply([frame(b'{"id":7}')]).frames


ROUTE = """stage "route" {{
  rule {{
    when = payload.n == 1
    to = "a"
  }}
  rule {{
    when = payload.n > 0
    to = {second}
  }}
  {more}
}}"""


@pytest.mark.parametrize(
    ("second", "more", "n", "sinks"),
    [
        ('"b"', "", 1, ("a",)),
        ('"b"', "", 2, ("b",)),
        ('"b"', "", 0, None),
        ("[]", "", 2, None),
        ('"b"', 'default = ["a", "b"]', 0, ("a", "b")),
        ('"b"', 'match = "all"', 1, ("a", "b")),
        ('"b"', 'match = "all"', 0, None),
    ],
)
def test_a_route_takes_the_first_rule_that_holds_or_all_of_them(second, more, n, sinks):
    outcome = make(ROUTE.format(second=second, more=more)).apply([frame(b'{"n":%d}' % n)])
    assert [each.sinks for each in outcome.frames] == ([sinks] if sinks else [])
    assert outcome.filtered == (0 if sinks else 1)


def test_a_second_route_narrows_what_the_first_one_chose():
    given = frame(b'{"n":1}')
    given.sinks = ("b",)
    assert make(ROUTE.format(second='"b"', more="")).apply([given]).filtered == 1


def test_set_works_out_all_values_from_the_message_as_it_came():
    stage = 'stage "set" {\n fields = { a = payload.b, b = payload.a, "c.d" = "x" }\n'
    stage += " headers = { t = payload.a, old = null }\n key = payload.b\n}"
    found = one(stage, b'{"a":1,"b":"2"}', headers=[("old", b"1"), ("kept", b"2")])
    assert found.value() == b'{"a":"2","b":1,"c":{"d":"x"}}'
    assert list(found.headers) == [("kept", b"2"), ("t", b"1")]
    assert found.key == b"2"


def test_set_copies_long_numbers_with_every_digit():
    found = one('stage "set" { fields = { b = payload.a } }', b'{"a":123456789012345678901234567890}')
    assert found.value() == b'{"a":123456789012345678901234567890,"b":123456789012345678901234567890}'


def test_headers_alone_leave_the_payload_undecoded_and_untouched():
    found = one('stage "set" { headers = { t = topic } }', b"not json")
    assert not found.payload.decoded
    assert found.value() is found.payload.value


def test_a_tombstone_keeps_being_one_and_gets_headers():
    found = one('stage "set" {\n fields = { a = 1 }\n headers = { t = "x" }\n}', None)
    assert found.value() is None
    assert list(found.headers) == [("t", b"x")]


@pytest.mark.parametrize("body", [b'{"a":5}', b'{"a":[1]}', b"[1]", b'"x"'])
def test_a_value_that_is_no_object_is_not_overwritten_by_a_field_below_it(body):
    assert "is not an object" in refusal('stage "set" { fields = { "a.b" = 1 } }', body)


def test_rename_moves_and_does_not_overwrite_unless_told_to():
    rename = 'stage "rename" {{ fields = {{ a = "x.y" }}\n {more}\n}}'
    assert one(rename.format(more=""), b'{"a":1.10,"b":2}').value() == b'{"b":2,"x":{"y":1.1}}'
    assert "is there already" in refusal(rename.format(more=""), b'{"a":1,"x":{"y":2}}')
    keep = one(rename.format(more='on_conflict = "keep"'), b'{"a":1, "x":{"y":2}}')
    assert keep.value() is keep.payload.value
    assert one(rename.format(more='on_conflict = "overwrite"'), b'{"a":1,"x":{"y":2}}').value() == b'{"x":{"y":1}}'
    missing = one(rename.format(more=""), b'{ "b":1}')
    assert missing.value() is missing.payload.value


def test_drop_fields_takes_fields_and_headers_and_leaves_the_rest_byte_for_byte():
    stage = 'stage "drop_fields" {\n fields = ["a.b", "c"]\n headers = ["h"]\n}'
    assert one(stage, b'{"a":{"b":1,"x":2},"c":3}').value() == b'{"a":{"x":2}}'
    found = one(stage, b'{ "z" : 1 }', headers=[("h", b"1"), ("i", b"2")])
    assert found.value() is found.payload.value
    assert list(found.headers) == [("i", b"2")]


def test_copy_field_reaches_fields_headers_and_the_key():
    found = one('stage "copy_field" {\n from = "a"\n to = "b.c"\n to_header = "h"\n to_key = true\n}', b'{"a":7}')
    assert (found.value(), list(found.headers), found.key) == (b'{"a":7,"b":{"c":7}}', [("h", b"7")], b"7")
    assert "no single value" in refusal('stage "copy_field" {\n from = "a"\n to_header = "h"\n}', b'{"a":{}}')


def test_a_sample_keeps_its_share_of_neighbouring_numbers_and_always_the_same():
    stage = make('stage "sample" { rate = 0.1 }')
    frames = [frame(b"{}", offset=number) for number in range(20_000)]
    kept = [each.offset for each in stage.apply(frames).frames]
    assert 1_800 < len(kept) < 2_200
    assert [each.offset for each in make('stage "sample" { rate = 0.1 }').apply(frames).frames] == kept
    salted = make('stage "sample" {\n rate = 0.1\n salt = "x"\n}').apply(frames).frames
    assert [each.offset for each in salted] != kept


def test_a_sample_by_key_or_field_keeps_what_belongs_together():
    for stage, given in (
        ('stage "sample" {\n rate = 0.5\n by = key\n}', [frame(b"{}", key=b"same", offset=n) for n in range(50)]),
        ('stage "sample" {\n rate = 0.5\n by = "payload.s"\n}', [frame(b'{"s":"x"}', offset=n) for n in range(50)]),
    ):
        assert len(make(stage).apply(given).frames) in (0, 50)


@pytest.mark.parametrize(("rate", "kept"), [("0", 0), ("1", 100)])
def test_a_sample_of_nothing_and_of_all_is_exact(rate, kept):
    frames = [frame(b"{}", offset=number) for number in range(100)]
    assert len(make(f'stage "sample" {{ rate = {rate} }}').apply(frames).frames) == kept


def test_multiplied_messages_have_identities_and_ids_of_their_own_and_the_same_ones_each_time():
    stage = 'stage "multiply" {\n copies = 3\n new_ids = "id"\n}'
    for _ in range(2):
        outcome = make(stage).apply([frame(b'{"id":"x"}')])
        assert values(outcome) == [b'{"id":"x/0"}', b'{"id":"x/1"}', b'{"id":"x/2"}']
        assert [each.index for each in outcome.frames] == [(0,), (1,), (2,)]
    twice = [each for one in outcome.frames for each in make(stage).apply([one]).frames]
    assert len({each.index for each in twice}) == len(set(values(Outcome(twice)))) == 9


def test_a_rate_lets_a_burst_pass_and_then_waits_as_long_as_it_says():
    now = [0.0]
    rate = Rate(10, 5, lambda: now[0])
    assert rate.take(5) == 0
    assert rate.take(10) == 1.0
    now[0] = 1.0
    assert rate.take(1) == pytest.approx(0.1)
    now[0] = 1_000.0
    assert rate.take(5) == 0
    assert rate.take(1) == pytest.approx(0.1)


def test_throttle_waits_through_the_pipeline_and_keeps_every_message():
    context = Context()
    frames = [frame(b"{}") for _ in range(30)]
    assert make('stage "throttle" {\n rate = 10\n burst = 10\n}', context).apply(frames).frames == frames
    assert context.waited == [pytest.approx(2.0, abs=0.1)]


MIRROR = """
endpoint "kafka" "a" {
  region = "eu"
  environment = "prod"
  brokers = "a:1"
  topic = "t"
}
endpoint "kafka" "b" {
  region = "us"
  environment = "prod"
  brokers = "b:1"
  topic = "t"
}
endpoint "kafka" "c" {
  region = "ap"
  environment = "prod"
  brokers = "c:1"
  topic = "t"
}
mirror "ab" {
  between = ["a", "b"]
  on_refusal = "stop"
}
mirror "bc" {
  between = ["b", "c"]
  on_refusal = "stop"
}
mirror "ca" {
  between = ["c", "a"]
  on_refusal = "stop"
}
"""


def test_a_ring_of_mirrors_delivers_everywhere_and_ends():
    configuration = parse_configuration(MIRROR, environ={})
    arrived = {"a": 0, "b": 0, "c": 0}
    waiting: list[tuple[str, Any]] = [("a", ())]
    for _ in range(50):
        if not waiting:
            break
        place, headers = waiting.pop(0)
        for pipeline in configuration.pipelines.values():
            if pipeline.source == place:
                stage = build(pipeline.stages[0], Context())
                for sent in stage.apply([frame(b"{}", headers=headers)]).frames:
                    arrived[pipeline.sinks[0]] += 1
                    waiting.append((pipeline.sinks[0], sent.headers))
    assert not waiting
    assert arrived["a"] == 0
    assert arrived["b"] >= 1
    assert arrived["c"] >= 1


def test_set_works_out_what_stands_in_lists_and_maps_and_makes_new_ones_for_each_message():
    stage = 'stage "set" { fields = { x = [payload.a, 1], y = { q = payload.b.c, r = [key] } } }'
    found = one(stage, b'{"a":1,"b":{"c":12345678901234567890123}}').value()
    assert found is not None
    assert JSON.decode(found)["x"] == [1, 1]
    assert b'"y":{"q":12345678901234567890123,"r":["k"]}' in found.replace(b" ", b"")


def test_paths_may_begin_with_payload_wherever_a_field_is_named():
    assert one('stage "set" { fields = { "payload.x" = 1 } }', b"{}").value() == b'{"x":1}'
    assert one('stage "rename" { fields = { "payload.a" = "payload.z" } }', b'{"a":1}').value() == b'{"z":1}'


def test_a_lone_surrogate_is_copied_to_no_header():
    stage = 'stage "copy_field" {\n from = "a"\n to_header = "x"\n}'
    assert "lone surrogate" in refusal(stage, b'{"a":"\\ud800"}')


def test_a_payload_that_is_null_does_not_become_a_tombstone():
    assert one('stage "convert" { to = "json" }', b" null").value() == b"null"


def test_a_file_of_messages_takes_headers_as_a_map_and_says_what_else_it_wants(tmp_path):
    path = tmp_path / "in.ndjson"
    path.write_text('{"value":"x","headers":{"a":"1"}}\n{"headers":[1]}\n[]\n')
    source = FileSource("in", str(path), JSON, lines="messages", tombstones=True)
    source.open(None)
    good, *bad = source.read(10, 0).frames
    source.close(None, 0)
    assert good.headers == [("a", b"1")]
    assert ["a list of name and value" in str(each.payload.error) for each in bad] == [True, True]


def test_variables_in_stages_are_looked_up(monkeypatch):
    stage = 'stage "set" {\n fields = { x = env("ZONE") }\n headers = { z = "in-${env("ZONE")}" }\n}'
    monkeypatch.setenv("ZONE", "eu")
    found = one(stage, b"{}")
    assert (found.value(), found.headers) == (b'{"x":"eu"}', [("z", b"in-eu")])
    monkeypatch.delenv("ZONE")
    with pytest.raises(ConfigurationError, match="set the variable ZONE"):
        one(stage, b"{}")
