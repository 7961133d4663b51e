"""A lesson: what misfits ask for, worked out on a copy of the tables as they are. Pure; `loader plan` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loader.learn.draft import Addition, Discarded, Draft, Frozen
from loader.message.message import Event, Refused
from loader.plan.book import Book, PlanRules, Table
from loader.plan.fit import Fitter
from loader.plan.fitting import Source
from loader.plan.kind import InexactNumber
from loader.settings.contract import SchemaContract


@dataclass(slots=True)
class Lesson:
    """What to add so that the events fit, and which of them the contract forbids."""

    additions: list[Addition] = field(default_factory=list)
    unkeyed: set[str] = field(default_factory=set)
    frozen: dict[int, str] = field(default_factory=dict)
    """Position of an event → why it becomes a dead letter."""
    discarded: dict[int, str] = field(default_factory=dict)
    """Position of an event → why it is left out."""
    refused: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    """What the learning took, locks included."""


def copy_tables(tables: dict[str, Table]) -> dict[str, Table]:
    """Tables that a draft may add to."""
    return {name: Table(name, dict(table.columns), table.row_keys, table.foreign) for name, table in tables.items()}


def study(
    tables: dict[str, Table], rules: PlanRules, contract: SchemaContract, events: Sequence[Event], source: Source
) -> Lesson:
    """Work out the lesson of these events.

    An event that the contract stops half way must leave no trace: the work is done again without it.
    """
    lesson = Lesson()
    while True:
        current = [""]
        draft = Draft(contract, lambda: current[0])  # noqa: B023 - read at once, within this round
        book = Book(copy_tables(tables), rules)
        stopped = _draft_all(book, draft, events, source, lesson, current)
        if not stopped:
            lesson.additions, lesson.unkeyed = draft.additions, draft.unkeyed
            return lesson


def _draft_all(
    book: Book, draft: Draft, events: Sequence[Event], source: Source, lesson: Lesson, current: list[str]
) -> bool:
    """Draft each event; True when one was stopped after it had added something."""
    fitter = Fitter(book, draft)
    # The values of the loader's own columns do not matter to a draft.
    system = ("",) * len(book.root_columns())
    for position, event in enumerate(events):
        if position in lesson.frozen or position in lesson.discarded or position in lesson.refused:
            continue
        current[0] = event.identity
        before = len(draft.additions)
        table, wanted = book.destination(event.table)
        try:
            try:
                record = event.record if event.record is not None else source.record(event)
                fitter.fit(0, table, record, system, False, wanted)
            except InexactNumber:
                fitter.fit(0, table, source.exact(event), system, True, wanted)
        except Frozen as error:
            lesson.frozen[position] = str(error)
        except Discarded as error:
            lesson.discarded[position] = str(error)
        except Refused as error:
            lesson.refused[position] = str(error)
        except ValueError as error:
            lesson.refused[position] = f"cannot be placed: {error}"
        else:
            fitter.tables.clear()
            continue
        fitter.tables.clear()
        if len(draft.additions) > before:
            return True
    return False
