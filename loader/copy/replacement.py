"""Replacement: the rows that events have already make way, in whatever table they are, for those that are copied.

It happens in the load's own transaction: no reader sees an event without rows, and a crash leaves the old ones."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg import sql

from loader.copy.bundle_load import BundleLoad
from loader.plan import names
from loader.plan.book import Table

# The digest is asked for: a row of another event under a reused identity is never thrown away.
_ROOTS = """
delete from {table} t using unnest(%s::text[], %s::bigint[]) as wanted (row_id, digest)
where t._dlt_id = wanted.row_id and (t._event_digest = wanted.digest or t._event_digest is null)
returning t._dlt_id
"""
_CHILDREN = "delete from {table} where _dlt_parent_id = any(%s) returning _dlt_id"
# dlt shortens long names in the middle, so that a child table's name starts as its root's at least this far.
_KEPT_PREFIX = 20


class Replacement:
    """For one dataset."""

    def __init__(self, dataset: str) -> None:
        self._dataset = dataset

    def clear(self, cursor: psycopg.Cursor, load: BundleLoad) -> set[str]:
        """Delete the rows of the events that the load replaces; the `_dlt_id` of those that had some.

        Raises psycopg.Error."""
        fitted = load.fitted
        replaced = [sequence for sequence in load.sequences() if sequence in load.replaced]
        if not replaced:
            return set()
        wanted = (
            [fitted.row_ids[sequence] for sequence in replaced],
            [fitted.events[sequence].digest for sequence in replaced],
        )
        cleared: set[str] = set()
        load.clearing = True
        for name in sorted(load.dataset_tables):
            columns = load.dataset_tables[name].columns
            if names.EVENT_DIGEST not in columns or names.DLT_ID not in columns:
                continue
            gone = [row[0] for row in cursor.execute(self._compose(_ROOTS, name), wanted).fetchall()]
            if gone:
                cleared.update(gone)
                self._clear_below(cursor, name, gone, load.dataset_tables)
        load.clearing = False
        return cleared

    def _clear_below(self, cursor: psycopg.Cursor, root: str, parents: list[str], tables: Mapping[str, Table]) -> None:
        """Children, their children, and so on. Names only narrow the search, the parent's id decides."""
        prefix = f"{root}__"[:_KEPT_PREFIX]
        below = [
            name
            for name in sorted(tables)
            if name != root and name.startswith(prefix) and names.DLT_PARENT_ID in tables[name].columns
        ]
        while parents and below:
            gone: list[str] = []
            for name in below:
                gone += [row[0] for row in cursor.execute(self._compose(_CHILDREN, name), (parents,)).fetchall()]
            parents = gone

    def _compose(self, statement: str, table: str) -> sql.Composed:
        return sql.SQL(statement).format(table=sql.Identifier(self._dataset, table))  # type: ignore[arg-type]
