"""The policy of a refill from another column than `_raw`: what has no place is left out, nothing is learned."""

from __future__ import annotations

from loader.plan.book import Book, TablePlan
from loader.plan.policy import DISCARD, Misfit, Strict


class Lenient(Strict):
    """As Strict, but keys without a column and lists without a table are passed over: they may have other names."""

    def child(self, book: Book, parent: TablePlan, path: tuple[str, ...]) -> TablePlan | int:
        try:
            return super().child(book, parent, path)
        except Misfit:
            return DISCARD

    def column(self, plan: TablePlan, name: str, data_type: str, variant_of: str | None) -> int:
        return plan.index.get(name, DISCARD)
