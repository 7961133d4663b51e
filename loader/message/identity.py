"""What makes an event the same event: its identity, the row ids made from it, and the digest of its body."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from hashlib import blake2b, shake_128
from struct import Struct, unpack
from typing import Any

MAX_IDENTITY_BYTES = 512
"""Longest identity a publisher may give, in bytes of UTF-8; a longer one counts as absent."""

_DLT_ID_BYTES = 15
_CHILD_ID_BYTES = 10  # dlt's DLT_ID_LENGTH_BYTES: child ids must equal the ones that dlt itself would write

_signed64 = Struct(">q").unpack

# Copying a hasher costs less than setting one up.
_copy_of_digest_hasher = blake2b(digest_size=8).copy
_copy_of_id_hasher = blake2b(digest_size=_DLT_ID_BYTES).copy


def digest(body: bytes) -> int:
    """Signed 64-bit digest of an inflated body, kept as `_event_digest`.

    BLAKE2b and not a faster checksum: an event whose identity and digest are both known is dropped as a
    duplicate, so nobody may be able to make a body that has the digest of another. Stable for ever.
    """
    hasher = _copy_of_digest_hasher()
    hasher.update(body)
    number: int = _signed64(hasher.digest())[0]
    return number


def digests(bodies: Sequence[bytes]) -> Sequence[int]:
    """`digest` of each."""
    hashes = []
    for body in bodies:
        hasher = _copy_of_digest_hasher()
        hasher.update(body)
        hashes.append(hasher.digest())
    return unpack(f">{len(hashes)}q", b"".join(hashes))


def dlt_id(identity: str) -> str:
    """The root row's `_dlt_id`: 15 bytes of BLAKE2b over the identity, in base64 as dlt spells ids (20 characters).

    BLAKE2b takes half the time of the SHAKE-128 that dlt uses; ids of root rows are free to choose. Stable for ever.
    """
    hasher = _copy_of_id_hasher()
    hasher.update(identity.encode())
    return b2a_base64(hasher.digest(), newline=False).decode()


def dlt_ids(identities: Iterable[str]) -> list[str]:
    """`dlt_id` of each."""
    hashes = []
    for identity in identities:
        hasher = _copy_of_id_hasher()
        hasher.update(identity.encode())
        hashes.append(hasher.digest())
    return _spelled(hashes, 20)


def child_ids(parent_ids: Iterable[str], table: str, indexes: Iterable[int]) -> list[str]:
    """`child_id` of each pair."""
    middle = f"_{table}_"
    # Two more bytes make whole groups of three: the characters before them stay the same.
    hashes = [
        shake_128(f"{parent_id}{middle}{index}".encode()).digest(_CHILD_ID_BYTES) + b"\0\0"
        for parent_id, index in zip(parent_ids, indexes, strict=True)
    ]
    return [spelled[:14] for spelled in _spelled(hashes, 16)]


def _spelled(hashes: list[bytes], size: int) -> list[str]:
    """Hashes of whole groups of three bytes in base64, `size` characters each, by one call."""
    text = b2a_base64(b"".join(hashes), newline=False).decode()
    return [text[start : start + size] for start in range(0, len(text), size)]


def child_id(parent_id: str, table: str, index: int) -> str:
    """The `_dlt_id` of a child row, exactly as dlt computes it (its `get_nested_row_hash`): 14 characters.

    `table` is the child table's name in the schema and `index` its position in the list, from 0.
    """
    raw = shake_128(f"{parent_id}_{table}_{index}".encode()).digest(_CHILD_ID_BYTES)
    return b2a_base64(raw, newline=False)[:14].decode()


def message_identity(message_id: str, published: int, emulator: bool) -> str:
    """The identity of a message whose publisher gives none: the Pub/Sub message id.

    Ids of an emulator start at 1 again after each restart, so there the publish time (microseconds) is part of it.
    """
    return f"{message_id}@{published}" if emulator else message_id


def publisher_identity(value: Any) -> str | None:
    """`value` as an identity, or None when it counts as absent.

    A string or an integer can be one. Absent are: other types (true and false too), an empty string, more than
    512 bytes, and text with U+0000 or a lone surrogate, which Postgres cannot hold: shortened or cleaned, two
    identities could become one, and an event would be taken for a duplicate of another.
    """
    if type(value) is str:
        text = value
    elif type(value) is int and value.bit_length() < 4 * MAX_IDENTITY_BYTES:  # a longer one is never spelled out
        text = str(value)
    else:
        return None
    if not text or len(text) > MAX_IDENTITY_BYTES or "\0" in text:
        return None
    if not text.isascii():
        try:
            if len(text.encode()) > MAX_IDENTITY_BYTES:
                return None
        except UnicodeEncodeError:
            return None
    return text
