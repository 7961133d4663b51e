"""Fit a record into rows: each value goes to the column that holds it exactly, or the record is a misfit.

The walk equals dlt's relational normalizer (dicts flatten, lists become child tables, nesting counts down), so that
the result is what stock dlt would have stored; only values that dlt would change go elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from loader.message.identity import child_id, child_ids
from loader.plan import names
from loader.plan.book import Book, Column, Entry, Node, Slot, TablePlan
from loader.plan.columnar import Block
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
    base_type_of,
    data_type_of,
    json_text,
    variant_value,
)
from loader.plan.map import is_flat, is_map
from loader.plan.policy import DISCARD, OVERFLOW, Misfit, Policy, Strict, overflows
from loader.plan.timestamp import instant

# Slots kept by all plans of a book: endless spellings of keys must not fill the memory. A long key counts for more.
MAX_SLOTS = 100_000
_SLOT_BYTES = 400


class Refit(Exception):
    """Two keys were found to fill one place while the row was half built: fit the record once more."""


class Rows:
    """Rows of one table, each beside the number of the event that it belongs to."""

    __slots__ = ("owners", "plan", "rows")

    def __init__(self, plan: TablePlan) -> None:
        self.plan = plan
        self.rows: list[list[Any]] = []
        self.owners: list[int] = []


class Fitter:
    """Fits records one after the other into `self.tables`. Not shared between threads."""

    def __init__(self, book: Book, policy: Policy | None = None) -> None:
        self.book = book
        self.policy: Policy = policy or Strict(book.rules)
        self.tables: dict[str, Rows] = {}
        self.discarded_values = 0
        self._drafts = self.policy.drafts
        self._json_keys = book.rules.json_keys
        self._sequence = 0
        self._exact = False
        self._limit = SUSPECT
        self._used: set[tuple[str, str]] = set()

    def fit(
        self,
        sequence: int,
        table: str,
        record: dict[str, Any],
        system: tuple[Any, ...],
        exact: bool,
        wanted: str | None,
    ) -> None:
        """Add the rows of one event, or none at all.

        `system` are the values of `Book.root_columns()`, `_dlt_id` first; `exact` says that integers in `record`
        kept all their digits; `wanted` is the table that the event would have had if another one were allowed.
        Raises Misfit, InexactNumber (call again with an exact record), ValueError (can never be stored).
        """
        self._sequence = sequence
        while True:
            try:
                self._fit(table, record, system, exact, wanted)
                return
            except Refit:
                self._undo(sequence)
            except BaseException:
                self._undo(sequence)
                raise

    def place(self, blocks: Sequence[Block], system: Sequence[Sequence[Any]], first: int) -> None:
        """Add root rows that were laid out by column, and their child rows.

        `system` holds `Book.root_columns()` of all rows, one after the other block's; `first` is the first's number.
        """
        start = 0
        made: list[tuple[Rows, list[list[Any]], list[int]]] = []
        for block in blocks:
            end = start + len(block.owners)
            columns = [column[start:end] for column in system]
            self._rows_of(block, columns, range(first + start, first + end), made)
            start = end
        for into, rows, owners in made:  # all or nothing: whatever can fail has been done
            into.rows += rows
            into.owners += owners

    def _rows_of(
        self,
        block: Block,
        system: Sequence[Sequence[Any]],
        numbers: Sequence[int],
        made: list[tuple[Rows, list[list[Any]], list[int]]],
    ) -> None:
        made.append((self._rows(block.plan), block.rows(system), [numbers[owner] for owner in block.owners]))
        ids = system[0]
        for child in block.children:
            parent_ids = [ids[parent] for parent in child.parents]
            child_system = [child_ids(parent_ids, child.plan.table.name, child.places), parent_ids, child.places]
            self._rows_of(child, child_system, numbers, made)

    def _close(self, plan: TablePlan, row: list[Any]) -> None:
        """Once a row is filled: what went to its overflow column becomes text."""
        if 0 <= plan.overflow < len(row) and row[plan.overflow] is not None:
            row[plan.overflow] = json_text(row[plan.overflow], self._exact)

    def _fit(
        self,
        table: str,
        record: dict[str, Any],
        system: tuple[Any, ...],
        exact: bool,
        wanted: str | None,
    ) -> None:
        self._exact = exact
        self._limit = float("inf") if exact else SUSPECT
        if self._used:
            self._used.clear()
        plan = self.policy.root(self.book, table)
        row = plan.blank.copy()
        row[: len(system)] = system
        if wanted is not None:
            index = self.policy.column(plan, names.WANTED_TABLE, "text", None)
            if 0 <= index < len(row):
                row[index] = wanted
        self._add(plan, row)
        self._fill(plan, plan.node(self.book.rules.max_nesting), record, row, system[0])
        self._close(plan, row)

    def _add(self, plan: TablePlan, row: list[Any]) -> None:
        if self._drafts:
            return
        rows = self._rows(plan)
        rows.rows.append(row)
        rows.owners.append(self._sequence)

    def _rows(self, plan: TablePlan) -> Rows:
        rows = self.tables.get(plan.table.name)
        if rows is None or rows.plan is not plan:
            rows = self.tables[plan.table.name] = self._renewed(plan, rows)
        return rows

    def _renewed(self, plan: TablePlan, rows: Rows | None) -> Rows:
        if rows is not None and rows.rows and rows.plan.columns != plan.columns:
            raise Misfit(f"table {plan.table.name} changed while a bundle was built")
        renewed = Rows(plan)
        if rows is not None:
            renewed.rows, renewed.owners = rows.rows, rows.owners
        return renewed

    def _undo(self, sequence: int) -> None:
        for rows in self.tables.values():
            while rows.owners and rows.owners[-1] == sequence:
                rows.owners.pop()
                rows.rows.pop()

    def _fill(self, plan: TablePlan, node: Node, record: dict[str, Any], row: list[Any], row_id: str) -> None:
        get = node.slots.get
        limit = self._limit
        for key, value in record.items():
            entry = get(key)
            if entry is None:
                if value is None:
                    continue
                entry = self._entry(plan, node, key)
            cls, index, fast, slot = entry
            if value.__class__ is cls:
                if fast == DIRECT:
                    row[index] = value
                    continue
                if fast == INT:
                    if MIN_BIGINT <= value <= MAX_BIGINT:
                        row[index] = value
                        continue
                elif fast == FLOAT:
                    if -limit < value < limit:
                        row[index] = value
                        continue
                elif fast == DICT:
                    self._fill(plan, slot.node, value, row, row_id)  # type: ignore[arg-type]
                    continue
                elif fast == LIST:
                    if value:
                        self._list(plan, node, key, slot, value, row, row_id)
                    continue
                elif fast == TIME:
                    text = instant(value)
                    if text is not None:
                        row[index] = text
                        continue
            elif value is None:
                continue
            self._place(plan, node, key, value, row, row_id, slot)

    def _entry(self, plan: TablePlan, node: Node, key: str) -> Entry:
        """The slot of a key that is met for the first time in this object."""
        name = names.of_key(key)
        if node.path:
            name = names.joined(*node.path, name)
        slot = Slot(names.unreserved(name))
        keeps = bool(self._json_keys) and not node.path and self._keeps_json(plan, slot)
        slot.whole = node.level <= 0 or keeps
        column = plan.table.columns.get(slot.name)
        index = plan.index.get(slot.name)
        entry: Entry = (None, -1, SLOW, slot)
        if column is not None and index is not None:
            plan.own(index, node, key, slot)
            if column.kind.fast != SLOW and not slot.shared:
                entry = (column.kind.python, index, column.kind.fast, slot)
        if self.book.slots < MAX_SLOTS and len(key) <= names.LONGEST_KEPT_KEY:
            self.book.slots += 1 + len(key) // _SLOT_BYTES
            node.slots[key] = entry
            return entry
        # Not remembered, so nobody can be told later that the place is shared.
        slot.shared = True
        return (None, -1, SLOW, slot)

    def _place(
        self, plan: TablePlan, node: Node, key: str, value: Any, row: list[Any], row_id: str, slot: Slot
    ) -> None:
        """Whatever the fast way does not take: another type than usual, JSON columns, first meetings, shared slots."""
        cls = value.__class__
        column = plan.table.columns.get(slot.name)
        if cls is dict or cls is list:
            if self._nested(plan, node, key, value, row, row_id, slot, column):
                return
        elif cls is float and not -self._limit < value < self._limit:
            raise InexactNumber
        index = plan.index.get(slot.name)
        if column is not None and (index is not None or column.generated):
            stored = REFUSED if index is None else column.kind.accept(value)
            if stored is not REFUSED and index is not None:
                self._set(plan, node, key, slot, index, stored, value, row)
                return
            data_type = data_type_of(value)
            name = names.variant(slot.name, data_type)
            index = slot.variants.get(name)
            if index is None:
                index = self.policy.column(plan, name, data_type, slot.name)
                if index >= 0:
                    plan.own(index, node, key, slot)
                    slot.variants[name] = index
        else:
            data_type = base_type_of(value)
            index = self.policy.column(plan, slot.name, data_type, None)
            if index >= 0:
                # Drafted just now: the value is asked again, for it may need a variant beside the new column.
                plan.own(index, node, key, slot)
                self._place(plan, node, key, value, row, row_id, slot)
                return
        if index == DISCARD:
            self.discarded_values += 1
        elif index == OVERFLOW:
            self._overflow(plan, node, key, value, row)
        else:
            kept = plan.table.columns[name].kind.accept(variant_value(value))
            if kept is REFUSED:
                self._overflow(plan, node, key, value, row)
            else:
                self._set(plan, node, key, slot, index, kept, value, row)

    def _set(
        self, plan: TablePlan, node: Node, key: str, slot: Slot, index: int, stored: Any, value: Any, row: list[Any]
    ) -> None:
        if index >= len(row):  # drafted since the row was begun
            row += [None] * (index + 1 - len(row))
        if row[index] is not None:
            self._overflow(plan, node, key, value, row)
            return
        row[index] = json_text(stored, self._exact) if stored.__class__ in (dict, list) else stored

    def _keeps_json(self, plan: TablePlan, slot: Slot) -> bool:
        return slot.name in self._json_keys or f"{plan.table.name}.{slot.name}" in self._json_keys

    def _nested(
        self,
        plan: TablePlan,
        node: Node,
        key: str,
        value: Any,
        row: list[Any],
        row_id: str,
        slot: Slot,
        column: Column | None,
    ) -> bool:
        """Flatten a dict or open a child table; False when the value stays JSON."""
        if (column is not None and column.kind.data_type == "json") or node.level <= 0:
            return False
        if self._json_keys and not node.path and self._keeps_json(plan, slot):
            return False
        if value.__class__ is dict:
            if not value:
                return True  # says nothing yet about what the key holds
            # Asked alike by a draft and by a load, and never whether a column `…__v_json` is there: the publisher may
            # have a key of that name, and then one side would keep what the other flattens, for ever.
            if is_map(value) and not is_flat(self.book, plan, (*node.path, names.of_key(key)), value):
                return False
            if slot.node is None:
                slot.node = Node((*node.path, names.of_key(key)), node.level - 1, node.row_level)
            slot.flat = not (self._drafts or slot.shared or overflows(plan, self.book.rules))
            if column is None and key in node.slots and slot.flat:
                node.slots[key] = (dict, -1, DICT, slot)
            self._fill(plan, slot.node, value, row, row_id)
        elif value:
            self._list(plan, node, key, slot, value, row, row_id)
        return True

    def _list(
        self, plan: TablePlan, node: Node, key: str, slot: Slot, value: list[Any], row: list[Any], row_id: str
    ) -> None:
        child = slot.child
        if child is None:
            path = (*plan.path, *node.path, names.of_list(key))
            child = plan.children.get(path)
            if child is None:
                answer = self.policy.child(self.book, plan, path)
                if not isinstance(answer, TablePlan):
                    if answer == DISCARD:
                        self.discarded_values += 1
                    else:
                        self._overflow(plan, node, key, value, row)
                    return
                child = plan.children[path] = answer
            slot.child = child
            taker = plan.taken_by.setdefault(child.table.name, slot)
            if taker is not slot:
                # Ids of list elements hold the table and the position: two lists in one table would collide.
                slot.shared = True
                if child.table.name not in plan.crowded:
                    # Rows of this very record may stand there unnoted, even if the keys shared a column before.
                    plan.crowded.add(child.table.name)
                    taker.shared = True
                    raise Refit
            if plan.table.columns.get(slot.name) is None and key in node.slots:
                node.slots[key] = (list, -1, LIST, slot)
        if slot.shared:
            place = (row_id, child.table.name)
            if place in self._used:
                self._overflow(plan, node, key, value, row)
                return
            self._used.add(place)
        self._elements(child, value, row_id, node.row_level - 1)

    def _elements(self, plan: TablePlan, elements: list[Any], parent_id: str, level: int) -> None:
        name = plan.table.name
        node = plan.nodes.get(level) or plan.node(level)
        for position, element in enumerate(elements):
            row = plan.blank.copy()
            row_id = child_id(parent_id, name, position)
            row[0] = row_id
            row[1] = parent_id
            row[2] = position
            self._add(plan, row)
            cls = element.__class__
            if cls is dict:
                self._fill(plan, node, element, row, row_id)
            elif cls is list:
                # A list in a list needs a row between, one level further down: as dlt does it.
                self._fill(plan, plan.node(level - 1), {names.LIST_WRAP: element}, row, row_id)
            elif element is not None:
                self._fill(plan, node, {names.VALUE: element}, row, row_id)
            self._close(plan, row)

    def _overflow(self, plan: TablePlan, node: Node, key: str, value: Any, row: list[Any]) -> None:
        """Keep a value under its own key in the overflow column: budget reached, or its place was taken."""
        index = plan.overflow
        if index < 0:
            index = self.policy.column(plan, names.OVERFLOW, "json", None)
            if index < 0:
                raise_unplaceable(plan, key)
        if index >= len(row):  # drafted since the row was begun
            row += [None] * (index + 1 - len(row))
        if row[index] is None:
            row[index] = {}
        kept = row[index]
        for fragment in node.path:
            while kept.get(fragment, kept).__class__ is not dict:
                fragment += "'"  # another key of that name put a value there
            kept = kept.setdefault(fragment, {})
        name = key
        while name in kept:
            name += "'"
        kept[name] = dict(value) if value.__class__ is dict else value  # a copy: more may be put into it


def raise_unplaceable(plan: TablePlan, key: str) -> NoReturn:
    raise ValueError(f"no column of table {plan.table.name} can take the key {key!r}")
