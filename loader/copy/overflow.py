"""A row too large for a page: its payload moves to the overflow column, which Postgres stores out of line."""

from __future__ import annotations

import json
from typing import Any

from loader.plan import names
from loader.plan.book import CHILD_FIRST, ROOT_FIRST
from loader.plan.fit import Rows
from loader.plan.kind import json_text

_KEPT = frozenset({*ROOT_FIRST, *CHILD_FIRST, names.ATTRIBUTES, names.RAW, names.OVERFLOW, names.WANTED_TABLE})


def move_to_overflow(rows: Rows, sequence: int) -> bool:
    """Move the payload of an event's rows into the overflow column, by column names; False if there is none."""
    plan = rows.plan
    moved = False
    for position, owner in enumerate(rows.owners):
        if owner != sequence:
            continue
        row = rows.rows[position]
        # json, not orjson: integers beyond 64 bit keep their digits.
        kept: dict[str, Any] = json.loads(row[plan.overflow]) if row[plan.overflow] else {}
        for index, name in enumerate(plan.columns):
            value = row[index]
            if value is None or name in _KEPT:
                continue
            if plan.table.columns[name].kind.data_type == "json":
                value = json.loads(value)
            while name in kept:
                name += "'"
            kept[name] = value
            row[index] = None
            moved = True
        row[plan.overflow] = json_text(kept, True)
    return moved
