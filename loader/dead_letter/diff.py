"""A letter's payload beside today's schema: where each value would go, what is new, and whether it would load now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from loader.dead_letter.reading import read_letter
from loader.dead_letter.replay import LetterIntake, Rehearsal
from loader.dead_letter.store import StoredLetter
from loader.learn.preview import Ground, Preview
from loader.learn.settled import Settled
from loader.message.decode import Decoder
from loader.message.message import Event, Refused
from loader.plan import names
from loader.plan.book import Book, PlanRules
from loader.plan.fitting import fit_events
from loader.settings.contract import SchemaContract

_OWN = frozenset({names.EVENT_ID, names.EVENT_DIGEST, names.PUBLISHED_AT, names.ATTRIBUTES, names.RAW})
_MOST_CELLS = 1_000
"""Values of one letter that are listed; a letter may hold a whole array."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """One value and where it would go."""

    table: str
    column: str
    data_type: str
    state: str
    """`there`, `new column`, `new variant` (the column has another type) or `new table`."""
    value: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Difference:
    """One letter against today's schema, for itself: letters that come before it change nothing."""

    letter_id: str
    event_id: str
    stored_reason: str
    """Why it was refused when it was written."""
    outcome: str
    """What a replay would do now: `loaded` (unless the database itself refuses the row), `discarded`, `refused`."""
    reason: str
    cells: tuple[Cell, ...] = ()

    @property
    def new(self) -> list[Cell]:
        """The cells that today's schema has no place for."""
        return [cell for cell in self.cells if cell.state != "there"]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(slots=True)
class Comparison:
    """Compares letters with one picture of the dataset."""

    ground: Ground
    dataset: str
    rules: PlanRules
    contract: SchemaContract
    decoder: Decoder

    def run(self, conn: psycopg.Connection[Any], batches: Iterable[list[StoredLetter]]) -> Iterator[Difference]:
        """One difference a letter. Writes nothing. Raises psycopg.Error."""
        for batch in batches:
            for letter in batch:
                yield self._compare(conn, letter)

    def _compare(self, conn: psycopg.Connection[Any], letter: StoredLetter) -> Difference:
        preview = Preview(self.ground, self.dataset, self.rules, self.contract)
        (result,) = Rehearsal(preview, self.decoder, self.dataset).run(conn, [[letter]])
        cells: tuple[Cell, ...] = ()
        try:
            events = read_letter(letter, self.decoder)
        except Refused:
            pass  # it has no values yet; the rehearsal says why
        else:
            cells = tuple(self._cells(letter, events, preview))
        return Difference(
            letter.letter_id,
            letter.event_id,
            f"{letter.reason}: {letter.detail}",
            result.outcome,
            result.reason,
            cells,
        )

    def _cells(self, letter: StoredLetter, events: list[Event], preview: Preview) -> Iterator[Cell]:
        """Fit the events to the tables as they would be, and see which columns their values are in."""
        intake = LetterIntake(self.decoder)
        intake.batch = {letter.letter_id: letter}
        book = Book(preview.tables, self.rules)
        fitted = fit_events(book, events, "", intake.source, Settled(self.rules, self.contract))
        variants = {(each.table, each.column) for each in preview.additions if each.variant and not each.exists}
        left = _MOST_CELLS
        for name, rows in fitted.tables.items():
            there = self.ground.snapshot.tables.get(name)
            plan = rows.plan
            for row in rows.rows:
                for column, value in zip(plan.columns, row, strict=True):
                    if value is None or column in _OWN or column.startswith("_dlt"):
                        continue
                    if left == 0:
                        return
                    left -= 1
                    state = "there"
                    if there is None:
                        state = "new table"
                    elif (name, column) in variants:
                        state = "new variant"
                    elif column not in there.columns:
                        state = "new column"
                    yield Cell(name, column, plan.table.columns[column].kind.data_type, state, _short(value))


def _short(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
