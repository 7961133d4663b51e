"""Payloads that are bytes and nothing else: nothing in them can be read or changed."""

from __future__ import annotations

from typing import Any

from loader.bridge.frame import Undecodable


class Raw:
    """Bytes as they come."""

    name = "raw"

    def decode(self, value: bytes) -> Any:
        """Raises Undecodable: a pipeline of raw payloads whose stages read fields is refused by the check already."""
        raise Undecodable("the payload is raw bytes; set format to read its fields")

    def decode_exactly(self, value: bytes, fields: Any) -> Any:
        """As `decode`."""
        return fields

    def encode(self, fields: Any) -> bytes:
        """The bytes of a text or of bytes. Raises Undecodable for anything else."""
        if isinstance(fields, bytes):
            return fields
        if isinstance(fields, str):
            return fields.encode()
        raise Undecodable("only a text can become raw bytes")
