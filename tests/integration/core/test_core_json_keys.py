"""Keys that are declared to stay JSON (LOADER_JSON_KEYS): one jsonb value instead of child tables and columns."""

from __future__ import annotations

import json
from collections.abc import Callable

from loading_harness import Loading

from loader.plan.names import json_keys


def body(**fields: object) -> bytes:
    return json.dumps({"eventName": "links", **fields}).encode()


def test_a_declared_key_is_jsonb_whatever_it_holds(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(json_keys="rawPath")
    points = [{"lat": 1.5, "deep": [[1]]}, {"lat": 2}]
    loading.load(
        [body(id=1, rawPath=points), body(id=2, rawPath={"points": points}), body(id=3, rawPath=[]), body(id=4)]
    )
    assert loading.columns("links") == {"event_name": "text", "id": "bigint", "raw_path": "jsonb"}
    assert {row["id"]: row.get("raw_path") for row in loading.rows("links")} == {
        1: points,
        2: {"points": points},
        3: [],
        4: None,
    }
    assert loading.letters() == []


def test_a_key_of_one_table_is_told_by_its_table_and_only_top_keys_count(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(json_keys="links.path")
    loading.load([body(id=1, path={"a": 1}, inner={"path": {"b": 2}}), body(id=2, eventName="other", path={"a": 1})])
    assert loading.columns("links") == {
        "event_name": "text",
        "id": "bigint",
        "path": "jsonb",
        "inner__path__b": "bigint",
    }
    assert "path__a" in loading.columns("other")


def test_a_scalar_in_such_a_key_goes_beside_it(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(json_keys="path")
    loading.load([body(id=1, path={"a": 1}), body(id=2, path="text")])
    assert loading.columns("links") == {"event_name": "text", "id": "bigint", "path": "jsonb", "path__v_text": "text"}
    assert loading.letters() == []


def test_declared_keys_are_spelled_as_their_columns() -> None:
    assert json_keys(" path, gpsLinks.rawPath ,,_event_id") == {"path", "gpsLinks.raw_path", "payload_event_id"}
