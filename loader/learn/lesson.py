"""A lesson: what misfits ask for, worked out on a copy of the tables as they are. Pure; `loader plan` prints it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from loader.learn.draft import Addition, Discarded, Draft, Frozen
from loader.message.message import Event, Refused
from loader.plan.book import Book, PlanRules, Table
from loader.plan.fit import Fitter
from loader.plan.fitting import Source
from loader.plan.kind import InexactNumber
from loader.settings.contract import SchemaContract

log = logging.getLogger(__name__)

_TELL_SECONDS = 5.0
"""A lesson that takes longer says how far it is, each time that so much has passed."""


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
    return {name: replace(table, columns=dict(table.columns)) for name, table in tables.items()}


def study(
    tables: dict[str, Table], rules: PlanRules, contract: SchemaContract, events: Sequence[Event], source: Source
) -> Lesson:
    """Work out the lesson of these events. One that the contract stops half way leaves no trace."""
    lesson = Lesson()
    book = Book(copy_tables(tables), rules)
    draft = Draft(contract, book)
    fitter = Fitter(book, draft)
    # The values of the loader's own columns do not matter to a draft.
    system = ("",) * len(book.root_columns())
    started = told = time.monotonic()
    for position, event in enumerate(events):
        if (now := time.monotonic()) - told >= _TELL_SECONDS:
            told = now
            log.info(
                "learning goes on: %d of %d events studied in %.0f s, columns to add %d, events stopped %d",
                position, len(events), now - started, len(draft.additions),
                len(lesson.frozen) + len(lesson.discarded) + len(lesson.refused),
            )  # fmt: skip
        draft.begin(event.identity)
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
        draft.take_back()
    lesson.additions, lesson.unkeyed = draft.additions, draft.unkeyed
    return lesson
