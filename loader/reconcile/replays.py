"""What backfills moved: a row that came back or was rewritten stands under a newer load, and its old one stays short.

A backfill counts its events in the transactions of its loads, so what it moved is known as a sum, not load by load: the
shortfall of older loads is explained when it is no larger than that. One row more, and all of it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import sql

_REPLAYS = """
select coalesce(sum(events_new + events_rewritten), 0)::bigint, extract(epoch from max(replayed_at))::float from {}
"""


@dataclass(frozen=True, slots=True)
class Replays:
    """All backfills of a dataset, one that is under way too."""

    events: int = 0
    """Events whose rows they wrote."""
    before: str = ""
    """Load id that the last of them had not reached: younger loads have lost nothing to them."""


class Short(Protocol):
    """A load and table that differs from its receipts."""

    @property
    def load_id(self) -> str: ...

    @property
    def table(self) -> str: ...

    @property
    def root(self) -> str: ...

    @property
    def wanted(self) -> int: ...

    @property
    def found(self) -> int: ...


T = TypeVar("T", bound=Short)


def read_replays(conn: psycopg.Connection[Any], dataset: str) -> Replays:
    """What they did so far. Raises psycopg.Error."""
    table = sql.Identifier(dataset, "_backfill_progress")
    there = conn.execute("select to_regclass(%s)", (table.as_string(conn),)).fetchone()
    if there is None or there[0] is None:
        return Replays()
    row = conn.execute(sql.SQL(_REPLAYS).format(table)).fetchone()
    if row is None or row[1] is None:
        return Replays()
    return Replays(row[0], f"{row[1]:.6f}")


def explained(differences: Sequence[T], replays: Replays) -> set[T]:
    """Those that backfills account for: root rows, and the child rows of loads whose root rows are accounted for."""
    roots = [
        each
        for each in differences
        if each.table == each.root and each.found < each.wanted and each.load_id < replays.before
    ]
    if sum(each.wanted - each.found for each in roots) > replays.events:
        return set()
    moved = {(each.load_id, each.root) for each in roots}
    return {each for each in differences if each.found < each.wanted and (each.load_id, each.root) in moved}
