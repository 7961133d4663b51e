"""Sentence: what becomes of events whose rows the database refuses: dead letters, or held while it may be at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from loader.copy.bundle_load import BundleLoad
from loader.copy.isolation import MIN_SUSPICIOUS, SUSPICIOUS_SHARE, Refusal, Refused, column_of
from loader.dead_letter.letter import Letter, letter_of_event
from loader.message.message import Event

ROUNDS_HELD = 4
"""Times that a suspicious minority is held (about 15 seconds in all) before its events become dead letters."""

Exact = Callable[[Event], dict[str, Any]]


def pass_sentence(load: BundleLoad, refused: Refused, exact: Exact) -> None:
    """Dead letters for bad messages; patience where the database may be at fault.

    More than 1 % of the events and at least 20 refused with one SQLSTATE: their neighbours are loaded, they are
    held and tried again. If most of the table's events are refused, that goes on until somebody mends the
    database; a minority becomes dead letters after ROUNDS_HELD rounds.
    """
    events = load.fitted.events
    if refused.refuses_all is not None:
        error = refused.refuses_all
        load.hold(sorted(refused.tried), state_of(error), text(error), True)
        return
    by_state: dict[str, list[int]] = {}
    for sequence, error in refused.guilty.items():
        by_state.setdefault(state_of(error), []).append(sequence)
    for state, sequences in by_state.items():
        suspicious = len(sequences) >= MIN_SUSPICIOUS and len(sequences) > SUSPICIOUS_SHARE * len(events)
        majority = len(sequences) * 2 >= len(refused.tried) and not load.minority
        error = refused.guilty[sequences[0]]
        if suspicious and (majority or load.attempt < ROUNDS_HELD):
            load.hold(sequences, state, text(error), majority)
        else:
            for sequence in sequences:
                event = events[sequence]
                load.dead.append(event)
                load.letters.append(_letter(event, refused.table, refused.guilty[sequence], exact))
            load.drop(sequences)


def _letter(event: Event, table: str | None, error: Refusal, exact: Exact) -> Letter:
    if table is None:
        table = (error.diag.table_name if isinstance(error, psycopg.Error) else None) or event.table
    column = column_of(error, table)
    where = f"table {table}" + (f", column {column}" if column else "")
    return letter_of_event(
        event,
        exact,
        reason="refused by the database",
        detail=f"{where}: {text(error)}",
        sqlstate=error.sqlstate if isinstance(error, psycopg.Error) else None,
        table=table,
        column=column,
    )


def state_of(error: Refusal) -> str:
    """Its SQLSTATE; empty where the client refused."""
    return (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""


def text(error: Refusal) -> str:
    """The server's message and detail; never the statement."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        detail = error.diag.message_detail
        text = error.diag.message_primary
        return f"{text} ({detail})" if detail else text
    return str(error)
