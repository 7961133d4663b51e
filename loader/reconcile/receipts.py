"""Rows in the tables, counted by load id, against the receipts that each load wrote in its own transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from loader.reconcile.gap import MOST_LISTED, Checked, Gap
from loader.reconcile.layout import Layout
from loader.reconcile.replays import explained, read_replays
from loader.words import counted

_LOADED = """
select table_name, count(distinct load_id), sum(row_count)::bigint from {receipts}
where table_name <> '' and load_id >= %(since)s group by 1 order by 1
"""
# Receipts of one load and table add up: rewriting a load's rows may write a negative one. A load without receipts is
# none of ours (stock dlt's), or its receipts were pruned: nothing is known about it.
_COMPARE = """
select r.load_id, r.wanted, coalesce(t.found, 0)
from (select load_id, sum(row_count)::bigint as wanted from {receipts}
      where table_name = %(table)s and load_id >= %(since)s group by 1) r
left join ({rows}) t on t.load_id = r.load_id
where r.wanted <> coalesce(t.found, 0) order by 1 limit %(limit)s
"""


_MOST_SHORT = 100_000
"""Loads and tables that differ, which are held in memory at once."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A load and table whose rows are not those of its receipts."""

    load_id: str
    table: str
    root: str
    wanted: int
    found: int

    @property
    def missing(self) -> int:
        """Rows that are too few; 0 when there are too many."""
        return max(0, self.wanted - self.found)

    def gap(self, orphans: int = 0, short: int = 0) -> Gap:
        """As it is reported. `orphans`: rows of the table that hang on no row, of whatever load they were; `short`:
        rows that are missing in all loads compared."""
        rows = counted(abs(self.wanted - self.found), "row")
        if not self.missing:
            detail = f"{rows} too many"
        elif not orphans:
            detail = f"{rows} missing"
        elif orphans == short:
            detail = f"{rows} without {'its' if self.missing == 1 else 'their'} parent"
        else:
            detail = f"{rows} missing or without parent ({orphans:,} in the table are without one)"
        return Gap("receipts", f"load {self.load_id}, table {self.table}", self.wanted, self.found, detail)


def compare_receipts(conn: psycopg.Connection[Any], layout: Layout, since: str) -> Checked:
    """Loads from the load id `since` on. Reads every table once. Raises psycopg.Error."""
    receipts = sql.Identifier(layout.dataset, "_receipts")
    gaps: list[Gap] = []
    differences: list[Difference] = []
    total = tables = 0
    query = sql.SQL(_LOADED).format(receipts=receipts)
    for table, loads, wanted in conn.execute(query, {"since": since}).fetchall():
        total += wanted
        tables += 1
        path = layout.path(table)
        if path is None:
            if wanted:
                gone = "the table is gone" if table not in layout.columns else "its rows lead to no load id"
                gaps.append(
                    Gap("receipts", f"table {table}", wanted, 0, f"{gone}; {counted(loads, 'load')} wrote to it")
                )
            continue
        compare = sql.SQL(_COMPARE).format(receipts=receipts, rows=layout.rows_by_load(path))
        values = {"since": since, "table": table, "limit": _MOST_SHORT}
        differences += [
            Difference(load_id, table, path[-1], expected, found)
            for load_id, expected, found in conn.execute(compare, values).fetchall()
        ]
    text = f"{counted(total, 'row')} of {counted(tables, 'table')} by load id"
    moved = explained(differences, read_replays(conn, layout.dataset))
    if moved:
        rows = sum(each.wanted - each.found for each in moved)
        text += (
            f"; {rows:,} rows of {len({each.load_id for each in moved}):,} loads are under newer loads since a backfill"
        )
    left = [each for each in differences if each not in moved]
    short: dict[str, int] = {}
    for each in left:
        short[each.table] = short.get(each.table, 0) + each.missing
    orphans = {table: _orphans(conn, layout, table) for table, missing in short.items() if missing}
    gaps += [each.gap(orphans.get(each.table, 0), short[each.table]) for each in left]
    return Checked("receipts", text, tuple(gaps[:MOST_LISTED]))


def _orphans(conn: psycopg.Connection[Any], layout: Layout, table: str) -> int:
    """Rows that are there but hang on no row: who deletes parents alone finds them counted as missing."""
    path = layout.path(table)
    if path is None or len(path) == 1:
        return 0
    row = conn.execute(layout.orphans(path)).fetchone()
    return row[0] if row is not None else 0
