"""What to do when a record needs a table or a column that is not there: the policies of a Fitter."""

from __future__ import annotations

from typing import Protocol

from loader.plan import names
from loader.plan.book import Book, PlanRules, TablePlan

OVERFLOW = -1
"""Answer of a policy: the value goes to the overflow column."""
DISCARD = -2
"""Answer of a policy: the contract says that this value is left out."""


class Misfit(Exception):
    """The record needs a table or column that the book does not have."""


class Policy(Protocol):
    """What to do when a table or a column is missing: raise Misfit, or draft it (loader/learn/draft.py)."""

    drafts: bool
    """Columns come to be while a row is built; nobody wants the rows then."""

    def root(self, book: Book, name: str) -> TablePlan: ...

    def child(self, book: Book, parent: TablePlan, path: tuple[str, ...]) -> TablePlan | int:
        """The plan of a child table, OVERFLOW or DISCARD. Raises Misfit."""

    def column(self, plan: TablePlan, name: str, data_type: str, variant_of: str | None) -> int:
        """Index of the column, OVERFLOW or DISCARD. Raises Misfit."""


class Strict:
    """Load with what is there; anything new is a misfit. What is full already overflows without learning again."""

    drafts = False

    def __init__(self, rules: PlanRules) -> None:
        self._rules = rules

    def root(self, book: Book, name: str) -> TablePlan:
        plan = book.plan(name)
        if plan is None:
            raise Misfit(f"table {name}")
        return plan

    def child(self, book: Book, parent: TablePlan, path: tuple[str, ...]) -> TablePlan | int:
        name = names.joined(*path)
        plan = book.plan(name, path)
        if plan is not None:
            return plan
        if book.full and name not in book.tables:
            return OVERFLOW
        raise Misfit(f"table {name}")

    def column(self, plan: TablePlan, name: str, data_type: str, variant_of: str | None) -> int:
        index = plan.index.get(name)
        if index is not None:
            return index
        if overflows(plan, self._rules):
            return OVERFLOW
        raise Misfit(f"column {plan.table.name}.{name}")


def over_budget(plan: TablePlan, rules: PlanRules) -> bool:
    """Whether the table has all the columns that it may have (LOADER_MAX_COLUMNS)."""
    return len(plan.table.columns) >= rules.max_columns


def overflows(plan: TablePlan, rules: PlanRules) -> bool:
    """Whether new keys of the table go to its overflow column, which is there."""
    return plan.overflow >= 0 and over_budget(plan, rules)
