"""Opens connections on which every worker sees the same: UTC, ISO dates, UTF-8, no server-side prepared statements.

Through a transaction pooler a session's settings are not its own. PgBouncer refuses start-up options that it does not
know and follows only those that the server reports (TimeZone, DateStyle, client_encoding, application_name): these are
set after the connection is made, and time limits only where the connection is direct. `set_local` limits one
transaction and works everywhere.

Transactions say themselves that they read what others committed. A role or database may prefer snapshots: behind the
advisory lock a learner would then read the schema as it was before it waited, and make a second one of that version."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from loader.database.conninfo import ConnectionInfo
from loader.errors import ConfigurationError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

IDLE_IN_TRANSACTION_MS = 120_000  # a worker that hangs within a transaction would hold its locks for ever
IAM_SCOPES = ("https://www.googleapis.com/auth/sqlservice.login",)

DEFAULTS: dict[str, str] = {
    "connect_timeout": "10",
    # A peer that vanished is noticed within a minute; TCP alone takes hours.
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    # libpq would look for a Kerberos server first: a host that is none of ours.
    "gssencmode": "disable",
}


class TokenUnavailable(psycopg.OperationalError):
    """No IAM token could be had. An outage like any other of the database: retried, never blamed on a message."""


class LoaderConnection(psycopg.Connection[Any]):
    """A connection that knows whether a transaction pooler stands between it and the server."""

    pooled: bool = False


def default_token() -> str:
    """A fresh OAuth token of the machine's default credentials, for one login. Raises TokenUnavailable."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    global _credentials
    try:
        with _credentials_lock:
            if _credentials is None:
                _credentials, _project = google.auth.default(scopes=IAM_SCOPES)
            _credentials.refresh(Request())
            token = _credentials.token
    except GoogleAuthError as error:
        raise TokenUnavailable(f"no IAM token for the database login: {error}") from error
    if not token:
        raise TokenUnavailable("no IAM token for the database login: the default credentials gave an empty one")
    return str(token)


_credentials: Credentials | None = None
_credentials_lock = threading.Lock()


class Database:
    """Where the database is and how to log in; `connect` opens one connection, nothing is kept open here."""

    def __init__(
        self, info: ConnectionInfo, *, iam_auth: bool = False, token: Callable[[], str] = default_token
    ) -> None:
        self._params: dict[str, str] = {**DEFAULTS, **info.params}
        self._info = info
        self._token = token if iam_auth else None
        if "," in info.params.get("host", ""):
            # Of several hosts only the primary takes rows.
            self._params.setdefault("target_session_attrs", "read-write")
        if iam_auth:
            if not (info.params.get("user") or info.params.get("service") or os.environ.get("PGUSER")):
                raise ConfigurationError(
                    f"{info.name} names no user: an IAM login (LOADER_IAM_AUTH) needs the account's name in it, "
                    "such as loader@my-project.iam"
                )
            if "user" in self._params:
                # Cloud SQL cuts the suffix off for Postgres and refuses the full address.
                self._params["user"] = self._params["user"].removesuffix(".gserviceaccount.com")
            if not os.environ.get("PGSSLMODE"):
                self._params.setdefault("sslmode", "require")  # the token must not cross the network in the clear

    def __repr__(self) -> str:
        return f"Database({self.describe()!r})"

    def describe(self) -> str:
        """Host, port, database and user, without a secret."""
        return self._info.describe()

    def connect(
        self, application_name: str, *, autocommit: bool = False, lock_timeout_ms: int | None = None
    ) -> LoaderConnection:
        """A new connection. `lock_timeout_ms` limits each wait for a lock; through a pooler only `set_local` can.

        Raises psycopg.OperationalError when the database cannot be reached, TokenUnavailable included."""
        params = {**self._params, "application_name": application_name, "client_encoding": "UTF8"}
        if self._token is not None:
            params["password"] = self._token()
        connection = LoaderConnection.connect(make_conninfo("", **params), autocommit=True, prepare_threshold=None)
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.deferrable = False
            _prepare_session(connection, lock_timeout_ms)
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection


def set_local(
    connection: psycopg.Connection[Any],
    *,
    lock_timeout_ms: int | None = None,
    statement_timeout_ms: int | None = None,
    idle_in_transaction_ms: int | None = None,
) -> None:
    """Limits for the transaction that is open, or that this statement opens; gone at its end. None leaves one alone."""
    limits = {
        "lock_timeout": lock_timeout_ms,
        "statement_timeout": statement_timeout_ms,
        "idle_in_transaction_session_timeout": idle_in_transaction_ms,
    }
    _set(connection, {name: f"{limit}ms" for name, limit in limits.items() if limit is not None}, local=True)


def _prepare_session(connection: LoaderConnection, lock_timeout_ms: int | None) -> None:
    _set(connection, {"TimeZone": "UTC", "DateStyle": "ISO, MDY"}, local=False)
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    # A pooler makes up the process id that it tells its clients, since it has no one process for them.
    connection.pooled = row is not None and row[0] != connection.info.backend_pid
    if not connection.pooled:
        limits = {
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_MS}ms",
            "default_transaction_isolation": "read committed",  # for single statements
            "quote_all_identifiers": "off",  # format_type would say "jsonb" in quotes, a type that is none
        }
        if lock_timeout_ms is not None:
            limits["lock_timeout"] = f"{lock_timeout_ms}ms"
        _set(connection, limits, local=False)


def _set(connection: psycopg.Connection[Any], values: dict[str, str], *, local: bool) -> None:
    if not values:
        return
    calls = sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, {})").format(sql.Literal(name), sql.Literal(value), sql.Literal(local))
        for name, value in values.items()
    )
    connection.execute(sql.SQL("SELECT {}").format(calls))
