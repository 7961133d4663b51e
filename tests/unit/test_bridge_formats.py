"""Formats: what is untouched leaves as it came, and what is changed keeps every digit of the rest."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2

from loader.bridge.formats.registry import make_format
from loader.bridge.frame import Frame, Payload, Undecodable
from loader.errors import ConfigurationError

JSON = make_format("json", {})


def changed(body: bytes) -> bytes | None:
    frame = Frame(Payload(body, JSON))
    frame.set(("new",), 1)
    return frame.value()


@pytest.mark.parametrize("body", [b'{ "a" : 1.0 }', b'{"a":1,"a":2}', b'{"a":1e400}', b"\xff", b'"\\ud800"', b"", None])
def test_an_untouched_payload_leaves_byte_for_byte(body):
    assert Frame(Payload(body, JSON)).value() is body


@pytest.mark.parametrize(
    "number",
    [
        "123456789012345678901234567890",
        "-9223372036854775809",
        "18446744073709551616",
        "9007199254740993",
        "0.12345678901234567890123",
        "1.00000000000000000001",
        "-12345678901234567.25",
        "0.1",
        "12.5",
    ],
)
def test_a_change_keeps_every_digit_of_the_other_numbers(number):
    assert changed(f'{{"a":{number},"s":"é"}}'.encode()) == f'{{"a":{number},"s":"é","new":1}}'.encode()


@pytest.mark.parametrize("number", ["1e400", "1e-400", "-1e400"])
def test_a_number_beyond_a_double_is_neither_infinite_nor_zero_after_a_change(number):
    out = changed(f'{{"a":{number}}}'.encode())
    assert out is not None
    assert out.decode().upper().replace("+", "") == f'{{"A":{number},"NEW":1}}'.upper()


def test_a_lone_surrogate_survives_a_change_as_an_escape():
    assert changed(b'{"a":"\\ud800x"}') == b'{"a":"\\ud800x","new":1}'


@pytest.mark.parametrize(
    "body", [b"{", b"", b"\xff", b"NaN", b'{"a":Infinity}', b"[" * 5000 + b"]" * 5000, b"9" * 5000]
)
def test_what_is_not_json_is_undecodable_and_nothing_else(body):
    with pytest.raises(Undecodable):
        JSON.decode_exactly(body, JSON.decode(body))


def test_what_has_no_word_in_json_is_refused_at_writing():
    with pytest.raises(Undecodable):
        JSON.encode({"a": float("nan"), "b": 2**70})
    with pytest.raises(Undecodable):
        JSON.encode({"a": object()})


def test_dropping_what_is_not_there_is_no_change():
    frame = Frame(Payload(b'{ "a": {"b": 1} }', JSON))
    frame.drop(("x",))
    frame.drop(("a", "x"))
    assert not frame.changed
    frame.drop(("a", "b"))
    assert frame.value() == b'{"a":{}}'


def test_a_copy_that_is_changed_leaves_its_neighbour_alone():
    payload = Payload(b'{"a":{"b":[1]}}', JSON)
    one, other = Frame(payload), Frame(payload)
    twin = one.copy()
    one.set(("a", "b", "0"), 2)
    twin.set(("a", "c"), 3)
    assert one.value() == b'{"a":{"b":[2]}}'
    assert twin.value() == b'{"a":{"b":[1],"c":3}}'
    assert other.value() == b'{"a":{"b":[1]}}'
    assert other.fields == {"a": {"b": [1]}}


def test_raw_bytes_pass_and_cannot_be_read():
    raw = make_format("raw", {})
    frame = Frame(Payload(b"\x00\x01", raw))
    assert frame.value() == b"\x00\x01"
    with pytest.raises(Undecodable, match="raw bytes"):
        _ = frame.fields


def descriptor_set(tmp_path, extra: bool = False) -> str:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    fields = [("id", kinds.TYPE_INT64), ("name", kinds.TYPE_STRING), ("raw", kinds.TYPE_BYTES)]
    fields += [("extra", kinds.TYPE_STRING)] if extra else []
    for number, (name, kind) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    item = order.nested_type.add(name="Item")
    item.field.add(name="ids", number=1, type=kinds.TYPE_UINT64, label=kinds.LABEL_REPEATED)
    order.field.add(
        name="items", number=9, type=kinds.TYPE_MESSAGE, type_name=".shop.Order.Item", label=kinds.LABEL_REPEATED
    )
    path = tmp_path / ("extra.binpb" if extra else "order.binpb")
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return str(path)


def protobuf(tmp_path, extra: bool = False):
    return make_format("protobuf", {"descriptor_set": descriptor_set(tmp_path, extra), "message": "shop.Order"})


FIELDS = {"id": 9007199254740993, "name": "x", "raw": "AQI=", "items": [{"ids": [18446744073709551615]}]}


def test_protobuf_is_read_as_fields_with_integers_as_numbers_and_written_again(tmp_path):
    format = protobuf(tmp_path)
    body = format.encode(FIELDS)
    assert format.decode(body) == FIELDS
    frame = Frame(Payload(body, format))
    frame.set(("name",), "y")
    assert format.decode(frame.value()) == FIELDS | {"name": "y"}


def test_protobuf_becomes_json_and_the_other_way_round(tmp_path):
    format = protobuf(tmp_path)
    frame = Frame(Payload(format.encode(FIELDS), format))
    frame.format = JSON
    assert frame.value() == JSON.encode(FIELDS)
    back = Frame(Payload(frame.value(), JSON))
    back.format = format
    assert back.value() == format.encode(FIELDS)


def test_a_change_of_a_protobuf_message_with_unknown_fields_is_refused_not_lossy(tmp_path):
    body = protobuf(tmp_path, extra=True).encode({"id": 1, "extra": "e"})
    frame = Frame(Payload(body, protobuf(tmp_path)))
    assert frame.get(("id",)) == 1
    assert frame.value() is body
    with pytest.raises(Undecodable, match="would lose fields"):
        frame.set(("name",), "x")


@pytest.mark.parametrize("body", [b"\xff\xff", b"\x08"])
def test_bytes_that_are_no_such_message_are_undecodable(tmp_path, body):
    with pytest.raises(Undecodable, match=r"not a shop\.Order"):
        protobuf(tmp_path).decode(body)


def test_fields_that_the_message_does_not_have_are_refused_at_writing(tmp_path):
    with pytest.raises(Undecodable):
        protobuf(tmp_path).encode({"nope": 1})
    with pytest.raises(Undecodable):
        protobuf(tmp_path).encode([1])


def test_a_message_type_or_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"shop\.Order"):
        make_format("protobuf", {"descriptor_set": descriptor_set(tmp_path), "message": "shop.Nope"})
    with pytest.raises(ConfigurationError, match="No such file"):
        make_format("protobuf", {"descriptor_set": str(tmp_path / "none"), "message": "a.B"})
    (tmp_path / "bad").write_bytes(b"\xff\xff")
    with pytest.raises(ConfigurationError, match="not a descriptor set"):
        make_format("protobuf", {"descriptor_set": str(tmp_path / "bad"), "message": "a.B"})
