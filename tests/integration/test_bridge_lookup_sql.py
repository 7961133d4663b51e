"""A lookup by SQL on a real Postgres: rows as JSON would have them, read-only, bounded in time."""

from __future__ import annotations

import psycopg
import pytest

from loader.bridge.config.model import Lookup, Place
from loader.bridge.lookups.state import FetchFailed, fetch


def lookup(url: str, query: str, timeout: float = 10.0) -> Lookup:
    return Lookup("l", "sql", 30.0, {"dsn": url, "query": query, "key": ("id",), "timeout": timeout}, Place("f", 1))


def test_rows_are_found_by_their_key_with_values_as_json_has_them(database_url):
    query = (
        "SELECT 7::bigint AS id, 'gold' AS tier, 1.50::numeric AS price, '2026-01-02'::date AS since, "
        """'{"a":1}'::jsonb AS j"""
    )
    assert fetch(lookup(database_url, query)) == {
        "7": {"id": 7, "tier": "gold", "price": "1.50", "since": "2026-01-02", "j": {"a": 1}}
    }


def test_a_query_that_writes_is_a_failed_fetch_and_writes_nothing(database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int)")
        with pytest.raises(FetchFailed, match="25006"):
            fetch(lookup(database_url, "INSERT INTO t VALUES (1) RETURNING id"))
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_query_that_takes_too_long_is_a_failed_fetch(database_url):
    with pytest.raises(FetchFailed, match="57014"):
        fetch(lookup(database_url, "SELECT 1 AS id FROM pg_sleep(60)", timeout=0.1))


def test_a_faulty_query_is_named_by_its_code(database_url):
    with pytest.raises(FetchFailed, match=r"42P01, relation .* does not exist"):
        fetch(lookup(database_url, "SELECT id FROM nope"))
