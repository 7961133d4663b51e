"""What a dataset's tables have and lack for the loader. Reading only."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql

from loader.database.rows import row_counts
from loader.plan import names

# A root table of dlt has _dlt_load_id and no parent. Its `_dlt_id` is unique unless create_indexes was off.
_ROOTS = """
select c.oid::bigint, c.relname::text, c.relkind::text, pg_total_relation_size(c.oid),
       array_agg(a.attname::text order by a.attnum)
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)
  and c.relkind in ('r', 'p') and not c.relispartition and left(c.relname, 1) <> '_'
group by c.oid, c.relname, c.relkind
having array_agg(a.attname::text) @> array['_dlt_id', '_dlt_load_id']
   and not array_agg(a.attname::text) @> array['_dlt_parent_id']
order by c.relname
"""

_KEYS = """
select x.indrelid::bigint, i.relname::text, x.indisvalid,
       exists (select 1 from pg_catalog.pg_stat_progress_create_index p where p.index_relid = i.oid)
from pg_catalog.pg_index x
join pg_catalog.pg_class i on i.oid = x.indexrelid
join pg_catalog.pg_attribute a on a.attrelid = x.indrelid and a.attnum = x.indkey[0] and a.attname = '_dlt_id'
where x.indrelid = any(%s::oid[]) and x.indisunique and x.indnkeyatts = 1
  and x.indpred is null and x.indexprs is null
"""

# The learning step logs each column that it adds to a table that was there: that is when the loader took it over,
# whether by `loader adopt` or in passing by `loader run`.
_TAKEN_OVER = """
select table_name, min(added_at) from {} where column_name = '_event_id' and not new_table group by 1
"""


@dataclass(frozen=True, slots=True)
class RootTable:
    """One root table as it is."""

    name: str
    rows: int
    """Counted where the table is small, else Postgres' estimate."""
    size: int
    """Bytes, indexes included."""
    missing: tuple[str, ...]
    """Columns that the loader will add."""
    keyed: bool
    """There is a valid unique index on `_dlt_id`."""
    leftovers: tuple[str, ...] = ()
    """Unique indexes on `_dlt_id` that an interrupted build left invalid."""
    building: bool = False
    """Another session builds the index right now."""
    partitioned: bool = False
    taken_over_at: datetime.datetime | None = None
    """When the loader added its columns; None for a table that it made, or has not touched yet."""

    @property
    def ready(self) -> bool:
        """Whether the loader can load into it as it is."""
        return self.keyed and not self.missing

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ready": self.ready}


def read_roots(conn: psycopg.Connection[Any], dataset: str, needed: Sequence[str]) -> list[RootTable]:
    """The root tables that dlt or the loader made, by name. `needed` is Book.root_columns. Raises psycopg.Error."""
    rows = conn.execute(_ROOTS, (dataset,)).fetchall()
    keys: dict[int, list[tuple[str, bool, bool]]] = {}
    for table, index, valid, building in conn.execute(_KEYS, ([row[0] for row in rows],)).fetchall():
        keys.setdefault(table, []).append((index, valid, building))
    taken_over = takeover_times(conn, dataset)
    counts = row_counts(conn, dataset, [row[0] for row in rows])
    found = []
    for oid, name, kind, size, columns in rows:
        indexes = keys.get(oid, [])
        found.append(
            RootTable(
                name,
                counts.get(oid, 0),
                size,
                tuple(column for column in needed if column not in columns),
                any(valid for _, valid, _ in indexes),
                tuple(index for index, valid, building in indexes if not valid and not building),
                any(building for _, _, building in indexes),
                kind == "p",
                taken_over.get(name),
            )
        )
    return found


def takeover_times(conn: psycopg.Connection[Any], dataset: str) -> dict[str, datetime.datetime]:
    """For each table that another program wrote before, when the loader took it over.

    Rows from before that moment have no `_event_id`: messages published before it may be in them, so that loading them
    again would double them. Raises psycopg.Error.
    """
    log = sql.Identifier(dataset, "_schema_log")
    there = conn.execute("select to_regclass(%s)", (log.as_string(None),)).fetchone()
    if there is None or there[0] is None:
        return {}
    return dict(conn.execute(sql.SQL(_TAKEN_OVER).format(log)).fetchall())


def index_name(table: str) -> str:
    """Name of the unique index, as dlt's own constraint is called."""
    return names.joined(table, "_dlt_id_key")


def duplicates_query(dataset: str, table: str) -> str:
    """The query that shows which `_dlt_id` is there more than once."""
    text = "SELECT _dlt_id, count(*) FROM {} GROUP BY _dlt_id HAVING count(*) > 1"
    return sql.SQL(text).format(sql.Identifier(dataset, table)).as_string(None)
