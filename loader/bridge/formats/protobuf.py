"""Protobuf payloads, described by a descriptor set: no generated code, one message type a pipeline.

The mapping is Protobuf's own to JSON, with field names as the .proto file has them: 64-bit integers are texts there,
but are numbers here (every digit is kept); bytes are base64, enums their names, timestamps ISO 8601, and fields
without presence that hold their default are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError

from loader.bridge.frame import Undecodable
from loader.errors import ConfigurationError

_LONG = {
    FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_UINT64,
    FieldDescriptor.TYPE_SINT64,
    FieldDescriptor.TYPE_FIXED64,
    FieldDescriptor.TYPE_SFIXED64,
}


class Protobuf:
    """One message type of a descriptor set."""

    name = "protobuf"

    def __init__(self, descriptor_set: str, message: str) -> None:
        """Raises ConfigurationError if the file or the message type is not there."""
        files = descriptor_pb2.FileDescriptorSet()
        try:
            files.ParseFromString(Path(descriptor_set).read_bytes())
        except (OSError, DecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a descriptor set (protoc --descriptor_set_out)"
            raise ConfigurationError(f"descriptor_set {descriptor_set}: {reason}") from None
        self._pool = pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
            descriptor = pool.FindMessageTypeByName(message)
        except (KeyError, TypeError) as error:
            known = sorted(
                f"{file.package}.{each.name}".lstrip(".") for file in files.file for each in file.message_type
            )
            raise ConfigurationError(
                f"message {message!r} is not in {descriptor_set}, or an import of its file is missing "
                f"(protoc --include_imports); there are: {', '.join(known)} ({error})"
            ) from None
        self._class = message_factory.GetMessageClass(descriptor)
        self._descriptor = descriptor

    def decode(self, value: bytes) -> Any:
        """The fields. Raises Undecodable for bytes that are no such message."""
        message = self._class()
        try:
            message.ParseFromString(value)
        except DecodeError as error:
            raise Undecodable(f"not a {self._descriptor.full_name}: {error}") from None
        try:
            fields = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)
        except (json_format.Error, TypeError, ValueError) as error:
            raise Undecodable(f"a {self._descriptor.full_name} that cannot be shown as fields: {error}") from None
        return _numbers(fields, self._descriptor)

    def decode_exactly(self, value: bytes, fields: Any) -> Any:
        """The fields, as they are exact already. Raises Undecodable for a message with fields that the type does not
        know: they would be lost when the changed payload is written."""
        message = self._class()
        message.ParseFromString(value)
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            raise Undecodable(
                f"a change would lose fields that {self._descriptor.full_name} does not know; renew the descriptor set"
            )
        return fields

    def encode(self, fields: Any) -> bytes:
        """The message. Raises Undecodable if a field is not in the type or not of its type."""
        try:
            message = json_format.ParseDict(fields, self._class(), descriptor_pool=self._pool)
            return message.SerializeToString(deterministic=True)
        except (json_format.Error, EncodeError, TypeError, ValueError, AttributeError) as error:
            raise Undecodable(f"cannot be written as {self._descriptor.full_name}: {error}") from None


def _numbers(fields: Any, descriptor: Descriptor) -> Any:
    """64-bit integers as numbers instead of the texts that JavaScript needs."""
    if not isinstance(fields, dict) or descriptor.full_name.startswith("google.protobuf."):
        return fields
    for field in descriptor.fields:
        if field.name not in fields:
            continue
        value = fields[field.name]
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            kind = entry.fields_by_name["value"]
            fields[field.name] = {name: _number(each, kind) for name, each in value.items()}
        elif isinstance(value, list):
            fields[field.name] = [_number(each, field) for each in value]
        else:
            fields[field.name] = _number(value, field)
    return fields


def _number(value: Any, field: FieldDescriptor) -> Any:
    if field.type in _LONG:
        return int(value)
    return value if field.message_type is None else _numbers(value, field.message_type)


def make(options: Mapping[str, Any]) -> Protobuf:
    """The format that `format "protobuf" { … }` describes."""
    return Protobuf(options["descriptor_set"], options["message"])
