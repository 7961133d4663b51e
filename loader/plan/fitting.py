"""Fits the events of a bundle: each is placed, or set aside as a misfit, a duplicate, a reused identity or refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import le
from typing import Any

from loader.message.identity import dlt_id
from loader.message.message import Event, Refused
from loader.plan.book import Book
from loader.plan.fit import Fitter, Rows
from loader.plan.kind import InexactNumber
from loader.plan.policy import Misfit, Policy
from loader.plan.timestamp import from_micros

log = logging.getLogger(__name__)

_MANY_FAULTS = 20
"""So many faults, and more than 1 % of the events: then it is not the messages, and nothing is dead-lettered."""


@dataclass(frozen=True, slots=True)
class Source:
    """What fitting may ask about an event beyond its record: how to read its message again."""

    record: Callable[[Event], dict[str, Any]]
    """The record of an event that was set aside without it. Raises Refused."""
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
    """Another body under an identity that is among the `events` of its table."""
    refused: list[tuple[Event, str]] = field(default_factory=list)
    """Events that no learning can place, with the reason."""
    discarded_values: int = 0


def fit_events(
    book: Book, events: Iterable[Event], load_id: str, source: Source, policy: Policy | None = None
) -> Fitted:
    """Fit events one by one, then put the rows in the order of their identities: all workers lock in one order.

    `events` may be a generator: records are let go as soon as they are fitted (a parsed record takes several times
    the memory of its body), so the events that come back have none. Events may come without one as well.
    """
    fitted = Fitted(load_id)
    fitter = Fitter(book, policy)
    fitted.tables = fitter.tables
    known = book.tables
    fit = fitter.fit
    place, row_ids, roots = fitted.events, fitted.row_ids, fitted.roots
    seen_in: dict[str, dict[str, int]] = {}
    seen: dict[str, int] = {}
    root: str | None = None
    faults = 0
    plain = source.attributes is None and source.raw is None
    for event in events:
        message, identity, digest, table, record = event
        kept = _new(Event, (message, identity, digest, table, None))
        wanted = None
        if table not in known:
            table, wanted = book.destination(table)
        if table is not root:
            # By table, as the unique index is: what becomes of an event must not depend on who is in its bundle.
            root = table
            seen = seen_in.setdefault(table, {})
        first = seen.get(identity)
        if first is not None:
            if first < 0:  # what becomes of the first is not known yet: they stay together
                fitted.misfits.append(kept)
            elif place[first].digest == digest:
                fitted.duplicates.append(kept)
            else:
                fitted.reused.append(kept)
            continue
        row_id = dlt_id(identity)
        system: tuple[Any, ...] = (row_id, load_id, identity, digest, from_micros(message.published))
        try:
            if not plain:
                system += _kept_with(source, event)
            if record is None:
                record = source.record(event)
            try:
                fit(len(place), table, record, system, False, wanted)
            except InexactNumber:
                fit(len(place), table, source.exact(event), system, True, wanted)
        except Misfit:
            seen[identity] = -1
            fitted.misfits.append(kept)
        except Refused as error:
            fitted.refused.append((kept, str(error)))
        except ValueError as error:
            fitted.refused.append((kept, f"cannot be placed: {error}"))
        except Exception as error:
            # A fault of ours that one message brings out must not end the fleet, one worker after the other.
            faults += 1
            if faults >= _MANY_FAULTS and faults > len(place) / 100:
                raise
            fitted.refused.append((kept, f"internal error: {error!r}"))
            log.exception("event %r brought out a fault of the loader; it becomes a dead letter", identity)
        else:
            seen[identity] = len(place)
            place.append(kept)
            row_ids.append(row_id)
            roots.append(table)
    fitted.discarded_values = fitter.discarded_values
    _sort(fitted)
    return fitted


_new = tuple.__new__  # a NamedTuple's own constructor is a Python function


def _kept_with(source: Source, event: Event) -> tuple[str, ...]:
    attributes = () if source.attributes is None else (source.attributes(event),)
    raw = () if source.raw is None else (source.raw(event),)
    return attributes + raw


def _sort(fitted: Fitted) -> None:
    """Rows in the order of their events' identities; child rows keep their order within an event."""
    identities = [event.identity for event in fitted.events]
    if all(map(le, identities, identities[1:])):
        return  # they come so more often than not, and looking costs a tenth of sorting
    rank = [0] * len(identities)
    for position, sequence in enumerate(sorted(range(len(identities)), key=identities.__getitem__)):
        rank[sequence] = position
    for rows in fitted.tables.values():
        ranks = [rank[owner] for owner in rows.owners]
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        rows.rows = [rows.rows[position] for position in order]
        rows.owners = [rows.owners[position] for position in order]
