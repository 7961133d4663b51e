"""dlt's stored schema (`_dlt_version`): read by version, evolved by a draft's additions, written as dlt writes it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import psycopg
from dlt.common.configuration.container import Container
from dlt.common.destination import DestinationCapabilitiesContext
from dlt.common.schema import Schema
from dlt.common.schema.typing import TColumnSchema
from dlt.common.schema.utils import new_table
from dlt.destinations import postgres
from psycopg import sql

from loader.learn.draft import Addition
from loader.plan import names

DEFAULT_NAME = "loader"
"""Name of the schema in a dataset that we make; one that stock dlt wrote keeps its own name."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A schema as it stands in the database."""

    name: str
    version: int
    text: str | None
    """JSON text; None when the dataset has no schema yet."""
    hash: str | None = None


# dlt's own client orders by the client's clock and fetches every version; ours takes the highest version of one name.
_NEWEST = """
select schema_name, version, schema, version_hash from {table}
where schema_name = coalesce(
    (select {name} where exists (select 1 from {table} where schema_name = {name})),
    (select min(schema_name) from {table} having count(distinct schema_name) = 1),
    {name})
order by version desc, inserted_at desc limit 1
"""


def read_stored(conn: psycopg.Connection, dataset: str) -> Stored:
    """The newest stored schema. A dataset with exactly one schema of another name is taken over under that name."""
    with conn.cursor() as cursor:
        cursor.execute("select to_regclass(%s)", (sql.Identifier(dataset, "_dlt_version").as_string(conn),))
        row = cursor.fetchone()
        if row is None or row[0] is None:
            return Stored(DEFAULT_NAME, 0, None)
        query = sql.SQL(_NEWEST).format(table=sql.Identifier(dataset, "_dlt_version"), name=sql.Literal(DEFAULT_NAME))
        found = cursor.execute(query).fetchone()
    if found is None:
        return Stored(DEFAULT_NAME, 0, None)
    return Stored(found[0], found[1], found[2], found[3])


@lru_cache(maxsize=1)
def capabilities() -> DestinationCapabilitiesContext:
    """What dlt's Postgres destination can do. Remembered: dlt reads its configuration anew each time, for 15 ms."""
    return postgres().capabilities()


def to_schema(stored: Stored) -> Schema:
    """A Schema object of its own, to evolve. Names are cut at 63 bytes only inside the destination's context."""
    with Container().injectable_context(capabilities()):
        if stored.text is None:
            return Schema(stored.name)
        text = stored.text
        if not text.startswith("{"):  # dlt packs schemas that are too large for the destination's text type
            text = zlib.decompress(base64.b64decode(text)).decode()
        # Validating 11,000 columns takes a second; what dlt or we wrote before was valid then.
        return Schema.from_dict(json.loads(text), validate_schema=False)


def known_columns(schema: Schema) -> dict[str, frozenset[str]]:
    """The columns that the schema has, by table."""
    return {
        name: frozenset(column for column, hints in table["columns"].items() if "data_type" in hints)
        for name, table in schema.tables.items()
    }


def evolve(schema: Schema, additions: Iterable[Addition]) -> dict[str, list[TColumnSchema]]:
    """Add columns and tables to the schema; returns the new columns of each table, in the order of the additions."""
    added: dict[str, list[TColumnSchema]] = {}
    for addition in additions:
        column = _column(addition)
        added.setdefault(addition.table, []).append(column)
        if addition.table not in schema.tables:
            table = new_table(addition.table, parent_table_name=addition.parent)  # type: ignore[arg-type]
            table["x-normalizer"] = {"seen-data": True}  # type: ignore[typeddict-unknown-key]
        else:
            table = dict(schema.tables[addition.table])  # type: ignore[assignment]
        table["columns"] = {addition.column: column}
        schema.update_table(table, normalize_identifiers=False)
    return added


def _column(addition: Addition) -> TColumnSchema:
    column: TColumnSchema = {
        "name": addition.column,
        "data_type": addition.data_type,  # type: ignore[typeddict-item]
        "nullable": addition.nullable,
    }
    if addition.column == names.DLT_ID:
        column["row_key"] = True
        # A table that is there may hold rows without an id: its index is made apart (loader adopt).
        if addition.new_table:
            column["unique"] = True
    elif addition.column == names.DLT_PARENT_ID:
        column["parent_key"] = True
    if addition.variant:
        column["variant"] = True
        column["description"] = f"Variant of column {addition.column} generated by dlt"  # dlt's own wording
    return column


@dataclass(frozen=True, slots=True)
class Version:
    """A row of `_dlt_version`."""

    number: int
    engine: int
    name: str
    hash: str
    text: str


def serialise(schema: Schema) -> Version:
    """The evolved schema as dlt stores it; number and hash change if its content did."""
    content = schema.to_dict()
    return Version(
        content["version"], content["engine_version"], content["name"], content["version_hash"], json.dumps(content)
    )
