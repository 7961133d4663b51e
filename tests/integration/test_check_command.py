from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid

import psycopg
import pytest
from psycopg import sql

from loader.checks.database import inspect_database
from loader.checks.subscription import inspect_subscription
from loader.database.connection import Database
from loader.database.conninfo import ConnectionInfo, parse_conninfo


def check(*arguments, **environ):
    return subprocess.run(
        [sys.executable, "-m", "loader", "check", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**{name: value for name, value in os.environ.items() if not name.startswith("LOADER_TEST_")}, **environ},
    )


def test_all_is_well_on_a_fresh_subscription_and_database(pubsub, database_url):
    done = check(
        "--json", LOADER_SUBSCRIPTION=pubsub.subscription, LOADER_DATABASE_URL=database_url, **pubsub.environment
    )
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (0, True), document
    assert {finding["area"] for finding in document["findings"]} == {"settings", "subscription", "database"}


def test_a_missing_subscription_and_a_missing_database_are_both_told(pubsub, database_url):
    done = check(
        LOADER_SUBSCRIPTION=pubsub.subscription + "-not",
        LOADER_DATABASE_URL=database_url + "_not",
        **pubsub.environment,
    )
    assert done.returncode == 1
    assert "does not exist" in done.stdout
    assert "loader run --create makes it" in done.stdout
    assert "_not" in done.stdout


def test_an_emulator_that_is_down_is_told(pubsub, database_url):
    done = check(
        LOADER_SUBSCRIPTION=pubsub.subscription, LOADER_DATABASE_URL=database_url, PUBSUB_EMULATOR_HOST="127.0.0.1:1"
    )
    assert done.returncode == 1
    assert "the emulator at 127.0.0.1:1 (PUBSUB_EMULATOR_HOST) does not answer" in done.stdout
    assert "loader local up" in done.stdout


def test_policies_that_take_messages_away_are_found(pubsub):
    name = pubsub.subscribe("policies", retry_policy={"minimum_backoff": {"seconds": 10}})
    findings = {finding.subject: finding for finding in inspect_subscription(pubsub.stub, name)}
    assert findings["retry policy"].status == "warning"


@pytest.fixture
def stranger(database_url):
    """A role without rights, the URL of the database as it, and an admin's connection."""
    role = f'Odd"{uuid.uuid4().hex[:12]}'
    name = parse_conninfo(database_url, {}).params["dbname"]
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(role)))
        params = {**parse_conninfo(database_url, {}).params, "user": role, "password": "x"}
        yield Database(ConnectionInfo(params)), admin
        admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
        admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM {}").format(*map(sql.Identifier, (name, role))))
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_the_grants_that_are_printed_are_the_ones_that_help(stranger):
    database, admin = stranger
    for prepare in (
        "SELECT 1",
        'CREATE SCHEMA "Ev"',
        'CREATE TABLE "Ev".a (_dlt_id text); CREATE TABLE "Ev".b (_dlt_id text)',
    ):
        admin.execute(prepare)
        findings = inspect_database(database, "Ev")
        grants = [finding.advice for finding in findings if finding.subject == "rights" and finding.status == "fault"]
        assert grants
        for grant in grants:
            admin.execute(grant)
        again = inspect_database(database, "Ev")
        assert [finding for finding in again if finding.status == "fault"] == []


def test_a_read_only_database_is_found(database_url):
    name = parse_conninfo(database_url, {}).params["dbname"]
    with psycopg.connect(database_url, autocommit=True) as admin:
        statement = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
        admin.execute(statement.format(sql.Identifier(name)))
    findings = inspect_database(Database(parse_conninfo(database_url, {})), "events")
    assert any("read-only" in finding.found for finding in findings if finding.status == "fault")


def test_tables_of_another_dlt_pipeline_are_found(database_url):
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA old; CREATE TABLE old.tasks (_dlt_id text, _dlt_load_id text)")
    findings = inspect_database(Database(parse_conninfo(database_url, {})), "old")
    assert any("loader adopt" in finding.advice for finding in findings)
