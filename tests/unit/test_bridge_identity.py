"""The identity of a message: stable, and different exactly where a row of its own is wanted."""

from __future__ import annotations

import re

from loader.bridge.config.load import parse_configuration
from loader.bridge.config.model import Endpoint, Pipeline, Place
from loader.bridge.formats.json import Json
from loader.bridge.identity import prefix, shared_targets, suffix, target
from loader.bridge.sinks.sink import identity_of
from loader.bridge.sources.file import FileSource

HERE = Place("file.hcl", 1)


def _endpoint(name, kind="pubsub", **options):
    return Endpoint(kind, name, "eu", "prod", options, HERE)


def _pipeline(name, *sinks):
    return Pipeline(name, "in", sinks, (), "raw", {}, None, "high", True, {}, HERE)


def test_the_parts_stand_in_their_order():
    assert prefix("", "c", "t", 3) + "7" + suffix(None) == "c/t/3/7"
    assert prefix("e2", "c", "t", 3) + "7" + suffix("p", (1, 0)) == "e2/c/t/3/7/p/1/0"


def test_two_endpoints_of_one_topic_are_the_same_sink():
    ends = {"a": _endpoint("a", topic="projects/p/topics/t"), "b": _endpoint("b", topic="projects/p/topics/t")}
    assert target(ends["a"]) == target(ends["b"])
    assert shared_targets([_pipeline("one", "a"), _pipeline("two", "b")], ends) == {target(ends["a"])}


def test_a_sink_of_one_pipeline_is_not_shared():
    ends = {"a": _endpoint("a", topic="projects/p/topics/t"), "b": _endpoint("b", topic="projects/p/topics/u")}
    assert shared_targets([_pipeline("one", "a", "b")], ends) == frozenset()


def _identities(path, epoch=""):
    source = FileSource("in", str(path), Json(), epoch=epoch)
    source.open(None)
    found = [identity_of(frame, b"").decode() for frame in source.read(100, 0).frames]
    source.close(None, 0)
    return found


def test_a_line_of_a_file_is_the_same_event_in_a_rerun_a_copy_and_a_file_that_grew(tmp_path):
    path = tmp_path / "in.ndjson"
    path.write_bytes(b'{"a":1}\r\n{"a":2}')
    first = _identities(path)
    assert len(set(first)) == 2
    assert _identities(path) == first
    path.unlink()
    path.write_bytes(b'{"a":1}\n{"a":2}\n{"a":1}\n')
    grown = _identities(path)
    assert grown[:2] == first
    assert grown[2] not in first, "a line that stands twice is two events"
    assert re.fullmatch(rf"file/{re.escape(str(path))}/[0-9a-f]{{16}}/2", grown[2])


def test_another_file_under_the_same_name_gives_other_events(tmp_path):
    path = tmp_path / "in.ndjson"
    path.write_text('{"a":1}\n{"a":2}\n')
    monday = _identities(path)
    path.write_text('{"a":3}\n{"a":2}\n')
    tuesday = _identities(path)
    assert tuesday[0] not in monday
    assert tuesday[1] == monday[1], "the same line at the same place is taken for the same event"
    path.write_text('{"a":3}\n{"a":2}\n')
    assert not {*_identities(path, "2026-12-01")} & {*monday, *tuesday}


def test_a_file_may_have_an_epoch():
    text = 'endpoint "file" "a" {\n region = "r"\n environment = "e"\n path = "/a"\n epoch = "monday"\n}\n'
    text += text.replace('"a"', '"b"').replace("/a", "/b") + 'pipeline "p" {\n source = "a"\n sinks = "b"\n}\n'
    text = text.replace('sinks = "b"', 'sinks = "b"\n on_refusal = "stop"')
    assert parse_configuration(text).endpoints["a"].epoch == "monday"
