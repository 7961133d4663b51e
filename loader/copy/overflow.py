"""Rows too large for a page: their payload moves to the overflow column, which Postgres stores out of line.

Where each event of a bundle is as wide as the others they are many, so they are found by their estimated size and a
few tries, and moved together: one savepoint for each of them would take minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from loader.copy.bundle_load import BundleLoad
from loader.copy.isolation import Isolation, Refused, is_too_large
from loader.plan import names
from loader.plan.book import CHILD_FIRST, ROOT_FIRST, TablePlan
from loader.plan.fit import Rows
from loader.plan.kind import json_text

_KEPT = frozenset({*ROOT_FIRST, *CHILD_FIRST, names.ATTRIBUTES, names.RAW, names.OVERFLOW, names.WANTED_TABLE})

# Sizes in bytes, of a row as it lies in a page of 8 kB once all that can be is stored out of line
# (https://www.postgresql.org/docs/current/storage-toast.html): what is longer than 23 is a pointer of 18.
_SUSPICIOUS = 8_000
"""A page takes rows of 8,160; less here, for padding and compression make the estimate a rough one."""
_HEADER = 24
_INLINE = 23
_POINTER = 18
_WIDTHS = {"bigint": 12, "double": 12, "timestamp": 12, "bool": 1, "date": 4, "json": _POINTER}
"""What does not depend on the value, with some padding; other types are as long as their text."""
_SAMPLE = 8


class OverflowNeeded(Exception):
    """A row is too large for a page, and its table has no overflow column yet that could take its values."""

    def __init__(self, tables: set[str]) -> None:
        super().__init__(f"row too large in {', '.join(sorted(tables))}")
        self.tables = tables


def move_large_rows(load: BundleLoad, search: Isolation) -> bool:
    """Move the rows whose size makes them suspicious and that are refused for it; whether there were any.

    Raises OverflowNeeded, and psycopg.Error where no row is to blame.
    """
    moved = False
    lacking: set[str] = set()
    for rows in load.tables():
        suspects = large_positions(rows)

        def refused(position: int, rows: Rows = rows) -> bool:
            return is_too_large(search.row_alone(rows, position))

        found = too_large(suspects, refused)
        if found and rows.plan.overflow < 0:
            lacking.add(rows.plan.table.name)
        elif found and move_to_overflow(rows, found):
            moved = True
    if lacking:
        raise OverflowNeeded(lacking)
    return moved


def acquit(load: BundleLoad, found: Sequence[Refused], search: Isolation) -> bool:
    """Move what a search found to be too large, whatever its estimate; whether the database takes any of it then.

    Raises OverflowNeeded.
    """
    acquitted = False
    lacking: set[str] = set()
    for refused in found:
        large = {sequence for sequence, error in refused.guilty.items() if is_too_large(error)}
        if not large:
            continue
        rows = load.fitted.tables[refused.table or ""]
        if rows.plan.overflow < 0:
            lacking.add(rows.plan.table.name)
            continue
        moved = move_to_overflow(rows, [p for p, owner in enumerate(rows.owners) if owner in large])
        together = not search.together(rows, moved)
        for sequence in sorted(moved):
            if together or search.alone(rows, sequence) is None:
                del refused.guilty[sequence]
                acquitted = True
    if lacking:
        raise OverflowNeeded(lacking)
    return acquitted


def too_large(suspects: list[int], refused: Callable[[int], bool]) -> list[int]:
    """Which of the suspects, the largest first, are refused: a few of each part are tried, and where they disagree
    its halves are looked at apart."""
    if not suspects:
        return []
    step = max(1, (len(suspects) - 1) // (_SAMPLE - 1))
    sample = suspects[::step]
    guilty = [position for position in sample if refused(position)]
    if not guilty:
        return []
    if len(guilty) == len(sample):
        return suspects
    if step == 1:
        return guilty
    middle = len(suspects) // 2
    return too_large(suspects[:middle], refused) + too_large(suspects[middle:], refused)


def large_positions(rows: Rows) -> list[int]:
    """Positions of the rows that may be too large for a page, the largest first."""
    plan = rows.plan
    widths = [_width(plan, name) for name in plan.columns]
    header = _HEADER + len(widths) // 8
    if header + sum(width or _INLINE + 1 for width in widths) <= _SUSPICIOUS:
        return []
    sizes = [header + _size(row, widths) for row in rows.rows]
    large = [position for position, size in enumerate(sizes) if size > _SUSPICIOUS]
    return sorted(large, key=lambda position: -sizes[position])


def _width(plan: TablePlan, name: str) -> int:
    return _WIDTHS.get(plan.table.columns[name].kind.data_type, 0)


def _size(row: Sequence[Any], widths: Sequence[int]) -> int:
    size = 0
    for value, width in zip(row, widths, strict=True):
        if value is None:
            continue
        if not width:
            text = str(value)
            width = (len(text) if text.isascii() else len(text.encode(errors="replace"))) + 1
            if width > _INLINE + 1:
                width = _POINTER
        size += width
    return size


def move_to_overflow(rows: Rows, positions: Iterable[int]) -> set[int]:
    """Move the payload of the rows into the overflow column, by column names; the events of which any was moved."""
    plan = rows.plan
    payload = [
        (index, name, plan.table.columns[name].kind.data_type == "json")
        for index, name in enumerate(plan.columns)
        if name not in _KEPT
    ]
    moved: set[int] = set()
    for position in positions:
        row = rows.rows[position]
        # json, not orjson: integers beyond 64 bit keep their digits.
        kept: dict[str, Any] = json.loads(row[plan.overflow]) if row[plan.overflow] else {}
        for index, column, is_json in payload:
            value = row[index]
            if value is None:
                continue
            name = column
            while name in kept:
                name += "'"
            kept[name] = json.loads(value) if is_json else value
            row[index] = None
            moved.add(rows.owners[position])
        row[plan.overflow] = json_text(kept, True)
    return moved
