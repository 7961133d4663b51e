"""Foreign keys of other tables that point at the dataset's: what stands in the way of rewriting rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg

from loader.errors import LoaderError

# A check that waits for the end of the transaction finds the rows back under the ids that they had. A child table's
# own key that deletes along deletes what is rewritten anyway.
_QUERY = """
select key.conname, key.conrelid::regclass::text, target.relname,
       case key.confdeltype when 'c' then 'would delete' when 'n' then 'would empty the columns of'
                            when 'd' then 'would empty the columns of' else 'is refused by' end
from pg_catalog.pg_constraint key
join pg_catalog.pg_class target on target.oid = key.confrelid
join pg_catalog.pg_namespace dataset on dataset.oid = target.relnamespace
where key.contype = 'f' and key.conparentid = 0 and dataset.nspname = %s
  and not (key.condeferred and key.confdeltype = 'a')
  and not (key.confdeltype = 'c' and exists (
        select from pg_catalog.pg_attribute child
        where child.attrelid = key.conrelid and child.attnum = any(key.conkey) and child.attname = '_dlt_parent_id'))
order by 3, 2, 1
"""


def check_references(conn: psycopg.Connection[Any], dataset: str, tables: Collection[str] | None) -> None:
    """Raise LoaderError when a foreign key points at rows that are to be rewritten; psycopg.Error."""
    for constraint, owner, target, effect in conn.execute(_QUERY, (dataset,)).fetchall():
        if tables is None or any(target == table or target.startswith(f"{table}__") for table in tables):
            raise LoaderError(
                f"--replace deletes the rows of {dataset}.{target} and writes them anew, which {effect} {owner}: its "
                f"foreign key {constraint} points at them. Make it wait for the end of the transaction (alter table "
                f"{owner} alter constraint {constraint} deferrable initially deferred; on delete no action), or drop "
                "it for the time of the backfill"
            )
