"""Objects that are maps: their keys are data, ids, dates or addresses, and belong in one jsonb column."""

from __future__ import annotations

import re
from typing import Any

# Keys that name a thing rather than a property: as columns they would be endless.
_LOOKS_LIKE_AN_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # UUID
    r"|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}"  # hex digests and object ids
    r"|\d{4,}"  # numeric ids
    r"|\d{4}-\d\d(?:-\d\d.*)?"  # dates
    r"|[0-9A-HJKMNP-TV-Z]{26}"  # ULID
    r"|[A-Za-z]{1,10}[_:-](?=[0-9A-Za-z]*\d)[0-9A-Za-z]{10,}"  # prefixed ids: cus_9s6XKzkNRiz8i3
    r"|[^@\s]+@[^@\s]+\.[^@\s]+",  # mail addresses
    re.ASCII,
).fullmatch


def is_map(value: dict[str, Any]) -> bool:
    """Whether every key of the object is an id, a date or an address: then it is a map, not a record."""
    return bool(value) and all(_LOOKS_LIKE_AN_ID(key) for key in value)
