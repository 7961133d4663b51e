"""The database: reachable, of a version and encoding that will do, and open to what the loader does in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from loader.checks.finding import Finding
from loader.database.connection import Database

AREA = "database"
LEAST_VERSION = 120_000  # older ones get no security fixes and lack generated columns' catalog fields


@dataclass(frozen=True, slots=True)
class Facts:
    """What one connection was told; names as they are, unquoted."""

    version: int
    encoding: str
    user: str
    database: str
    read_only: bool
    standby: bool
    encrypted: bool
    local: bool
    pooled: bool
    schema_exists: bool
    may_create_schema: bool
    may_use_schema: bool
    may_create_in_schema: bool
    tables: int
    not_readable: int
    """Tables of the dataset without SELECT or INSERT for this user."""
    foreign_owners: tuple[str, ...]
    """Owners of its tables whose rights this user does not have, superusers apart: only an owner adds a column."""
    superusers_tables: tuple[str, ...]
    """Tables that a superuser owns: to become a member of that role would be far too much."""
    without_identity: int
    """Root tables that another dlt pipeline wrote: they lack `_event_id`."""


def inspect_database(database: Database, dataset: str) -> list[Finding]:
    """Connect, ask and judge; a database that cannot be reached is a finding, not an error. Changes nothing."""
    try:
        with database.connect("loader-check") as connection:
            facts = read_facts(connection, dataset, pooled=connection.pooled)
            connection.rollback()
    except psycopg.Error as error:
        text = " ".join(str(error).split())
        advice = "start the server, or correct address, user and password (LOADER_DATABASE_URL, or PGHOST …)"
        return [Finding(AREA, "reachable", "fault", f"{database.describe()}: {text}", advice)]
    return [Finding(AREA, "reachable", "ok", database.describe()), *judge_database(facts, dataset)]


def judge_database(facts: Facts, dataset: str) -> list[Finding]:
    """Findings about what the connection was told; a missing right comes with the exact GRANT."""
    version = f"{facts.version // 10_000}.{facts.version % 10_000}"
    findings = [
        Finding(AREA, "version", "ok", f"PostgreSQL {version}")
        if facts.version >= LEAST_VERSION
        else Finding(AREA, "version", "fault", f"PostgreSQL {version}", "12 or newer is needed")
    ]
    if facts.encoding != "UTF8":
        advice = "make the database with ENCODING 'UTF8'"
        findings.append(Finding(AREA, "encoding", "fault", f"{facts.encoding} cannot hold every character", advice))
    if facts.standby:
        findings.append(
            Finding(AREA, "writable", "fault", "a standby, which takes no rows", "use the primary's address")
        )
    elif facts.read_only:
        advice = "see default_transaction_read_only of the server, the database and the user"
        findings.append(Finding(AREA, "writable", "fault", "transactions are read-only", advice))
    if not facts.local:
        findings.append(
            Finding(AREA, "encryption", "ok", "TLS")
            if facts.encrypted
            else Finding(
                AREA, "encryption", "warning", "the connection is in the clear", "add sslmode=require to the URL"
            )
        )
    if facts.pooled:
        findings.append(Finding(AREA, "pooler", "ok", "a transaction pooler is in between"))
    missing = missing_grants(facts, dataset)
    rights = "may create and insert" if facts.schema_exists else f"may create the schema {dataset}"
    findings += [Finding(AREA, "rights", "fault", found, grant) for found, grant in missing]
    if not missing:
        findings.append(Finding(AREA, "rights", "ok", f"{facts.user} {rights}"))
    if facts.without_identity:
        findings.append(
            Finding(
                AREA,
                "dataset",
                "warning",
                f"{facts.without_identity} tables of {dataset} were written by another dlt pipeline",
                "loader adopt prepares them; their rows stay",
            )
        )
    return findings


def missing_grants(facts: Facts, dataset: str) -> list[tuple[str, str]]:
    """What this user may not do, each with the statement that lets it."""
    schema, user, database = _quote(dataset), _quote(facts.user), _quote(facts.database)
    missing = []
    if not facts.schema_exists:
        if not facts.may_create_schema:
            found = f"{facts.user} may not create the schema {dataset}"
            missing.append((found, f"GRANT CREATE ON DATABASE {database} TO {user};"))
        return missing
    rights = [
        right for right, held in (("USAGE", facts.may_use_schema), ("CREATE", facts.may_create_in_schema)) if not held
    ]
    if rights:
        found = f"{facts.user} may not {'use' if 'USAGE' in rights else 'create tables in'} the schema {dataset}"
        missing.append((found, f"GRANT {', '.join(rights)} ON SCHEMA {schema} TO {user};"))
    if facts.not_readable:
        found = f"{facts.user} may not read and insert in {facts.not_readable} of {facts.tables} tables of {dataset}"
        missing.append((found, f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {user};"))
    for owner in facts.foreign_owners:
        found = f"{facts.user} may not add columns to the tables of {owner} in {dataset}"
        missing.append((found, f"GRANT {_quote(owner)} TO {user};"))
    if facts.superusers_tables:
        found = f"{facts.user} may not add columns to {len(facts.superusers_tables)} tables of a superuser in {dataset}"
        names = [f"{schema}.{_quote(table)}" for table in facts.superusers_tables]
        missing.append((found, " ".join(f"ALTER TABLE {name} OWNER TO {user};" for name in names)))
    return missing


def read_facts(connection: psycopg.Connection[Any], dataset: str, *, pooled: bool) -> Facts:
    """Ask the catalog; needs no right beyond connecting."""
    row = _one(connection, _SERVER, (dataset, dataset, dataset))
    tables = _one(connection, _TABLES, (dataset,))
    info = connection.info
    return Facts(
        version=info.server_version,
        encoding=row["encoding"],
        user=row["user"],
        database=row["database"],
        read_only=row["read_only"],
        standby=row["standby"],
        encrypted=info.pgconn.ssl_in_use,
        local=info.host.startswith("/") or (info.hostaddr or info.host) in ("127.0.0.1", "::1", "localhost", ""),
        pooled=pooled,
        schema_exists=row["schema_exists"],
        may_create_schema=row["may_create_schema"],
        may_use_schema=bool(row["may_use_schema"]),
        may_create_in_schema=bool(row["may_create_in_schema"]),
        tables=tables["tables"],
        not_readable=tables["not_readable"],
        foreign_owners=tuple(tables["foreign_owners"]),
        superusers_tables=tuple(tables["superusers_tables"]),
        without_identity=tables["without_identity"],
    )


def _one(connection: psycopg.Connection[Any], query: str, parameters: tuple[Any, ...]) -> dict[str, Any]:
    from psycopg.rows import dict_row

    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(query, parameters).fetchone()  # type: ignore[arg-type]
    assert row is not None  # both queries aggregate or select constants
    return row


def _quote(name: str) -> str:
    return sql.Identifier(name).as_string(None)


_SERVER = """
SELECT current_setting('server_encoding') AS encoding, current_user AS "user", current_database() AS database,
    current_setting('transaction_read_only')::boolean AS read_only, pg_is_in_recovery() AS standby,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    EXISTS (SELECT FROM pg_namespace WHERE nspname = %s) AS schema_exists,
    (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s) AS may_use_schema,
    (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s) AS may_create_in_schema
"""

# A root table of dlt has _dlt_load_id; its child tables have _dlt_parent_id instead.
_TABLES = """
WITH tables AS (
    SELECT c.oid, c.relname, r.rolname, r.rolsuper, NOT pg_has_role(r.oid, 'USAGE') AS foreign_owner, array(
        SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            AND a.attname IN ('_dlt_id', '_dlt_load_id', '_event_id')
    ) AS marks
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p')
)
SELECT count(*) AS tables,
    count(*) FILTER (WHERE NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')))
        AS not_readable,
    coalesce(array_agg(DISTINCT rolname::text ORDER BY rolname::text)
        FILTER (WHERE foreign_owner AND NOT rolsuper), '{}') AS foreign_owners,
    coalesce(array_agg(relname::text ORDER BY relname::text) FILTER (WHERE foreign_owner AND rolsuper), '{}')
        AS superusers_tables,
    count(*) FILTER (WHERE marks @> '{_dlt_id,_dlt_load_id}' AND NOT marks @> '{_event_id}') AS without_identity
FROM tables
"""
