"""What the database really has: tables, columns with their exact types, and the unique indexes on `_dlt_id`."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from loader.plan.book import Column, Table
from loader.plan.kind import kind_of

# pg_attribute rather than information_schema: 12 to 19 ms instead of 200 ms for 11,000 columns.
_COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
       a.attgenerated <> '' or a.attidentity = 'a', a.attnotnull and (a.atthasdef or a.attidentity <> '')
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)
  and c.relkind in ('r', 'p') and left(c.relname, 1) <> '_'
order by c.relname, a.attnum
"""

_ROW_KEYS = """
select c.relname, i.relname
from pg_catalog.pg_class c
join pg_catalog.pg_index x on x.indrelid = c.oid and x.indisunique and x.indisvalid and x.indnkeyatts = 1
     and x.indpred is null and x.indexprs is null
join pg_catalog.pg_class i on i.oid = x.indexrelid
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = x.indkey[0] and a.attname = '_dlt_id'
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)
  and c.relkind in ('r', 'p') and left(c.relname, 1) <> '_'
"""


def read_tables(conn: psycopg.Connection, dataset: str, known: Mapping[str, frozenset[str]]) -> dict[str, Table]:
    """The tables of a dataset. `known` are the columns that dlt's stored schema has for each table.

    Internal tables (a leading underscore) are left out: no event's table has such a name. A column of the user's own
    that must not be null but has a default is left to its default: an event without the key could not be stored else.
    """
    tables: dict[str, Table] = {}
    with conn.cursor() as cursor:
        for name, column, pg_type, generated, defaulted in cursor.execute(_COLUMNS, (dataset,)):
            table = tables.get(name)
            if table is None:
                table = tables[name] = Table(name)
            generated = generated or (defaulted and column not in known.get(name, ()))
            table.columns[column] = Column(column, kind_of(pg_type), generated)
        keys: dict[str, set[str]] = {}
        for name, index in cursor.execute(_ROW_KEYS, (dataset,)):
            keys.setdefault(name, set()).add(index)
    for name, table in tables.items():
        table.row_keys = frozenset(keys.get(name, ()))
        table.foreign = frozenset(column.name for column in table.columns.values() if column.generated) | (
            frozenset(table.columns) - known.get(name, frozenset())
        )
    return tables
