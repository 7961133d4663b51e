"""DDL, word for word as dlt's Postgres destination writes it; run by us, in our own transaction."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import lru_cache

from dlt.common.destination import DestinationCapabilitiesContext
from dlt.common.schema import Schema
from dlt.common.schema.typing import TColumnSchema
from dlt.destinations.impl.postgres.configuration import PostgresClientConfiguration, PostgresCredentials
from dlt.destinations.impl.postgres.postgres import PostgresClient

from loader.learn.stored_schema import capabilities


def statements(schema: Schema, dataset: str, added: Mapping[str, list[TColumnSchema]], existing: set[str]) -> list[str]:
    """CREATE and ALTER statements for the added columns, in table-name order, which is also the order of COPY:
    two transactions that take their locks in one order cannot deadlock."""
    client = _writer(schema, dataset)
    result: list[str] = []
    for name in sorted(added):
        result += client._get_table_update_sql(name, added[name], name in existing)
    return result


def internal_statements(schema: Schema, dataset: str) -> list[str]:
    """CREATE TABLE IF NOT EXISTS for dlt's own tables."""
    client = _writer(schema, dataset)
    result: list[str] = []
    for name in sorted(schema.dlt_table_names()):
        result += client._get_table_update_sql(name, list(schema.tables[name]["columns"].values()), False)
    return result


def _writer(schema: Schema, dataset: str) -> PostgresClient:
    """dlt's client as a writer of SQL text only: it never connects, so it needs no credentials."""
    config = PostgresClientConfiguration(credentials=PostgresCredentials())
    config = config._bind_dataset_name(dataset)
    # The dataset is the Postgres schema that the user named, letter by letter: dlt would spell it anew, in lower case.
    config.enable_dataset_name_normalization = False
    return PostgresClient(schema, config, _letter_by_letter())


@lru_cache(maxsize=1)
def _letter_by_letter() -> DestinationCapabilitiesContext:
    kept = copy(capabilities())
    kept.casefold_identifier = str
    return kept
