"""Fills tables up to the size of production: the unique index is large, and its order is random, when we measure."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import sql

_COLUMNS = """
select attname from pg_catalog.pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped and attname not in ('_dlt_id', '_dlt_parent_id')
order by attnum
"""
# Ids as long and as random as real ones: what an insert costs depends on the index, not on the rows' content.
_ID = "translate(encode(substr(sha256(convert_to(r._dlt_id || '/' || n, 'UTF8')), 1, 15), 'base64'), E'\\n', '')"


def prefill(conn: psycopg.Connection, dataset: str, tables: Iterable[str], rows: int) -> None:
    """Grow tables to about `rows` rows in all, in the proportion of the rows that they have now."""
    names = sorted(tables)
    counts = {name: _count(conn, dataset, name) for name in names}
    have = sum(counts.values())
    factor = rows // max(1, have) - 1
    if factor >= 1:
        for name in names:
            _multiply(conn, dataset, name, factor)
    for name in names:
        conn.execute(sql.SQL("vacuum analyze {}").format(sql.Identifier(dataset, name)))
    conn.execute("checkpoint")


def _count(conn: psycopg.Connection, dataset: str, name: str) -> int:
    row = conn.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(dataset, name))).fetchone()
    return int(row[0]) if row else 0


def _multiply(conn: psycopg.Connection, dataset: str, name: str, factor: int) -> None:
    table = sql.Identifier(dataset, name)
    columns = [row[0] for row in conn.execute(_COLUMNS, (table.as_string(conn),))]
    parents = conn.execute(
        "select 1 from pg_catalog.pg_attribute where attrelid = %s::regclass and attname = '_dlt_parent_id'",
        (table.as_string(conn),),
    ).fetchone()
    names = [sql.Identifier(column) for column in columns]
    values: list[sql.Composable] = [sql.SQL("r.") + column for column in names]
    if parents:
        names.append(sql.Identifier("_dlt_parent_id"))
        values.append(sql.SQL("r._dlt_parent_id"))
    conn.execute(
        sql.SQL("insert into {} (_dlt_id, {}) select {}, {} from {} r, generate_series(1, {}) n").format(
            table,
            sql.SQL(", ").join(names),
            sql.SQL(_ID),
            sql.SQL(", ").join(values),
            table,
            sql.Literal(factor),
        )
    )
