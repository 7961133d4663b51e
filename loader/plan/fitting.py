"""Fits the events of a bundle: each is placed, or set aside as a misfit, a duplicate, a reused identity or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from loader.message.identity import dlt_id
from loader.message.message import Event, Refused
from loader.plan.book import Book
from loader.plan.fit import Fitter, Misfit, Policy, Rows
from loader.plan.kind import InexactNumber
from loader.plan.timestamp import from_micros

_identity = attrgetter("identity")


@dataclass(frozen=True, slots=True)
class Source:
    """What fitting may ask about an event beyond its record: how to read its message again."""

    exact: Callable[[Event], dict[str, Any]]
    """The record with every digit of every integer. Raises Refused."""
    attributes: Callable[[Event], str] | None = None
    """JSON text for `_attributes`; None when LOADER_KEEP_ATTRIBUTES is off."""
    raw: Callable[[Event], str] | None = None
    """JSON text for `_raw`; None when LOADER_KEEP_RAW is off."""


@dataclass(slots=True)
class Fitted:
    """What fitting made of events. Numbers in `tables[…].owners` are positions in `events`."""

    load_id: str
    events: list[Event] = field(default_factory=list)
    row_ids: list[str] = field(default_factory=list)
    """The root row's `_dlt_id` of each event."""
    roots: list[str] = field(default_factory=list)
    """The root table in which each event's row is; differs from `event.table` once all tables are taken."""
    tables: dict[str, Rows] = field(default_factory=dict)
    misfits: list[Event] = field(default_factory=list)
    duplicates: list[Event] = field(default_factory=list)
    """The same event again within these events."""
    reused: list[Event] = field(default_factory=list)
    """Another body under an identity that is among `events`."""
    refused: list[tuple[Event, str]] = field(default_factory=list)
    """Events that no learning can place, with the reason."""
    discarded_values: int = 0


def fit_events(
    book: Book, events: Iterable[Event], load_id: str, source: Source, policy: Policy | None = None
) -> Fitted:
    """Fit events in the order of their identities: every worker then locks rows in one order, and none deadlock."""
    fitted = Fitted(load_id)
    fitter = Fitter(book, policy)
    fitted.tables = fitter.tables
    ordered = sorted(events, key=_identity)
    known = book.tables
    fit = fitter.fit
    place, row_ids, roots = fitted.events, fitted.row_ids, fitted.roots
    last: Event | None = None
    misfit_identity: str | None = None
    for event in ordered:
        message, identity, digest, table, record = event
        if last is not None and last.identity == identity:
            # Sorted: the same identity stands side by side, and what became of the first decides.
            if identity == misfit_identity:
                fitted.misfits.append(event)
            elif last.digest == digest:
                fitted.duplicates.append(event)
            else:
                fitted.reused.append(event)
            continue
        last = event
        wanted = None
        if table not in known:
            table, wanted = book.destination(table)
        row_id = dlt_id(identity)
        system: tuple[Any, ...] = (row_id, load_id, identity, digest, from_micros(message.published))
        try:
            if source.attributes is not None:
                system += (source.attributes(event),)
            if source.raw is not None:
                system += (source.raw(event),)
            try:
                fit(len(place), table, record, system, False, wanted)
            except InexactNumber:
                fit(len(place), table, source.exact(event), system, True, wanted)
        except Misfit:
            misfit_identity = identity
            fitted.misfits.append(event)
        except Refused as error:
            fitted.refused.append((event, str(error)))
        except ValueError as error:
            fitted.refused.append((event, f"cannot be placed: {error}"))
        else:
            place.append(event)
            row_ids.append(row_id)
            roots.append(table)
    fitted.discarded_values = fitter.discarded_values
    return fitted
