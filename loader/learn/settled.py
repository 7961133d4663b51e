"""The policy for events whose lesson has been learned: what is still missing, the contract leaves out."""

from __future__ import annotations

from loader.plan import names
from loader.plan.book import Book, PlanRules, TablePlan
from loader.plan.policy import DISCARD, Misfit, Strict
from loader.settings.contract import SchemaContract


class Settled(Strict):
    """As Strict, but where the contract says `discard_value` the value is dropped rather than learned again."""

    def __init__(self, rules: PlanRules, contract: SchemaContract) -> None:
        super().__init__(rules)
        self._contract = contract

    def child(self, book: Book, parent: TablePlan, path: tuple[str, ...]) -> TablePlan | int:
        try:
            return super().child(book, parent, path)
        except Misfit:
            if self._contract.tables == "discard_value":
                return DISCARD
            raise

    def column(self, plan: TablePlan, name: str, data_type: str, variant_of: str | None) -> int:
        try:
            return super().column(plan, name, data_type, variant_of)
        except Misfit:
            mode = self._contract.columns if variant_of is None else self._contract.data_type
            # The loader's own columns are no matter of the contract, as in a draft: they are learned like any other.
            if mode == "discard_value" and name not in (names.OVERFLOW, names.WANTED_TABLE):
                return DISCARD
            raise
