"""From settings to the database that a verb works on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

    from loader.database.connection import Database, LoaderConnection
    from loader.settings.declaration import Settings


def make_database(settings: Settings) -> Database:
    """Where the database is. Raises ConfigurationError."""
    from loader.database.connection import Database
    from loader.database.conninfo import parse_conninfo

    url = settings.database_url
    info = parse_conninfo(url.get_secret_value() if url else None, os.environ)
    return Database(info, iam_auth=settings.iam_auth)


@contextmanager
def connected(settings: Settings, verb: str, *, read_only: bool = False) -> Iterator[LoaderConnection]:
    """A connection in autocommit mode that shows as `loader VERB`. Any error of the database is a LoaderError."""
    import psycopg

    from loader.errors import LoaderError

    database = make_database(settings)
    try:
        with database.connect(f"loader {verb}", autocommit=True) as conn:
            conn.read_only = read_only
            yield conn
    except psycopg.errors.UndefinedTable as error:
        raise LoaderError(
            f"dataset {settings.dataset} at {database.describe()} lacks the loader's tables ({_line(error)}): "
            "check LOADER_DATASET; `loader run` and `loader adopt` make them"
        ) from error
    except psycopg.Error as error:
        raise LoaderError(f"dataset {settings.dataset} at {database.describe()}: {_line(error)}") from error


def _line(error: psycopg.Error) -> str:
    # The server's own words where there are any, without the piece of our SQL that libpq draws beneath them.
    return " ".join((error.diag.message_primary or str(error)).split())
