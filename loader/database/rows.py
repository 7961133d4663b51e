"""How many rows tables have: counted where they are small, for Postgres' estimate lags behind a load by minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from loader.database.connection import set_local

SMALL_BYTES = 10_000_000
"""A table below this, indexes left out, is counted; so is one of which Postgres has no estimate."""
MOST_ROWS = 100_000
"""Counting ends here: a table with more has its estimate, if that is more."""
_LOCK_MS = 200
_STATEMENT_MS = 2_000
_AT_ONCE = 100

# The pages that it had when its rows were estimated: pg_relation_size would wait for a table that somebody alters.
_ESTIMATES = """
select c.oid::bigint, c.relname::text, greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0),
       c.reltuples < 0 or c.relpages * current_setting('block_size')::bigint < %s
from pg_catalog.pg_class c where c.oid = any(%s::oid[])
"""
_COUNT = "(select {}::bigint, count(*) from (select from {} limit {}) counted)"


def row_counts(conn: psycopg.Connection[Any], dataset: str, tables: list[int]) -> Mapping[int, int]:
    """Rows by the table's oid, those of small tables exact. Raises psycopg.Error.

    Where a table is locked, may not be read or takes long, the estimates have to do. No lock outlives the call."""
    found = conn.execute(_ESTIMATES, (SMALL_BYTES, tables)).fetchall()
    rows = {oid: estimate for oid, _, estimate, _ in found}
    small = [(oid, name) for oid, name, _, countable in found if countable]
    for start in range(0, len(small), _AT_ONCE):
        parts = [
            sql.SQL(_COUNT).format(oid, sql.Identifier(dataset, name), MOST_ROWS + 1)
            for oid, name in small[start : start + _AT_ONCE]
        ]
        try:
            # Rolled back, a part of a transaction gives its locks back: who changes a table need not wait for the rest.
            with conn.transaction(force_rollback=True):
                set_local(conn, lock_timeout_ms=_LOCK_MS, statement_timeout_ms=_STATEMENT_MS)
                counted = conn.execute(sql.SQL(" union all ").join(parts)).fetchall()
        except (
            psycopg.errors.LockNotAvailable,
            psycopg.errors.QueryCanceled,
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.UndefinedTable,
        ):
            continue
        rows |= {oid: count if count <= MOST_ROWS else max(count, rows[oid]) for oid, count in counted}
    return rows
