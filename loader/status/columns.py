"""The columns of one table, as the database has them and as the schema log tells of them."""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql

# A column that was dropped by hand and learned again has several entries: the newest made the one that is there.
_COLUMNS = """
select a.attname::text, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
       l.added_at, l.first_event_id, l.is_variant, l.schema_version
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join lateral (
    select * from {log} where table_name = c.relname and column_name = a.attname order by entry_id desc limit 1
) l on true
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)
  and c.relname = %s and c.relkind in ('r', 'p')
order by a.attnum
"""


@dataclass(frozen=True, slots=True)
class ColumnShown:
    """A column; the last four are None where the loader did not add it."""

    name: str
    type: str
    nullable: bool
    added_at: datetime.datetime | None
    first_event: str | None
    is_variant: bool | None
    version: int | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def read_columns(conn: psycopg.Connection[Any], dataset: str, table: str) -> list[ColumnShown]:
    """In the order of the table; none when there is no such table. Raises psycopg.Error."""
    query = sql.SQL(_COLUMNS).format(log=sql.Identifier(dataset, "_schema_log"))
    return [ColumnShown(*row) for row in conn.execute(query, (dataset, table))]
