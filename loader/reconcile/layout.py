"""Which tables a dataset has, and how a child table's rows lead to the root rows that carry the load id."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

_TABLES = """
select c.relname::text, array_agg(a.attname::text)
from pg_catalog.pg_class c
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = (select oid from pg_catalog.pg_namespace where nspname = %s)
  and c.relkind in ('r', 'p') and not c.relispartition and left(c.relname, 1) <> '_'
group by c.relname
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of a dataset at one moment."""

    dataset: str
    columns: dict[str, frozenset[str]]
    parents: dict[str, str]
    """Child table → the table that its rows hang on."""

    @property
    def event_tables(self) -> list[str]:
        """Root tables whose rows know their event."""
        return sorted(name for name, columns in self.columns.items() if {"_dlt_id", "_event_id"} <= columns)

    def path(self, table: str) -> list[str] | None:
        """The table and those above it up to its root; None where that cannot be told."""
        path = [table]
        while "_dlt_load_id" not in self.columns.get(path[-1], ()):
            parent = self.parents.get(path[-1])
            if parent is None or parent in path or "_dlt_parent_id" not in self.columns.get(path[-1], ()):
                return None
            path.append(parent)
        return path

    def rows_by_load(self, path: list[str]) -> sql.Composed:
        """The query of load ids (from a parameter `since` on) and rows of the first table of `path`."""
        source, root = self._joined(path, "join")
        return sql.SQL(
            "select {root}._dlt_load_id as load_id, count(*) as found from {source}"
            " where {root}._dlt_load_id >= %(since)s group by 1"
        ).format(root=root, source=source)

    def orphans(self, path: list[str]) -> sql.Composed:
        """The query of how many rows of the first table of `path` lead to no row of its last."""
        source, root = self._joined(path, "left join")
        return sql.SQL("select count(*) from {} where {}._dlt_id is null").format(source, root)

    def _joined(self, path: list[str], join: str) -> tuple[sql.Composed, sql.Identifier]:
        """The tables of a path, each beside the one above it, and what the last one is called."""
        names = [sql.Identifier(self.dataset, name) for name in path]
        source = sql.SQL("{} t0").format(names[0])
        for depth, name in enumerate(names[1:], 1):
            source += sql.SQL(" {} {} {} on {}._dlt_id = {}._dlt_parent_id").format(
                sql.SQL(join),  # type: ignore[arg-type]
                name,
                *(sql.Identifier(f"t{number}") for number in (depth, depth, depth - 1)),
            )
        return source, sql.Identifier(f"t{len(path) - 1}")


def read_layout(conn: psycopg.Connection[Any], dataset: str) -> Layout:
    """The layout as it is now. Raises psycopg.Error."""
    columns = {name: frozenset(found) for name, found in conn.execute(_TABLES, (dataset,)).fetchall()}
    query = sql.SQL("select schema from {} order by version desc, inserted_at desc limit 1")
    row = conn.execute(query.format(sql.Identifier(dataset, "_dlt_version"))).fetchone()
    tables = json.loads(_unpacked(row[0]))["tables"] if row else {}
    return Layout(dataset, columns, {name: table["parent"] for name, table in tables.items() if table.get("parent")})


def _unpacked(text: str) -> str:
    """dlt packs schemas that are too large for the destination's text type."""
    return text if text.startswith("{") else zlib.decompress(base64.b64decode(text)).decode()
