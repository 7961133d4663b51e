"""Asks a dataset while its server may be away: how many events it accounts for, and when they were committed."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql


class Dataset:
    """A connection that is made anew after it was lost. A context manager."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self._conn: psycopg.Connection[Any] | None = None
        self._accounted = 0

    def accounted(self) -> int:
        """Events that are stored or dead letters; what was seen last while the server is away."""
        query = sql.SQL(
            "select (select coalesce(sum(event_count), 0)::bigint from {}) + (select count(*) from {})"
        ).format(sql.Identifier(self.name, "_receipts"), sql.Identifier(self.name, "_dead_letters"))
        try:
            row = self._connected().execute(query).fetchone()
        except psycopg.errors.UndefinedTable:
            return self._accounted  # no worker has made the dataset yet
        except psycopg.OperationalError:
            self.close()
            return self._accounted
        self._accounted = int(row[0]) if row else 0
        return self._accounted

    def commits(self) -> list[tuple[float, int]]:
        """Each load's time (seconds since the epoch) and events, in order. Raises psycopg.Error."""
        query = sql.SQL(
            "select extract(epoch from committed_at)::float8, sum(event_count + dead_letter_count)::bigint from {}"
            " group by 1 order by 1"
        ).format(sql.Identifier(self.name, "_receipts"))
        return list(self._connected().execute(query).fetchall())

    def drop(self) -> None:
        """Remove it with all its tables. Raises psycopg.Error."""
        self._connected().execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(self.name)))

    def _connected(self) -> psycopg.Connection[Any]:
        if self._conn is None:
            self._conn = psycopg.connect(self.url, autocommit=True, application_name="bench", connect_timeout=5)
        return self._conn

    def close(self) -> None:
        """Close the connection."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
