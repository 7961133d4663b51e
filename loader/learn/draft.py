"""A draft: what would have to change so that given records fit. Nothing here touches the database."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loader.errors import LoaderError
from loader.plan import names
from loader.plan.book import CHILD_FIRST, Book, Column, Table, TablePlan, own_column_fits
from loader.plan.kind import BY_DATA_TYPE
from loader.plan.policy import DISCARD, OVERFLOW, over_budget
from loader.settings.contract import SchemaContract


class Frozen(Exception):
    """The contract forbids what the record needs, and says `freeze`: the record becomes a dead letter."""


class Discarded(Exception):
    """The contract forbids what the record needs, and says `discard_row`: the record is left out and counted."""


@dataclass(frozen=True, slots=True)
class Addition:
    """One column to add, or one of the columns of a table to make."""

    table: str
    column: str
    data_type: str
    nullable: bool
    new_table: bool
    parent: str | None
    """Parent table of a child table that is made; None for a root table."""
    variant: bool
    first_event: str
    """Identity of the event that first asked for it; empty for the loader's own columns of a new table."""
    exists: bool = False
    """The database has the column already (the user's own): only the schema has to hear of it."""


class NeedsAdoption(LoaderError):
    """A table that another program made is not as the loader needs it, and somebody has to mend that by hand."""


_OWN_TYPES = {
    names.DLT_ID: "text",
    names.DLT_LOAD_ID: "text",
    names.DLT_PARENT_ID: "text",
    names.DLT_LIST_IDX: "bigint",
    names.EVENT_ID: "text",
    names.EVENT_DIGEST: "bigint",
    names.PUBLISHED_AT: "timestamp",
    names.ATTRIBUTES: "json",
    names.RAW: "json",
    names.OVERFLOW: "json",
    names.WANTED_TABLE: "text",
}
_REQUIRED = frozenset({names.DLT_ID, names.DLT_LOAD_ID, names.DLT_PARENT_ID, names.DLT_LIST_IDX})


class Draft:
    """Policy for a Fitter that adds to `book` (a book of its own) what is missing, and remembers each addition.

    One event after the other: `begin`, then the Fitter; `take_back` undoes all that was added since `begin`.
    """

    drafts = True

    def __init__(self, contract: SchemaContract, book: Book) -> None:
        self.contract = contract
        self.additions: list[Addition] = []
        self.unkeyed: set[str] = set()
        """Root tables that are there without a unique index on `_dlt_id`."""
        self._book = book
        self._event = ""
        self._new_tables: dict[str, str | None] = {}
        self._before: dict[str, Table | None] = {}
        """Tables that were changed since `begin`, as they were; None for those that were not there."""
        self._additions_before = 0
        self._unkeyed_before: frozenset[str] = frozenset()

    def begin(self, identity: str) -> None:
        """What is added from now on, this event asks for."""
        self._event = identity
        self._before.clear()
        self._additions_before = len(self.additions)
        self._unkeyed_before = frozenset(self.unkeyed)

    def take_back(self) -> None:
        """Leave no trace of the event: it was stopped half way.

        The cost is that of the event's own tables, and of the next events meeting their keys anew.
        """
        if not self._before:
            return
        tables = self._book.tables
        for name, table in self._before.items():
            if table is None:
                del tables[name], self._new_tables[name]
            else:
                tables[name] = table
        self._before.clear()
        del self.additions[self._additions_before :]
        self.unkeyed = set(self._unkeyed_before)
        # The plans know the tables as they were with it.
        self._book.plans.clear()
        self._book.slots = 0

    def root(self, book: Book, name: str) -> TablePlan:
        plan = book.plan(name)
        if plan is not None:
            return plan
        if name not in book.tables:
            self._may_add_table(name)
        return self._make(book, name, None, book.root_columns(), ())

    def child(self, book: Book, parent: TablePlan, path: tuple[str, ...]) -> TablePlan | int:
        name = names.joined(*path)
        plan = book.plan(name, path)
        if plan is not None:
            return plan
        if name not in book.tables:
            if book.full:
                return OVERFLOW
            if not self._may_add_child(name):
                return DISCARD
        return self._make(book, name, parent.table.name, CHILD_FIRST, path)

    def column(self, plan: TablePlan, name: str, data_type: str, variant_of: str | None) -> int:
        index = plan.index.get(name)
        if index is not None:
            return index
        ours = name in _OWN_TYPES
        table = plan.table
        if not ours:
            exists = name in table.columns
            if not exists and over_budget(plan, self._book.rules):
                return OVERFLOW
            if not self._may_add_column(table.name, name, variant_of):
                return DISCARD
        column = self._add(table, name, data_type, variant=variant_of is not None)
        index = plan.index[name] = len(plan.columns)
        plan.columns.append(name)
        plan.blank.append(None)
        table.columns[name] = column
        if name == names.OVERFLOW:
            plan.overflow = index
        return index

    def _make(
        self, book: Book, name: str, parent: str | None, needed: tuple[str, ...], path: tuple[str, ...]
    ) -> TablePlan:
        table = book.tables.get(name)
        self._keep(name, table)
        if table is None:
            table = book.tables[name] = Table(name, row_keys=frozenset({"drafted"}))
            self._new_tables[name] = parent
        for column in needed:
            there = table.columns.get(column)
            if there is not None and not own_column_fits(there):
                raise NeedsAdoption(
                    f"table {name} has a column {column} of another type than the loader's own of that name: "
                    "rename the column or the table"
                )
            if there is None or column in table.foreign:
                table.columns[column] = self._add(table, column, _OWN_TYPES[column], variant=False)
        if not path and not table.row_keys:
            self.unkeyed.add(name)
            table.row_keys = frozenset({"drafted"})
        plan = book.plan(name, path)
        assert plan is not None
        return plan

    def _keep(self, name: str, table: Table | None) -> None:
        """Remember the table as it is, for it is about to be changed."""
        if name not in self._before:
            self._before[name] = table and replace(table, columns=dict(table.columns))

    def _add(self, table: Table, name: str, data_type: str, variant: bool) -> Column:
        self._keep(table.name, table)
        new_table = table.name in self._new_tables
        exists = name in table.columns
        kind = table.columns[name].kind if exists else BY_DATA_TYPE[data_type]
        self.additions.append(
            Addition(
                table=table.name,
                column=name,
                data_type=kind.data_type or data_type,
                # Rows that are there have no value yet: NOT NULL is for tables that we make.
                nullable=not (new_table and name in _REQUIRED),
                new_table=new_table,
                parent=self._new_tables.get(table.name),
                variant=variant,
                first_event=self._event,
                exists=exists,
            )
        )
        if exists:
            table.foreign = table.foreign - {name}
        return Column(name, kind)

    def _may_add_table(self, name: str) -> None:
        mode = self.contract.tables
        if mode == "freeze":
            raise Frozen(f"table {name} is not there and the schema contract freezes tables")
        if mode != "evolve":
            raise Discarded(f"table {name} is not there and the schema contract says tables={mode}")

    def _may_add_child(self, name: str) -> bool:
        if self.contract.tables == "discard_value":
            return False
        self._may_add_table(name)
        return True

    def _may_add_column(self, table: str, name: str, variant_of: str | None) -> bool:
        if variant_of is None:
            if table in self._new_tables:  # dlt: the columns of a new table are part of the new table
                return True
            entity, mode = "columns", self.contract.columns
            why = f"column {table}.{name} is not there"
        else:
            entity, mode = "data_type", self.contract.data_type
            why = f"a value does not fit the type of column {table}.{variant_of}"
        if mode == "freeze":
            raise Frozen(f"{why} and the schema contract freezes {entity}")
        if mode == "discard_row":
            raise Discarded(f"{why} and the schema contract says {entity}=discard_row")
        return mode == "evolve"
