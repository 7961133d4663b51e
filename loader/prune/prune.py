"""What may go, and how it goes: at most BATCH rows a transaction, rows that others hold are skipped."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from loader.errors import LoaderError

BATCH = 5_000
KEPT_VERSIONS = 20
# A worker writes its row each 15 s; one of a day ago is gone for good.
_WORKER_GONE = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of one table that may go; `condition` has the parameters `cutoff`, `cutoff_id` and `kept`."""

    table: str
    condition: str
    what: str


RULES = (
    Rule("_dlt_loads", "inserted_at < %(cutoff)s", "rows of loads"),
    # By load id too, for that has an index; a load commits after its id was made.
    Rule("_receipts", "load_id < %(cutoff_id)s and committed_at < %(cutoff)s", "receipts"),
    Rule("_dead_letters", "resolved_at < %(cutoff)s", "resolved dead letters"),
    Rule(
        "_dlt_version",
        "(schema_name, version) in (select schema_name, version from (select schema_name, version, dense_rank() over"
        " (partition by schema_name order by version desc) as place from {table}) ranked where place > %(kept)s)",
        "schema versions",
    ),
    Rule("_workers", "seen_at < now() - %(worker_gone)s", "rows of workers that are gone"),
)


@dataclass(frozen=True, slots=True)
class Pruned:
    """A batch that went, or with `dry_run` all that would go."""

    table: str
    what: str
    rows: int


def prune(
    conn: psycopg.Connection[Any],
    dataset: str,
    cutoff: datetime.datetime,
    *,
    kept_versions: int = KEPT_VERSIONS,
    dry_run: bool = False,
    batch: int = BATCH,
) -> Iterator[Pruned]:
    """Delete what is older than `cutoff`, batch by batch, each in a transaction of its own.

    `conn` is in autocommit mode. May be stopped at any point and run again. Raises psycopg.Error, and LoaderError for
    a dataset that has none of the tables: its name is misspelt rather than all of it pruned."""
    names = [sql.Identifier(dataset, rule.table).as_string(conn) for rule in RULES]
    there = conn.execute("select count(to_regclass(name)) from unnest(%s::text[]) name", (names,)).fetchone()
    if there is None or not there[0]:
        raise LoaderError(
            f"dataset {dataset} has none of the loader's tables, so nothing to prune: check LOADER_DATASET; "
            "`loader run` makes them"
        )
    values = {
        "cutoff": cutoff,
        "cutoff_id": f"{cutoff.timestamp():.6f}",
        "kept": kept_versions,
        "worker_gone": _WORKER_GONE,
        "batch": batch,
    }
    for rule in RULES:
        table = sql.Identifier(dataset, rule.table)
        exists = conn.execute("select to_regclass(%s)", (table.as_string(conn),)).fetchone()
        if exists is None or exists[0] is None:
            continue
        condition = sql.SQL(rule.condition).format(table=table)  # type: ignore[arg-type]
        if dry_run:
            count = sql.SQL("select count(*) from {} where {}").format(table, condition)
            row = conn.execute(count, values).fetchone()
            yield Pruned(rule.table, rule.what, row[0] if row else 0)
            continue
        delete = sql.SQL(
            "delete from {table} where ctid = any(array("
            "select ctid from {table} where {condition} limit %(batch)s for update skip locked))"
        ).format(table=table, condition=condition)
        while (rows := conn.execute(delete, values).rowcount) > 0:
            yield Pruned(rule.table, rule.what, rows)
