"""Objects that are maps: their keys are data, ids, dates or addresses, and belong in one jsonb column."""

from __future__ import annotations

import re
from typing import Any

from loader.plan import names
from loader.plan.book import Book, TablePlan

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


def is_flat(book: Book, plan: TablePlan, path: tuple[str, ...], value: dict[str, Any]) -> bool:
    """Whether a map whose keys stand under `path` in a row has a column or child table for each of them already (stock
    dlt flattens maps too): then these go on to be filled."""
    for key, inner in value.items():
        if inner is None or names.unreserved(names.joined(*path, names.of_key(key))) in plan.table.columns:
            continue
        if inner.__class__ is dict:
            if not is_flat(book, plan, (*path, names.of_key(key)), inner):
                return False
        elif inner.__class__ is not list or (
            inner and names.joined(*plan.path, *path, names.of_list(key)) not in book.tables
        ):
            return False
    return True
