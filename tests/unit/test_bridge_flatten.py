"""flatten: one message an element, of JSON and of Avro, read one by one, by a function made for the schema, and in
columns: the same bytes."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
import time
from typing import Any

import fastavro
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from sink_doubles import Channel

from loader.bridge.columns import Columns
from loader.bridge.config.load import parse_configuration
from loader.bridge.engine.bucket import Share
from loader.bridge.engine.deadletter import letter
from loader.bridge.formats.avro import COLUMNS_FROM, Avro, Reading
from loader.bridge.formats.json import Json
from loader.bridge.frame import Frame
from loader.bridge.generate.feed import Encoder, messages, schema
from loader.bridge.generate.vehicles import records
from loader.bridge.registry.schema import in_one_piece
from loader.bridge.sinks.pubsub import PubsubSink
from loader.bridge.sinks.sink import Origin, identity_of
from loader.bridge.sources.kafka import KafkaFrame
from loader.bridge.stages.registry import build
from loader.bridge.stages.stage import Outcome
from loader.pull import protocol as pb

FILE = """
endpoint "file" "in" {{
  path = "in"
  region = "r"
  environment = "e"
}}
endpoint "file" "out" {{
  path = "out"
  region = "r"
  environment = "e"
}}
pipeline "p" {{
  source = "in"
  sinks = ["out"]
  on_refusal = "drop"
  stage "flatten" {{
{options}
  }}
}}
"""
JSON = Json()
ORIGIN = Origin("gps", 3, "cluster/gps/3/")


def flatten(options: str) -> Any:
    configuration = parse_configuration(FILE.format(options=options), environ={})
    return build(configuration.pipelines["p"].stages[0], None)  # type: ignore[arg-type]


def frame(value: Any, form: Any = JSON, offset: int = 7, headers: Any = ()) -> Frame:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return KafkaFrame(body, b"key", headers, offset, 1_796_054_400_000, ORIGIN, form)


def rows(options: str, value: Any) -> list[Any]:
    outcome = flatten(options).apply([frame(value)])
    assert not outcome.refused
    return [json.loads(each.value()) for each in outcome.frames]


ORDER = {"id": 1, "who": {"name": "a"}, "tags": ["x"], "items": [{"sku": "s", "n": 2, "parts": [1]}, {"sku": "t"}]}


def test_each_element_gets_the_records_fields_and_its_own():
    assert rows('each = "items"', ORDER) == [
        {"id": 1, "who": {"name": "a"}, "tags": ["x"], "sku": "s", "n": 2, "parts": [1]},
        {"id": 1, "who": {"name": "a"}, "tags": ["x"], "sku": "t"},
    ]


def test_fields_are_chosen_and_renamed_and_the_whole_element_is_kept_beside_them():
    options = 'each = "items"\nkeep = ["who.name"]\nfields = ["sku"]\nrename = { sku = "article" }\nraw = "item"'
    assert rows(options, ORDER) == [
        {"who_name": "a", "article": "s", "item": ORDER["items"][0]},
        {"who_name": "a", "article": "t", "item": ORDER["items"][1]},
    ]


def test_with_the_whole_element_kept_its_lists_are_not_columns_too():
    assert rows('each = "items"\nkeep = "id"\nraw = "item"', ORDER)[0] == {
        "id": 1,
        "sku": "s",
        "n": 2,
        "item": ORDER["items"][0],
    }


def test_the_raw_column_can_be_a_text():
    [row, _] = rows('each = "items"\nkeep = "id"\nfields = "sku"\nraw = "item"\nraw_as = "text"', ORDER)
    assert json.loads(row["item"]) == ORDER["items"][0]


def test_a_deep_list_is_taken_out_of_its_object():
    assert rows('each = "a.b"', {"a": {"b": [{"x": 1}], "c": 2}}) == [{"a": {"c": 2}, "x": 1}]


def test_no_field_is_lost_to_another_of_its_name():
    value = {"id": 1, "path": [{"id": 2, "path": 3, "raw": 4}]}
    assert rows('each = "path"\nraw = "path"', value) == [
        {"parent_id": 1, "id": 2, "element_path": 3, "raw": 4, "path": value["path"][0]}
    ]


def test_elements_that_are_no_objects_become_values_and_nulls_none():
    outcome = flatten('each = "v"').apply([frame({"v": [1, None, [2], "x"]})])
    assert [json.loads(each.value()) for each in outcome.frames] == [{"value": 1}, {"value": [2]}, {"value": "x"}]
    assert [each.index for each in outcome.frames] == [(0,), (2,), (3,)]


@pytest.mark.parametrize("value", [{}, {"items": None}, {"items": []}])
def test_a_message_without_elements_counts_as_filtered(value):
    assert flatten('each = "items"').apply([frame(value)]) == Outcome([], [], 1)


def test_what_is_no_list_is_refused_and_its_neighbours_go_on():
    outcome = flatten('each = "items"').apply([frame({"items": 5}), frame(ORDER), frame(b"{")])
    assert outcome.refused[0][1] == "items is not a list"
    assert len(outcome.refused) == 2
    assert len(outcome.frames) == 2


def test_numbers_keep_their_digits():
    body = b'{"items":[{"n":123456789012345678901234567890}]}'
    [row] = flatten('each = "items"').apply([frame(body)]).frames
    assert row.value() == b'{"n":123456789012345678901234567890}'


def test_a_row_has_an_identity_the_table_and_a_key_and_can_be_changed():
    outcome = flatten('each = "items"\ntable = "lines"\nkey = "who.name"').apply(
        [frame(ORDER, headers=[("table", b"old"), ("h", b"1")])]
    )
    first, second = outcome.frames
    assert identity_of(second, b"") == b"cluster/gps/3/7/1"
    assert (first.headers, first.key) == ([("h", b"1"), ("table", b"lines")], b"a")
    first.set(("n",), 3)
    assert json.loads(first.value())["n"] == 3
    assert first.copy().value() == first.value()


def test_a_dead_letter_of_a_row_holds_the_message_that_came():
    [first, _] = flatten('each = "items"').apply([frame(ORDER)]).frames
    dead = letter(first, "p", "out", "reason")
    assert json.loads(dead.value()) == ORDER
    assert identity_of(dead, b"") == b"cluster/gps/3/7/0"


def test_rows_are_published_with_identity_and_table():
    channel = Channel()
    sink = PubsubSink("out", "projects/p/topics/t", lambda: channel, None, None)  # type: ignore[arg-type]
    frames = flatten('each = "items"\ntable = "lines"').apply([frame(ORDER), frame(ORDER, offset=8)]).frames
    sink.send(frames, Share(), 100.0)
    sink.flush()
    sink.close(time.monotonic())
    sent = pb.PublishRequest.FromString(channel.bodies[0]).messages
    assert [dict(each.attributes) for each in sent] == [
        {"event_id": f"cluster/gps/3/{offset}/{number}", "table": "lines", "kafka_timestamp": "1796054400000"}
        for offset in (7, 8)
        for number in (0, 1)
    ]
    assert [each.data for each in sent] == [each.value() for each in frames]


@pytest.mark.parametrize(
    "odd", ["", "many rows", "headers", "long header", "no time", "long name", "early", "ordering"]
)
def test_rows_by_columns_are_published_as_the_frames_that_they_stand_for(odd):
    counts = [3, 1, 12 if odd == "many rows" else 2, 0, 4]
    values = [json.dumps({"id": at, "v": [{"n": "x" * 40 * each} for each in range(n)]}) for at, n in enumerate(counts)]
    headers = [[("h", b"x" * 2_000 if odd == "long header" else b"1")] if at % 2 else None for at in range(5)]
    origin = Origin("t", 3, "c" * (200 if odd == "long name" else 9) + "/t/3/")
    sent = Columns(
        [value.encode() for value in values],
        [3] * 5,
        [7, 8, 9, 10, 11],
        [0 if odd == "no time" else 5 if odd == "early" else 1_796_054_400_000 + at for at in range(5)],
        [b"key"] * 5,
        headers if "header" in odd else None,
        {3: origin},
        JSON,
    )
    made = flatten('each = "v"\ntable = "lines"').sift(sent).frames
    refused: list[str] = []

    class Delivery:
        def refuse(self, share, frame, reason, size):
            refused.append(f"{frame.offset} {frame.index} {reason}")

    bodies = []
    for frames in (made, list(made)):
        channel = Channel()
        options: dict[str, Any] = {"ordering": True} if odd == "ordering" else {"most_bytes": 900, "most_requests": 99}
        sink = PubsubSink("out", "projects/p/topics/t", lambda ch=channel: ch, Delivery(), None, **options)  # type: ignore
        sink.send(frames, Share(), 100.0)
        sink.flush()
        sink.close(time.monotonic())
        bodies.append(channel.bodies)
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) > 1 or odd == "ordering"
    assert max(map(len, bodies[0])) <= 900 or odd == "ordering"
    half = len(refused) // 2
    assert refused[:half] == refused[half:]
    assert bool(refused) == (odd == "long header")
    sent_now = sum(len(pb.PublishRequest.FromString(body).messages) for body in bodies[0])
    assert sent_now == sum(counts) - half


def test_rows_by_columns_that_were_not_taken_are_sent_again_as_the_same_bytes():
    channel = Channel()
    sink = PubsubSink("out", "projects/p/topics/t", lambda: channel, None, None)  # type: ignore[arg-type]
    values = [json.dumps(ORDER).encode()] * 3
    made = flatten('each = "items"').sift(columns(values, JSON)).frames
    sink.send(made[1:5], Share(), 100.0)
    sink.flush()
    assert sink._body([made[1:3], made[3:5]]) == channel.bodies[0]
    assert [each.index for each in made[1:5]] == [(1,), (0,), (1,), (0,)]
    assert (made[-1].offset, made[0].key, len(made[4:9])) == (2, b"key", 2)
    sink.close(time.monotonic())


# In columns

pytest.importorskip("polars")
GPS = 'each = "path"\nraw = "path"\nrename = { deviceId = "device_id" }\ntable = "gps_links"'


def avro(schemas: dict[int, Any], columnar: bool) -> Avro:
    made = Avro(None, columnar=columnar)  # type: ignore[arg-type]
    made.schemas.known.update({number: Reading(in_one_piece(each)) for number, each in schemas.items()})
    return made


def ways(options: str, schemas: dict[int, Any], values: list[bytes]) -> list[Outcome]:
    """One by one, by functions, and in columns; each of frames and of messages by columns."""
    single = avro(schemas, False)
    single.flattened = None  # type: ignore[assignment, method-assign]
    outcomes = []
    for form in (single, avro(schemas, False), avro(schemas, True)):
        frames = [frame(value, form, offset) for offset, value in enumerate(values)]
        outcomes.append(flatten(options).apply(frames))
        outcomes.append(flatten(options).sift(columns(values, form)))
    return outcomes


def columns(values: list[bytes], form: Any) -> Columns:
    count = len(values)
    times, keys = [1_796_054_400_000] * count, [b"key"] * count
    return Columns(values, [3] * count, list(range(count)), times, keys, None, {3: ORIGIN}, form)


def alike(outcomes: list[Outcome]) -> Outcome:
    first = outcomes[0]
    for other in outcomes[1:]:
        assert said(other) == said(first)
    return first


def said(outcome: Outcome) -> Any:
    rows = [(each.value(), each.offset, each.index, each.headers, each.key) for each in outcome.frames]
    return rows, [(each.offset, reason) for each, reason in outcome.refused], outcome.filtered


def feed(count: int, number: int = 1) -> list[bytes]:
    made = records(1, 20, 100, 1_796_054_400_000)
    encode = Encoder(schema(), number)
    return [value for (_, value, _), _ in zip(messages(made, encode), range(count), strict=False)]


def test_what_reads_columns_is_loaded_before_the_first_message_comes():
    text = "import sys; from loader.bridge.formats.avro import Avro; Avro(None).start(); assert 'polars' in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True)


def test_functions_and_columns_give_the_same_bytes_as_the_single_way():
    assert len(alike(ways(GPS, {1: schema()}, feed(200))).frames) > 600
    for columnar in (True, False):
        found = avro({1: schema()}, columnar).flattened(feed(COLUMNS_FROM), flatten(GPS).plan)
        assert all(found), "they went the single way"


@pytest.mark.parametrize("moment", [0, -1, 63, 2**34 - 1, 2**34, 2**41 - 1, 2**41, 2**62, -(2**63), 1_796_054_400_007])
def test_times_of_any_length_are_told_alike(moment):
    [record] = itertools.islice(records(1, 1, 1, 1_796_054_400_000), 1)
    record["path"][0]["points"][1]["at"] = moment
    record["path"][0]["leftAt"] = moment
    value = Encoder(schema(), 1)(record)
    found = alike(ways(GPS, {1: schema()}, [value] * COLUMNS_FROM))
    assert not found.refused


def test_an_array_that_says_that_it_is_endless_is_refused_at_once():
    kind = {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}}
    element = {"type": "record", "name": "E", "fields": [{"name": "all", "type": kind}]}
    written = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "path", "type": {"type": "array", "items": element}}],
    }
    value = b"\0\0\0\0\1\x02" + b"\xfe" * 8 + b"\x01" + b"ab"
    found = alike(ways('each = "path"', {1: written}, [value]))
    assert [each.offset for each, _ in found.refused] == [0]


@pytest.mark.parametrize("damage", ["longer", "shorter", "other framing", "unknown branch"])
def test_one_bad_record_in_a_batch_is_refused_alone(damage):
    values = feed(100)
    good = values[40]
    values[40] = {
        "longer": good + values[41][5:],  # a whole record behind it: what a batch alone would take for the next one
        "shorter": good[:-3],
        "other framing": b"\1" + good[1:],
        "unknown branch": good[:5] + b"\xff\xff\xff\x01" + good[9:],
    }[damage]
    found = alike(ways(GPS, {1: schema()}, values))
    assert [each.offset for each, _ in found.refused] == [40]


def test_two_schemas_in_one_batch_keep_their_order():
    wider = json.loads(json.dumps(schema()))
    wider["fields"].append({"name": "model", "type": "string"})
    encode = Encoder(json.loads(json.dumps(wider)), 2)
    made = records(1, 20, 100, 1_796_054_400_000)
    newer = [encode({**record, "model": "m"}) for record, _ in zip(made, range(60), strict=False)]
    values = [each for pair in zip(feed(60), newer, strict=True) for each in pair]
    offsets = [each.offset for each in alike(ways(GPS, {1: schema(), 2: wider}, values)).frames]
    assert offsets == sorted(offsets)


SIMPLE = ["boolean", "int", "long", "float", "double", "string"]
TIMES = [
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
]
OTHERS = [
    "bytes",
    {"type": "int", "logicalType": "date"},
    {"type": "map", "values": "double"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    ["null", "string", "long"],
]


@st.composite
def kinds(draw: Any, depth: int = 2) -> Any:
    kind = draw(st.sampled_from([*SIMPLE, *SIMPLE, *TIMES, *OTHERS, "enum", "array", "record", "nullable"]))
    if kind == "enum":
        return {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    if kind in ("array", "record", "nullable") and not depth:
        return "long"
    if kind == "array":
        return {"type": "array", "items": draw(kinds(depth=depth - 1))}
    if kind == "record":
        return draw(record_kinds(depth=depth - 1))
    if kind == "nullable":
        inner = draw(kinds(depth=depth - 1))
        return inner if isinstance(inner, list) else ["null", inner]
    return kind


@st.composite
def record_kinds(draw: Any, depth: int = 2) -> Any:
    names = draw(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=4, unique=True))
    fields = [{"name": name, "type": draw(kinds(depth=depth))} for name in names]
    return {"type": "record", "name": "R", "fields": fields}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        return st.one_of([values_of(each) for each in kind])
    name = kind if isinstance(kind, str) else kind["type"]
    limits = {"int": 2**31, "long": 2**63}
    if name in limits:
        return st.integers(-limits[name], limits[name] - 1)
    if name == "float":
        return st.floats(width=32)
    if name == "enum":
        return st.sampled_from(kind["symbols"])
    if name == "array":
        return st.lists(values_of(kind["items"]), max_size=3)
    if name == "map":
        return st.dictionaries(st.text(max_size=3), values_of(kind["values"]), max_size=2)
    if name == "record":
        return st.fixed_dictionaries({each["name"]: values_of(each["type"]) for each in kind["fields"]})
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "double": st.floats(),
        "string": st.text(max_size=20),
        "bytes": st.binary(max_size=4),
    }[name]


def plain(kind: Any) -> Any:
    """Without logical types, to write raw numbers by."""
    if isinstance(kind, list):
        return [plain(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    made = {key: value for key, value in kind.items() if key not in ("logicalType", "precision", "scale")}
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = plain(made[inner])
    if "fields" in made:
        made["fields"] = [{**each, "type": plain(each["type"])} for each in made["fields"]]
    return made


def named(kind: Any, names: Any) -> Any:
    """With a name of its own for each named type."""
    if isinstance(kind, list):
        return [named(each, names) for each in kind]
    if not isinstance(kind, dict):
        return kind
    made = {**kind, "name": f"{kind['name']}{next(names)}"} if "name" in kind else dict(kind)
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = named(made[inner], names)
    if "fields" in made:
        made["fields"] = [{**each, "type": named(each["type"], names)} for each in made["fields"]]
    return made


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_schemas_and_records_give_the_same_bytes_both_ways(data):
    element = data.draw(record_kinds())
    parent = data.draw(record_kinds(depth=1))
    written = {**parent, "fields": [*parent["fields"], {"name": "path", "type": {"type": "array", "items": element}}]}
    written = named(written, itertools.count())
    some = data.draw(st.lists(values_of(written), min_size=1, max_size=4))
    writer = fastavro.parse_schema(plain(written))
    framed = []
    for value in some:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, writer, value)
        framed.append(b"\0\0\0\0\1" + out.getvalue())
    raw = data.draw(st.sampled_from(['raw = "path"', 'raw = "whole"', ""]))
    alike(ways(f'each = "path"\n{raw}', {1: written}, (framed * COLUMNS_FROM)[: COLUMNS_FROM + 3]))
