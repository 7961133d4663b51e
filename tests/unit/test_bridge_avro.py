"""Avro: what each type becomes, what is refused, and what a registry's trouble does."""

from __future__ import annotations

import datetime
import io
import json
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from loader.bridge.formats.avro import Avro, Reading
from loader.bridge.formats.avro_guard import needs_guard
from loader.bridge.formats.avro_values import millis
from loader.bridge.frame import Frame, Payload, Undecodable
from loader.bridge.registry.client import NoSuchSchema
from loader.bridge.registry.schema import InvalidSchema, in_one_piece

UTC = datetime.UTC


class Known:
    """A registry that need not be asked."""


def avro(schema: Any, reader: Any = None) -> Avro:
    made = Avro(Known(), reader_schema=reader)  # type: ignore[arg-type]
    made.schemas.known[7] = Reading(in_one_piece(schema), reader)
    return made


def framed(schema: Any, value: Any, number: int = 7) -> bytes:
    out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}


def mapped(kind: Any, value: Any) -> Any:
    """The JSON that a value of a type becomes."""
    schema = record(kind)
    form = avro(schema)
    return json.loads(form.encode(form.decode(framed(schema, {"v": value}))))["v"]


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


DECIMAL = logical("bytes", "decimal", precision=30, scale=4)
FIXED_DECIMAL = {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("int", -5, -5),
        ("long", 2**63 - 1, 2**63 - 1),
        ("double", 0.1, 0.1),
        ("float", 1.100000023841858, 1.100000023841858),
        ("double", math.nan, None),
        ("double", math.inf, None),
        ("float", -math.inf, None),
        ("string", 'é"\u2028', 'é"\u2028'),
        ("bytes", b"\xff\x00", "/wA="),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", "YWJj"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "bytes"}, {"k": b"\x01"}, {"k": "AQ=="}),
        (["null", "bytes"], b"\x01", "AQ=="),
        (["null", "bytes"], None, None),
        (DECIMAL, Decimal("-12345678901234567890.1250"), "-12345678901234567890.1250"),
        (DECIMAL, Decimal("0.0001"), "0.0001"),
        (FIXED_DECIMAL, Decimal("12.30"), "12.30"),
        (logical("bytes", "decimal", precision=3), Decimal("-7"), "-7"),
        (logical("int", "date"), datetime.date(1969, 12, 31), "1969-12-31"),
        (logical("int", "date"), 2_932_897, "+10000-01-01"),
        (logical("int", "time-millis"), datetime.time(23, 59, 59, 7_000), "23:59:59.007"),
        (logical("long", "time-micros"), datetime.time(1, 2, 3, 4), "01:02:03.000004"),
        (logical("long", "time-micros"), 86_400_000_000, 86_400_000_000),
        (logical("long", "timestamp-millis"), 1_796_054_400_120, "2026-11-30T16:00:00.120+00:00"),
        (logical("long", "timestamp-millis"), 1_796_054_400_000, "2026-11-30T16:00:00+00:00"),
        (logical("long", "timestamp-micros"), 1_796_054_400_000_007, "2026-11-30T16:00:00.000007+00:00"),
        (logical("long", "timestamp-nanos"), 1_000_000_007, "1970-01-01T00:00:01.000000007+00:00"),
        (logical("long", "timestamp-millis"), 1_456_300_800_000_000, "+48118-05-03T08:00:00+00:00"),
        (logical("long", "timestamp-millis"), -62_167_219_200_001, "-0001-12-31T23:59:59.999+00:00"),
        (logical("long", "local-timestamp-millis"), 1, "1970-01-01T00:00:00.001"),
        (logical("string", "uuid"), uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        # A logical type that its base does not carry counts as absent.
        (logical("string", "timestamp-millis"), "x", "x"),
        (logical("long", "somebody-elses"), 5, 5),
        # The value alone does not say which branch it is of.
        ([logical("int", "date"), "long"], 0, "1970-01-01"),
        ([logical("int", "date"), "long"], 2**40, 2**40),
    ],
)
def test_each_type_becomes_the_json_that_the_readme_says(kind, value, wanted):
    assert mapped(kind, value) == wanted


def test_a_decimal_with_an_impossible_scale_is_bytes():
    form = avro(record(logical("bytes", "decimal", precision=2, scale=3)))
    assert form.decode(framed(record("bytes"), {"v": b"\x01"})) == {"v": "AQ=="}


def test_a_duration_is_spelled_as_iso_8601():
    kind = {"type": "fixed", "name": "L", "size": 12, "logicalType": "duration"}
    assert mapped(kind, struct.pack("<III", 1, 2, 3_004)) == "P1M2DT3.004S"


def test_a_record_that_holds_itself_is_read_to_its_end():
    kind = [
        "null",
        {
            "type": "record",
            "name": "N",
            "fields": [{"name": "at", "type": DECIMAL}, {"name": "next", "type": ["null", "N"]}],
        },
    ]
    value = {"at": Decimal("1.0000"), "next": {"at": Decimal("2.0000"), "next": None}}
    assert mapped(kind, value) == {"at": "1.0000", "next": {"at": "2.0000", "next": None}}


def test_branches_of_one_class_are_told_apart_while_reading():
    first = {"type": "record", "name": "A", "fields": [{"name": "x", "type": logical("long", "timestamp-millis")}]}
    second = {"type": "record", "name": "B", "fields": [{"name": "x", "type": "long"}]}
    schema = record({"type": "array", "items": [first, second]})
    form = avro(schema)
    value = framed(schema, {"v": [("A", {"x": 0}), ("B", {"x": 0})]})
    assert form.decode(value) == {"v": [{"x": "1970-01-01T00:00:00+00:00"}, {"x": 0}]}


@pytest.mark.parametrize("milliseconds", [0, -1, 999, -1_000, 86_399_999, 951_782_400_000, -2_208_988_800_001])
def test_timestamps_agree_with_pythons_dates(milliseconds):
    moment = datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(milliseconds=milliseconds)
    assert datetime.datetime.fromisoformat(millis(milliseconds)) == moment


TEXTS = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
NULLS = {"type": "array", "items": "null"}


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (TEXTS, b"", "not framed Avro"),
        (TEXTS, b"\0\0\0\0", "not framed Avro"),
        (TEXTS, b'{"a":1}', "begins with 7b 22"),
        (TEXTS, framed(TEXTS, {"a": 1, "b": "text"})[:-1], "not of its schema"),
        (TEXTS, framed(TEXTS, {"a": 1, "b": "text"}) + b"\0", "left over"),
        (TEXTS, b"\0\0\0\0\7\x02\x01", "not of its schema"),
        (TEXTS, b"\0\0\0\0\7\x02\x02\xff", "not of its schema"),
        (LIST, b"\0\0\0\0\7" + b"\x02" * 100_000, "nests deeper"),
        (NULLS, b"\0\0\0\0\7" + b"\xfe" * 9 + b"\x01", "take no bytes"),
    ],
)
def test_bytes_that_are_no_datum_are_refused(schema, value, why):
    with pytest.raises(Undecodable, match=why):
        avro(schema).decode(value)


def test_only_schemas_that_can_hide_large_things_are_looked_through():
    assert not needs_guard(in_one_piece(TEXTS))
    assert needs_guard(in_one_piece(LIST))
    assert needs_guard(in_one_piece(record(NULLS)))


def test_a_reader_schema_reads_what_it_knows_and_fills_in_its_defaults():
    reader = in_one_piece(
        {
            "type": "record",
            "name": "T",
            "fields": [
                {"name": "a", "type": "double"},
                {"name": "c", "type": {"type": "array", "items": logical("long", "timestamp-millis")}, "default": [0]},
            ],
        }
    )
    form = avro(TEXTS, reader)
    for _ in range(2):  # defaults are not used up
        assert form.decode(framed(TEXTS, {"a": 1, "b": "text"})) == {"a": 1.0, "c": ["1970-01-01T00:00:00+00:00"]}


def test_an_untouched_payload_leaves_as_it_came_and_a_changed_one_as_json():
    value = framed(TEXTS, {"a": 1, "b": "text"})
    frame = Frame(Payload(value, avro(TEXTS)))
    assert frame.get(("b",)) == "text"
    assert frame.value() == value
    frame.set(("c",), True)
    assert frame.value() == b'{"a":1,"b":"text","c":true}'


def test_references_namespaces_and_aliases_come_in_one_piece():
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "R",
        "namespace": "a",
        "aliases": ["Old"],
        "fields": [
            {"name": "p", "type": "geo.Point"},
            {"name": "q", "type": ["null", "geo.Point"]},
            {"name": "r", "type": ["null", "R"]},
        ],
    }
    whole = in_one_piece(schema, [point])
    assert (whole["name"], whole["aliases"]) == ("a.R", ["a.Old"])
    assert [field["type"] for field in whole["fields"]] == [
        {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]},
        ["null", "geo.Point"],
        ["null", "a.R"],
    ]


@pytest.mark.parametrize("schema", ["Nobody", {"type": "record"}, {"type": "array"}, 5, {"type": "map", "values": "X"}])
def test_what_is_no_schema_is_told(schema):
    with pytest.raises(InvalidSchema):
        in_one_piece(schema)


def test_a_schema_that_cannot_be_read_by_is_of_no_use():
    with pytest.raises(NoSuchSchema):
        Reading({"type": "enum", "name": "E", "symbols": ["not a symbol"]})
