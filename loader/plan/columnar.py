"""Fit many records of one table at once, column by column: C code checks a list for a fraction of what a loop costs.

Only what the walk of fit.py would place in the same way is taken: known keys, values of the class that their column
holds, in its range. A record with anything else is left to the walk, whole, with nothing of it placed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from loader.plan import names
from loader.plan.book import Node, Slot, TablePlan
from loader.plan.kind import (
    DICT,
    DIRECT,
    FLOAT,
    INT,
    LIST,
    MAX_BIGINT,
    MIN_BIGINT,
    REFUSED,
    SLOW,
    SUSPECT,
    TIME,
    InexactNumber,
    Kind,
    data_type_of,
    json_text,
    variant_value,
)
from loader.plan.timestamp import instants

_SPARSE = 4
"""Objects whose keys differ so much that a column is empty in more than three of four rows are walked one by one."""
_PASSES = 3
_MOST_WALKS = 63
_FEW = 4
"""Fewer records of one shape are not worth the lists."""
_NONE = type(None)
_EMPTY: dict[str, Any] = {}


class Block:
    """Rows of one table, column by column, without the columns that the loader itself fills."""

    __slots__ = ("children", "columns", "owners", "parents", "places", "plan")

    def __init__(
        self, plan: TablePlan, owners: Sequence[int], parents: Sequence[int] = (), places: Sequence[int] = ()
    ) -> None:
        self.plan = plan
        self.owners = owners
        """Position of each row's record."""
        self.parents = parents
        """Position of each row's parent row in the block above."""
        self.places = places
        """Position of each row in its list."""
        self.columns: dict[int, Sequence[Any]] = {}
        """By index in the plan."""
        self.children: list[Block] = []

    def rows(self, system: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The rows, which start with the `system` columns."""
        columns = dict(enumerate(system)) | self.columns
        width = len(self.plan.columns)
        if width <= _SPARSE * len(columns) + 32:
            empty = repeat(None)
            return list(map(list, zip(*[columns.get(index, empty) for index in range(width)], strict=False)))
        blank = self.plan.blank
        rows = [blank.copy() for _ in self.owners]
        for index, column in columns.items():
            for row, value in zip(rows, column, strict=False):
                row[index] = value
        return rows


def lay_out(plan: TablePlan, level: int, records: Sequence[dict[str, Any]]) -> list[tuple[Block, list[int]]]:
    """Blocks of root rows, each with the positions of its records; those that are in none are to be walked."""
    node = plan.nodes.get(level)
    if node is None or len(records) < _FEW:
        return []
    if plan.walks > 0:
        plan.walks -= 1
        return []
    found = _settled(plan, node, records, list(range(len(records))))
    blocks = [found] if found is not None else _by_shape(plan, node, records)
    placed = sum(len(positions) for _, positions in blocks)
    # Most of it was laid out in vain: walk, and try again after a while.
    plan.vain = 0 if placed * 2 >= len(records) else min(plan.vain * 2 + 1, _MOST_WALKS)
    plan.walks = plan.vain
    return [(block, positions) for block, positions in blocks if positions]


def _by_shape(plan: TablePlan, node: Node, records: Sequence[dict[str, Any]]) -> list[tuple[Block, list[int]]]:
    by_shape: dict[tuple[str, ...], list[int]] = {}
    for position, shape in enumerate(map(tuple, records)):
        by_shape.setdefault(shape, []).append(position)
    blocks = [_settled(plan, node, records, alike) for alike in by_shape.values() if len(alike) >= _FEW]
    return [block for block in blocks if block is not None]


def _settled(
    plan: TablePlan, node: Node, records: Sequence[dict[str, Any]], positions: list[int]
) -> tuple[Block, list[int]] | None:
    """The block of all records that can be laid out; None when their keys have too little in common."""
    for _ in range(_PASSES):
        block = Block(plan, range(len(positions)))
        odd: set[int] = set()
        if not _spread(block, node, [records[position] for position in positions], odd):
            return None
        if not odd:
            return block, positions
        positions = [position for number, position in enumerate(positions) if number not in odd]
        if not positions:
            break
    return Block(plan, ()), []


def _columns(records: Sequence[dict[str, Any]]) -> Iterable[tuple[str, Sequence[Any]]] | None:
    """Each key with its values, None where a record has no such key; None when there would be too many of those."""
    shapes = set(map(tuple, records))
    if len(shapes) == 1:
        return zip(shapes.pop(), zip(*map(dict.values, records), strict=True), strict=True)
    keys = dict.fromkeys(chain.from_iterable(shapes))
    sizes = list(map(len, records))
    if len(keys) * (len(sizes) - sizes.count(0)) > _SPARSE * sum(sizes):
        return None
    return [(key, list(map(dict.get, records, repeat(key)))) for key in keys]


def _spread(block: Block, node: Node, records: Sequence[dict[str, Any]], odd: set[int]) -> bool:
    """Put the values of one object a row into columns; False when the objects have too little in common.

    `odd` gathers the records that cannot be laid out: whatever was placed with them is void.
    """
    columns = _columns(records)
    if columns is None:
        return False
    get = node.slots.get
    for key, values in columns:
        classes = set(map(type, values))
        holes = _NONE in classes
        if holes:
            classes.discard(_NONE)
            if not classes:
                continue
        entry = get(key)
        if entry is None:
            _leave(block, values, odd)
            continue
        cls, index, fast, slot = entry
        if fast == SLOW or len(classes) > 1 or cls not in classes:
            _mixed(block, node, slot, values, odd)
        elif fast == DIRECT:
            block.columns[index] = values
        elif fast in (INT, FLOAT):
            low, high = (MIN_BIGINT - 1, MAX_BIGINT + 1) if fast == INT else (-SUSPECT, SUSPECT)
            there = [value for value in values if value is not None] if holes else values
            if low < min(there) and max(there) < high:
                block.columns[index] = values
            else:
                _mixed(block, node, slot, values, odd)
        elif fast == TIME:
            there = [value for value in values if value is not None] if holes else values
            stored = instants(there)
            if stored is not there and None in stored:
                _mixed(block, node, slot, values, odd)
            elif holes:
                each = iter(stored)
                block.columns[index] = [None if value is None else next(each) for value in values]
            else:
                block.columns[index] = stored
        elif fast == DICT:
            assert slot.node is not None
            if not _spread(block, slot.node, [value or _EMPTY for value in values] if holes else values, odd):
                _leave(block, values, odd)
        else:
            assert fast == LIST
            _listed(block, node, slot, values, odd)
    return True


def _leave(block: Block, values: Sequence[Any], odd: set[int]) -> None:
    odd.update([owner for owner, value in zip(block.owners, values, strict=True) if value is not None])


def _mixed(block: Block, node: Node, slot: Slot, values: Sequence[Any], odd: set[int]) -> None:
    """Values of several classes, or of a type that dlt does not make: each is asked for, as the walk does it."""
    if slot.shared:
        _leave(block, values, odd)
        return
    column = block.plan.table.columns.get(slot.name)
    kind = column.kind if column is not None and not column.generated else None
    is_json = kind is not None and kind.data_type == "json"
    places: dict[int, list[Any]] = {}
    dicts: list[Any] = []
    lists: list[Any] = []
    for position, value in enumerate(values):
        cls = value.__class__
        if value is None:
            continue
        if (cls is dict or cls is list) and not is_json:
            if value:
                (dicts if cls is dict else lists).append(position)
            elif slot.whole:
                odd.add(block.owners[position])
            continue
        if kind is None or (cls is float and not -SUSPECT < value < SUSPECT):
            odd.add(block.owners[position])
            continue
        try:
            index, kept = _asked(block.plan, slot, kind, value, is_json)
        except (InexactNumber, ValueError):
            index = -1
        if index < 0:
            odd.add(block.owners[position])
            continue
        into = places.get(index)
        if into is None:
            into = places[index] = [None] * len(values)
        into[position] = kept
    block.columns.update(places)
    if dicts:
        there = [_EMPTY] * len(values)
        for position in dicts:
            there[position] = values[position]
        if not slot.flat or slot.node is None or not _spread(block, slot.node, there, odd):
            odd.update([block.owners[position] for position in dicts])
    if lists:
        empty: list[Any] = [None] * len(values)
        for position in lists:
            empty[position] = values[position]
        _listed(block, node, slot, empty, odd)


def _asked(plan: TablePlan, slot: Slot, kind: Kind, value: Any, is_json: bool) -> tuple[int, Any]:
    """Where a scalar, or JSON, goes and what is stored; a negative index when the walk has to say."""
    index = plan.index.get(slot.name, -1)
    kept = kind.accept(value)
    if kept is not REFUSED:
        return index, json_text(kept) if is_json else kept
    name = names.variant(slot.name, data_type_of(value))
    index = slot.variants.get(name, -1)
    if index >= 0:
        kept = plan.table.columns[name].kind.accept(variant_value(value))
        if kept is REFUSED or kept.__class__ is dict or kept.__class__ is list:
            return -1, None
    return index, kept


def _listed(block: Block, node: Node, slot: Slot, values: Sequence[Any], odd: set[int]) -> None:
    """Rows of a child table, all of them in one block."""
    if slot.shared or slot.child is None:
        _leave(block, values, odd)
        return
    lists = [value or () for value in values]
    elements = list(chain.from_iterable(lists))
    if not elements:
        return
    counts = list(map(len, lists))
    parents = list(chain.from_iterable(map(repeat, range(len(counts)), counts)))
    owners = list(map(block.owners.__getitem__, parents))
    child = Block(slot.child, owners, parents, list(chain.from_iterable(map(range, counts))))
    block.children.append(child)
    classes = set(map(type, elements))
    if list in classes:  # needs a row between
        odd.update([owner for owner, element in zip(owners, elements, strict=True) if type(element) is list])
    rows = elements
    if classes != {dict}:
        rows = [element if type(element) is dict else {names.VALUE: element} for element in elements]
    if not _spread(child, slot.child.node(node.row_level - 1), rows, odd):
        odd.update(owners)
