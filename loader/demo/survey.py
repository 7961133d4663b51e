"""What is in the dataset in the end, from Postgres' own catalog and by counting rows: nobody's word is taken for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from loader.demo.progress import Change
from loader.demo.publisher import Published
from loader.demo.receipt import Receipt

ROWS = 3
_OWN = ("_dlt_", "_event_id", "_event_digest", "_published_at")
_SHORT = {"timestamp with time zone": "timestamptz", "character varying": "varchar", "double precision": "double"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the payload."""

    name: str
    type: str
    late: bool
    """Not there when the table was made."""
    variant: bool
    """Takes values that the column of the same key cannot hold as they are."""
    first_event: str
    """The event that first asked for it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, the loader's own columns left out."""

    name: str
    parent: str
    """Of a child table; empty for a root table."""
    rows: int
    columns: list[Column]
    sample: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Letter:
    """An open dead letter."""

    event_id: str
    reason: str
    detail: str
    body: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The dataset in the end."""

    tables: list[Table]
    letters: list[Letter]
    duplicates: int
    discarded: int

    def receipt(self, published: Published) -> Receipt:
        """Both sides."""
        return Receipt(
            published=published.total,
            repeats=published.repeats,
            loaded=sum(table.rows for table in self.tables if not table.parent),
            duplicates=self.duplicates,
            dead_lettered=len(self.letters),
            discarded=self.discarded,
        )


def survey(conn: psycopg.Connection[Any], dataset: str, changes: Collection[Change]) -> Survey:
    """Reads it all. Raises psycopg.Error. `changes` says which columns came late and which are variants."""
    names = [row[0] for row in conn.execute(_TABLES, (dataset,))]
    if "_receipts" not in names:
        return Survey([], [], 0, 0)  # the worker has loaded nothing at all
    added = {(change.table, change.column): change for change in changes if change.column}
    tables = [
        _table(conn, dataset, name, added)
        for name in sorted(names, key=lambda name: name.split("__"))
        if not name.startswith("_")  # dlt's and the loader's own: no table of events begins so
    ]
    letters = [
        Letter(*row)
        for row in conn.execute(
            sql.SQL(
                "select _event_id, reason, detail, left(body, 300) from {} where resolved_at is null"
                " order by created_at, letter_id"
            ).format(sql.Identifier(dataset, "_dead_letters"))
        )
    ]
    query = sql.SQL("select coalesce(sum(duplicate_count), 0)::bigint, coalesce(sum(discard_count), 0)::bigint from {}")
    row = conn.execute(query.format(sql.Identifier(dataset, "_receipts"))).fetchone()
    duplicates, discarded = row if row is not None else (0, 0)
    return Survey(tables, letters, duplicates, discarded)


_TABLES = """
select relname from pg_catalog.pg_class join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
where nspname = %s and relkind = 'r'
"""
_COLUMNS = """
select attname, format_type(atttypid, atttypmod) from pg_catalog.pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
"""


def _table(conn: psycopg.Connection[Any], dataset: str, name: str, added: dict[tuple[str, str], Change]) -> Table:
    identifier = sql.Identifier(dataset, name)
    described = conn.execute(_COLUMNS, (identifier.as_string(conn),)).fetchall()
    columns = []
    for column, data_type in described:
        if column.startswith(_OWN):
            continue
        change = added.get((name, column))
        variant, first = (change.variant, change.first_event) if change is not None else (False, "")
        columns.append(Column(column, _SHORT.get(data_type, data_type), change is not None, variant, first))
    count = conn.execute(sql.SQL("select count(*) from {}").format(identifier)).fetchone()
    is_child = any(column == "_dlt_parent_id" for column, _ in described)
    parent = name.rpartition("__")[0] if is_child else ""
    return Table(name, parent, count[0] if count else 0, columns, _sample(conn, identifier, columns))


def _sample(conn: psycopg.Connection[Any], table: sql.Identifier, columns: list[Column]) -> list[dict[str, Any]]:
    """A few rows: most of them fill the columns that came late, one does not."""
    if not columns:
        return []
    names = [column.name for column in columns]
    late = [sql.Identifier(column.name) for column in columns if column.late]
    # A plain 0 in `order by` would be the number of a column.
    filled = sql.SQL("num_nonnulls({})").format(sql.SQL(",").join(late) if late else sql.SQL("null::text"))
    query = sql.SQL(
        "(select {names} from {table} where {filled} > 0 order by {filled} desc, _dlt_id limit %s) union all"
        " (select {names} from {table} where {filled} = 0 order by _dlt_id limit %s)"
    ).format(names=sql.SQL(",").join(map(sql.Identifier, names)), table=table, filled=filled)
    rows = conn.execute(query, (ROWS - 1, ROWS)).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows[:ROWS]]
