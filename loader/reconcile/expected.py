"""A list of event ids against the tables: each must be stored, or have left a dead letter or a discard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import psycopg
from psycopg import sql

from loader.message.identity import dlt_id
from loader.reconcile.gap import MOST_LISTED, Checked, Gap
from loader.reconcile.layout import Layout
from loader.words import counted

_BATCH = 1_000


def compare_expected(conn: psycopg.Connection[Any], layout: Layout, ids: Iterable[str]) -> Checked:
    """Looks each id up by the unique index on `_dlt_id`. Raises psycopg.Error."""
    gaps: list[Gap] = []
    total = stored = refused = missing = 0
    for batch in _batches(ids):
        left = set(batch)
        total += len(left)
        for table in layout.event_tables:
            if not left:
                break
            left -= _stored(conn, layout.dataset, table, left)
        stored += len(set(batch)) - len(left)
        for table in ("_dead_letters", "_discards"):
            query = sql.SQL("select _event_id from {} where _event_id = any(%s)")
            rows = conn.execute(query.format(sql.Identifier(layout.dataset, table)), (list(left),)).fetchall()
            found = {row[0] for row in rows}
            refused += len(found)
            left -= found
        missing += len(left)
        for name in sorted(left)[: MOST_LISTED - len(gaps)]:
            gaps.append(Gap("expected", f"event {name}", 1, 0, "in no table, and no dead letter"))
    text = f"{counted(total, 'id')}: {stored:,} stored, {refused:,} dead letters or discards, {missing:,} missing"
    return Checked("expected", text, tuple(gaps))


def _stored(conn: psycopg.Connection[Any], dataset: str, table: str, ids: set[str]) -> set[str]:
    by_row = {dlt_id(name): name for name in ids}
    query = sql.SQL("select _dlt_id from {} where _dlt_id = any(%s)").format(sql.Identifier(dataset, table))
    return {by_row[row[0]] for row in conn.execute(query, (list(by_row),))}


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(ids)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


def read_ids(lines: Iterable[str]) -> Iterator[str]:
    """One id a line; empty lines are left out. An id may have blanks at its ends only if they are no line's end."""
    for line in lines:
        name = line.rstrip("\r\n")
        if name:
            yield name
