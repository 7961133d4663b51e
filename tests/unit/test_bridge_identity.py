"""The identity of a message: stable, and different exactly where a row of its own is wanted."""

from __future__ import annotations

from loader.bridge.config.model import Endpoint, Pipeline, Place
from loader.bridge.identity import prefix, shared_targets, suffix, target

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
