"""Indexes on `_dlt_parent_id` while rows are rewritten: dlt makes none, and each load looks for children by it.

They are built and dropped without holding up anybody, and only for child tables whose scan would be felt."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from loader.plan import names

LARGE_BYTES = 32 * 1024 * 1024
_SUFFIX = "backfill_parent"

_CHILDREN = """
select c.relname::text
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = '_dlt_parent_id' and not a.attisdropped
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s) and c.relkind = 'r'
  and pg_table_size(c.oid) >= %s
  and not exists (select 1 from pg_catalog.pg_index x
                  where x.indrelid = c.oid and x.indkey[0] = a.attnum and x.indisvalid and x.indpred is null)
order by c.relname
"""
_OURS = """
select c.relname::text from pg_catalog.pg_class c
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s) and c.relkind = 'i'
  and c.relname = any(%s)
"""


class ParentIndexes:
    """Of one dataset; `conn` is in autocommit mode. Every method raises psycopg.Error."""

    def __init__(self, conn: psycopg.Connection[Any], dataset: str, large_bytes: int = LARGE_BYTES) -> None:
        self._conn = conn
        self._dataset = dataset
        self._large_bytes = large_bytes

    def missing(self) -> list[str]:
        """Large child tables without an index on their parents' ids."""
        return [row[0] for row in self._conn.execute(_CHILDREN, (self._dataset, self._large_bytes))]

    def make(self) -> list[str]:
        """Build what is missing; the tables that have one now."""
        tables = self.missing()
        for table in tables:
            name = sql.Identifier(_name(table))
            # One that an interrupted build left is invalid and in the way.
            self._drop(_name(table))
            self._conn.execute(
                sql.SQL("create index concurrently {} on {} (_dlt_parent_id)").format(
                    name, sql.Identifier(self._dataset, table)
                )
            )
        return tables

    def drop(self) -> None:
        """Drop those that `make` built, in this run or one that was interrupted."""
        tables = self._conn.execute(
            "select tablename::text from pg_catalog.pg_tables where schemaname = %s", (self._dataset,)
        )
        ours = [_name(row[0]) for row in tables.fetchall()]
        for row in self._conn.execute(_OURS, (self._dataset, ours)).fetchall():
            self._drop(row[0])

    def _drop(self, name: str) -> None:
        self._conn.execute(sql.SQL("drop index concurrently if exists {}").format(sql.Identifier(self._dataset, name)))


def _name(table: str) -> str:
    return names.joined(table, _SUFFIX)
