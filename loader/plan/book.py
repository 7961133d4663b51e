"""The book of plans: the real columns of a dataset, and for each table the slots that payload keys fill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loader.plan import names
from loader.plan.kind import MAX_BIGINT, REFUSED, SLOW, Kind


class Column(NamedTuple):
    """One column as the database has it."""

    name: str
    kind: Kind
    generated: bool = False
    """The database fills it: it takes no value from us, and a key of that name goes to a variant."""


@dataclass(slots=True)
class Table:
    """One table as the database has it."""

    name: str
    columns: dict[str, Column] = field(default_factory=dict)
    row_keys: frozenset[str] = frozenset()
    """Names of the unique indexes over exactly `_dlt_id`; empty: duplicates could not be refused."""
    foreign: frozenset[str] = frozenset()
    """Columns of the user's own, not in dlt's schema: left out of COPY, so that their defaults work."""
    signature: int = 0
    """Of the columns' names and types, see loader/database/catalog.py: tells in passing whether they have changed."""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """Settings that decide where a value goes. Named like the settings; see loader/settings/declaration.py."""

    max_nesting: int = 10
    max_columns: int = 400
    max_tables: int = 500
    default_table: str = "unknown"
    keep_attributes: bool = False
    keep_raw: bool = False
    json_keys: frozenset[str] = frozenset()
    """Keys, by their column's name, whose objects and arrays are one jsonb value: `key` or `table.key`."""


class Slot:
    """What one payload key of one object of a table fills: a column, nested columns, a child table."""

    __slots__ = ("child", "flat", "name", "node", "shared", "variants", "whole")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.child: TablePlan | None = None
        self.flat = False
        """Every object under this key is flattened into the row."""
        self.whole = False
        """Objects and arrays under this key stay one JSON value, empty ones too."""
        self.shared = False
        """Another key fills the same place: what comes second in a row goes to the overflow column."""
        self.variants: dict[str, int] = {}


Entry = tuple[Any, int, int, Slot]
"""(class that the fast way takes, column index, how to handle it, slot)"""


class Node:
    """One JSON object inside a table's row: the row itself or a dict that is flattened into it."""

    __slots__ = ("level", "path", "row_level", "slots")

    def __init__(self, path: tuple[str, ...], level: int, row_level: int) -> None:
        self.path = path
        self.row_level = row_level
        """Level of the row's top object, from which child tables count: dlt does not count the dicts between."""
        self.level = level
        """Nesting left, counted down as dlt does; at 0 dicts and lists stay JSON."""
        self.slots: dict[str, Entry] = {}


class TablePlan:
    """How rows of one table are built. Column order is fixed for the life of the plan."""

    __slots__ = (
        "blank",
        "children",
        "columns",
        "crowded",
        "index",
        "nodes",
        "overflow",
        "owners",
        "path",
        "table",
        "taken_by",
        "vain",
        "walks",
    )

    def __init__(self, table: Table, path: tuple[str, ...], first: Iterable[str]) -> None:
        self.table = table
        self.path = path
        """Fragments of the name: the root table's name, then the list keys down to this table."""
        ordered = [name for name in first if name in table.columns]
        seen = set(ordered)
        ordered += [name for name in table.columns if name not in seen and name not in table.foreign]
        self.columns = ordered
        self.index = {name: position for position, name in enumerate(ordered)}
        self.blank: list[Any] = [None] * len(ordered)
        self.overflow = self.index.get(names.OVERFLOW, -1)
        self.nodes: dict[int, Node] = {}
        self.owners: dict[int, tuple[Node, str, Slot]] = {}
        self.children: dict[tuple[str, ...], TablePlan] = {}
        self.taken_by: dict[str, Slot] = {}
        self.crowded: set[str] = set()
        """Child tables that lists under several keys fill."""
        self.walks = self.vain = 0
        """How many batches are to be walked before columnar.py tries again, and how many were so the last time."""

    def node(self, level: int) -> Node:
        """The top object of a row at this nesting level."""
        node = self.nodes.get(level)
        if node is None:
            node = self.nodes[level] = Node((), level, level)
        return node

    def own(self, index: int, node: Node, key: str, slot: Slot) -> None:
        """Note that `slot` fills column `index`; a second owner makes both check the row before they fill it."""
        owner = self.owners.setdefault(index, (node, key, slot))
        if owner[2] is not slot and not (owner[0] is node and owner[1] == key):
            slot.shared = True
            first_node, first_key, first_slot = owner
            first_slot.shared = True
            if first_key in first_node.slots:
                first_node.slots[first_key] = (None, -1, SLOW, first_slot)


ROOT_FIRST = (
    names.DLT_ID,
    names.DLT_LOAD_ID,
    names.EVENT_ID,
    names.EVENT_DIGEST,
    names.PUBLISHED_AT,
)
CHILD_FIRST = (names.DLT_ID, names.DLT_PARENT_ID, names.DLT_LIST_IDX)


_SAMPLES: dict[str, object] = {
    names.DLT_LIST_IDX: 1,
    names.EVENT_DIGEST: MAX_BIGINT,
    names.PUBLISHED_AT: "2026-11-30T12:00:00.123456Z",
    names.ATTRIBUTES: {},
    names.RAW: {},
}
_SAMPLE_TEXT = "x" * 24


def own_column_fits(column: Column) -> bool:
    """Whether a column under one of the loader's own names takes what the loader puts there."""
    return column.kind.accept(_SAMPLES.get(column.name, _SAMPLE_TEXT)) is not REFUSED


class Book:
    """All plans of a dataset, made on demand from its real tables. One thread fills a book at a time."""

    def __init__(
        self,
        tables: dict[str, Table],
        rules: PlanRules,
        version: int = 0,
        schema_name: str = "",
        schema_hash: str | None = None,
    ) -> None:
        self.tables = tables
        self.rules = rules
        self.version = version
        """Version of dlt's stored schema that this book was read with, its name and hash beside it."""
        self.schema_name = schema_name
        self.schema_hash = schema_hash
        self.plans: dict[str, TablePlan] = {}
        self.slots = 0
        """Slots that all plans remember."""

    def plan(self, name: str, path: tuple[str, ...] = ()) -> TablePlan | None:
        """The plan of a table (a child table when `path` is given), or None when the table is not there or lacks
        a column that every row needs."""
        plan = self.plans.get(name)
        if plan is not None:
            return plan
        table = self.tables.get(name)
        if table is None:
            return None
        needed = CHILD_FIRST if path else self.root_columns()
        if any(column not in table.columns or column in table.foreign for column in needed):
            return None
        if not all(own_column_fits(table.columns[column]) for column in needed):
            return None  # a user's own column of that name: rows would be refused, and messages blamed for it
        if not path and not table.row_keys:
            return None  # without a unique index on _dlt_id nothing would refuse a duplicate
        plan = self.plans[name] = TablePlan(table, path or (name,), needed)
        return plan

    def destination(self, table: str) -> tuple[str, str | None]:
        """Where an event of `table` goes: there, or to the default table with its wish once all tables are taken."""
        if table in self.tables or not self.full or table == self.rules.default_table:
            return table, None
        return self.rules.default_table, table

    def root_columns(self) -> tuple[str, ...]:
        """The columns that the loader itself fills in each root table, in the order in which a row starts."""
        extra: tuple[str, ...] = ()
        if self.rules.keep_attributes:
            extra += (names.ATTRIBUTES,)
        if self.rules.keep_raw:
            extra += (names.RAW,)
        return ROOT_FIRST + extra

    @property
    def full(self) -> bool:
        """No further table may be made (LOADER_MAX_TABLES, child tables included)."""
        return len(self.tables) >= self.rules.max_tables

    def forgetful(self) -> Book:
        """The same tables, and nothing remembered of the keys that were met."""
        return Book(self.tables, self.rules, self.version, self.schema_name, self.schema_hash)

    def inherit(self, older: Book) -> None:
        """Take over the plans of tables that have not changed, so that learning one column refills one plan."""
        self.slots = older.slots
        for name, plan in older.plans.items():
            table = self.tables.get(name)
            if table is not None and table == plan.table and self._same_below(plan):
                self.plans[name] = plan

    def _same_below(self, plan: TablePlan) -> bool:
        """Whether every table below is as the plan's slots know it: slots point to the plans of child tables."""
        return all(
            self.tables.get(child.table.name) == child.table and self._same_below(child)
            for child in plan.children.values()
        )
