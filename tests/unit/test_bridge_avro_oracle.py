"""Avro against another implementation: what Apache's own library writes, the bridge reads as the same values."""

from __future__ import annotations

import datetime
import io
import itertools
import json
import math
from base64 import b64decode
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from loader.bridge.formats.avro import Avro, Reading
from loader.bridge.registry.schema import in_one_piece

pytest.importorskip("avro")
import avro.io
import avro.schema

UTC = datetime.UTC
LOGICAL = {
    "date": "int",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "time-millis": "int",
    "time-micros": "long",
}
_counter = itertools.count()


@st.composite
def kinds(draw: Any, depth: int = 3) -> Any:
    plain = [
        "null",
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "bytes",
        "string",
        "fixed",
        "enum",
        "decimal",
        *LOGICAL,
    ]
    kind = draw(st.sampled_from([*plain, *(["record", "array", "map", "union"] * 2 if depth else [])]))
    if kind in LOGICAL:
        return {"type": LOGICAL[kind], "logicalType": kind}
    if kind == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": draw(st.integers(0, 6))}
    if kind == "fixed":
        return {"type": "fixed", "name": f"N{next(_counter)}", "size": draw(st.integers(1, 9))}
    if kind == "enum":
        return {"type": "enum", "name": f"N{next(_counter)}", "symbols": ["A", "B", "C"]}
    if kind == "array":
        return {"type": "array", "items": draw(kinds(depth=depth - 1))}
    if kind == "map":
        return {"type": "map", "values": draw(kinds(depth=depth - 1))}
    if kind == "union":
        inner = draw(kinds(depth=depth - 1).filter(lambda each: each != "null" and not isinstance(each, list)))
        return draw(st.sampled_from([["null", inner], [inner, "null"]]))
    if kind == "record":
        return draw(records(depth=depth - 1))
    return kind


@st.composite
def records(draw: Any, depth: int = 3) -> Any:
    fields = [{"name": name, "type": draw(kinds(depth=depth))} for name in "abc"[: draw(st.integers(1, 3))]]
    return {"type": "record", "name": f"N{next(_counter)}", "fields": fields}


def values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        return st.one_of([values(each) for each in kind])
    name = kind if isinstance(kind, str) else kind.get("logicalType") or kind["type"]
    if name == "record":
        return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in kind["fields"]})
    if name == "array":
        return st.lists(values(kind["items"]), max_size=3)
    if name == "map":
        return st.dictionaries(st.text(max_size=5), values(kind["values"]), max_size=3)
    if name == "fixed":
        return st.binary(min_size=kind["size"], max_size=kind["size"])
    if name == "decimal":
        return st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-kind["scale"]))
    moments = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9998, 1, 1), timezones=st.just(UTC))
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32),
        "double": st.floats(),
        "bytes": st.binary(max_size=20),
        "string": st.text(),
        "enum": st.sampled_from("ABC"),
        "date": st.dates(),
        "timestamp-millis": moments.map(lambda m: m.replace(microsecond=m.microsecond // 1_000 * 1_000)),
        "timestamp-micros": moments,
        "time-millis": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1_000 * 1_000)),
        "time-micros": st.times(),
    }
    return simple[name]


def same(kind: Any, value: Any, found: Any) -> bool:
    """Whether the JSON `found` says `value`."""
    if isinstance(kind, list):
        kind = next(each for each in kind if (each == "null") == (value is None))
    name = kind if isinstance(kind, str) else kind.get("logicalType") or kind["type"]
    if name == "record":
        return list(found) == [each["name"] for each in kind["fields"]] and all(
            same(each["type"], value[each["name"]], found[each["name"]]) for each in kind["fields"]
        )
    if name == "array":
        return len(found) == len(value) and all(map(lambda a, b: same(kind["items"], a, b), value, found))
    if name == "map":
        return found.keys() == value.keys() and all(same(kind["values"], value[key], found[key]) for key in value)
    if name in ("bytes", "fixed"):
        return b64decode(found, validate=True) == value
    if name in ("float", "double") and not math.isfinite(value):
        return found is None
    if name == "decimal":
        digits = found.partition(".")[2]
        return Decimal(found) == value and len(digits) == kind["scale"]
    if name == "date":
        return datetime.date.fromisoformat(found) == value
    if name.startswith("timestamp"):
        return datetime.datetime.fromisoformat(found) == value and found.endswith("+00:00")
    if name.startswith("time"):
        return datetime.time.fromisoformat(found) == value
    return type(found) is type(value) and found == value


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_apaches_library_writes_is_read_as_the_same_values(data):
    written = data.draw(records())
    value = data.draw(values(written))
    out = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(json.dumps(written))).write(value, avro.io.BinaryEncoder(out))
    form = Avro(None)  # type: ignore[arg-type]
    form.schemas.known[1] = Reading(in_one_piece(written))
    found = json.loads(form.encode(form.decode(b"\0\0\0\0\1" + out.getvalue())))
    assert same(written, value, found), (value, found)
