"""Builds a missing unique index on `_dlt_id` while others read and write: CREATE UNIQUE INDEX CONCURRENTLY."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from psycopg import sql

from loader.adopt.inventory import RootTable, duplicates_query, index_name
from loader.errors import LoaderError

_PROGRESS = """
select phase, blocks_done, blocks_total, lockers_done, lockers_total
from pg_catalog.pg_stat_progress_create_index where pid = %s
"""
_POLL_SECONDS = 0.5


class Connector(Protocol):
    """Opens connections; loader/database/connection.py has the real one."""

    def connect(self, application_name: str, *, autocommit: bool = False) -> psycopg.Connection[Any]: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is. `done` and `total` count blocks of the table, or transactions that are waited for."""

    table: str
    phase: str
    done: int
    total: int


def statements(dataset: str, table: RootTable) -> list[sql.Composed]:
    """What is run: leftovers of interrupted builds go first, for they cost every insert and help nobody."""
    drops = [
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(dataset, name))
        for name in table.leftovers
    ]
    create = sql.SQL("CREATE UNIQUE INDEX CONCURRENTLY {} ON {} ({})").format(
        sql.Identifier(index_name(table.name)), sql.Identifier(dataset, table.name), sql.Identifier("_dlt_id")
    )
    return [*drops, create]


def build(connector: Connector, dataset: str, table: RootTable, watch: Callable[[Progress], None]) -> None:
    """Make the index. `watch` hears of the progress twice a second.

    Raises LoaderError that says what stands in the way (duplicates, a partitioned table, another build), psycopg.Error.
    What an interruption leaves is invalid and is removed by the next call.
    """
    if table.partitioned:
        raise LoaderError(
            f"{dataset}.{table.name} is partitioned, so Postgres builds no index on it concurrently: make a unique "
            "index on exactly _dlt_id, which needs a table that is not partitioned"
        )
    if table.building:
        raise LoaderError(f"another session builds the index of {dataset}.{table.name} right now: let it finish")
    with (
        connector.connect("loader adopt", autocommit=True) as conn,
        connector.connect("loader adopt progress", autocommit=True) as watcher,
    ):
        # A build takes what it takes: a limit of the role must not end it after an hour.
        conn.execute("set statement_timeout = 0")
        conn.execute("set lock_timeout = 0")
        row = conn.execute("select pg_backend_pid()").fetchone()
        pid = row[0] if row else 0
        for statement in statements(dataset, table):
            try:
                _run(conn, statement, lambda: _report(watcher, pid, table.name, watch))
            except psycopg.errors.UniqueViolation as error:
                conn.execute(
                    sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(
                        sql.Identifier(dataset, index_name(table.name))
                    )
                )
                raise LoaderError(
                    f"{dataset}.{table.name} holds rows with the same _dlt_id ({error.diag.message_detail}): remove "
                    f"them, then run this again; all of them: {duplicates_query(dataset, table.name)}"
                ) from error
            except psycopg.errors.DuplicateTable as error:
                raise LoaderError(
                    f"the name {index_name(table.name)} is taken in {dataset}, by no unique index on exactly _dlt_id "
                    f"of {table.name}: rename what has it"
                ) from error


def _run(conn: psycopg.Connection[Any], statement: sql.Composed, poll: Callable[[], None]) -> None:
    """Run in a thread, so that the progress can be asked for meanwhile and an interrupt cancels the statement."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            conn.execute(statement)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="index", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            poll()
    except BaseException:
        conn.cancel_safe(timeout=5.0)
        thread.join(10.0)
        raise
    if failed:
        raise failed[0]


def _report(watcher: psycopg.Connection[Any], pid: int, table: str, watch: Callable[[Progress], None]) -> None:
    row = watcher.execute(_PROGRESS, (pid,)).fetchone()
    if row is not None and row[0] is not None:
        phase, done, total, lockers_done, lockers_total = row
        if total:
            watch(Progress(table, phase, done or 0, total))
        else:
            watch(Progress(table, phase, lockers_done or 0, lockers_total or 0))
