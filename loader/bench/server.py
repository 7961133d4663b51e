"""The Postgres that a benchmark runs on: durable, as in production, and a process whose CPU can be read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from loader.local.postgres import EmbeddedPostgres, open_postgres

# A server that writes its checkpoint in the middle of a repetition measures the disk: production spreads them too.
_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}


@dataclass(frozen=True, slots=True)
class Server:
    """A fresh database on a server."""

    url: str
    version: str
    origin: str
    pid: int | None
    """The server's process; None when it is not ours, so that its CPU cannot be read."""
    ours: EmbeddedPostgres | None = None
    """The server itself when we started it: it may be restarted."""


@contextmanager
def database(url: str | None, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A fresh database, dropped afterwards: on the server at `url`, else on an embedded one with fsync on, which gets
    the settings."""
    server = open_postgres(url) if url else EmbeddedPostgres(durable=True, settings={**_SETTINGS, **(settings or {})})
    with server:
        name = f"loader_bench_{uuid.uuid4().hex[:8]}"
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        ours = server if isinstance(server, EmbeddedPostgres) else None
        pid = ours.pid if ours else None
        try:
            yield Server(server.database_url(name), server.version, server.origin, pid, ours)
        finally:
            with psycopg.connect(server.url, autocommit=True) as conn:
                conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
