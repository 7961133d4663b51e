"""Real processes for the tests of this folder: `python -m loader run`, an embedded Postgres and a Pub/Sub server.

`postgres` (session), `pubsub_process` (session; faults are cleared after each test)
`database` (each test): a `Database`: fresh and empty. `.url`, `.rows(sql)`, `.one(sql)`, `.until(sql, wanted)`,
    `.execute(sql)`; the dataset is `events`.
`topic` (each test): a `Topic`: a project with a topic and a subscription. `.publish(bodies)`, `.counts()`,
    `.until_settled()`: nothing waits and nothing is leased.
`worker` (each test): `worker(**settings)` starts a `Worker` process (settings are LOADER_* names without the prefix,
    in lower case; `environment` adds others). All are ended after the test.
`orders(count)` makes events with children, `assert_loaded(database, bodies)` compares contents, child rows too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from loader.local.postgres import Postgres, open_postgres
from loader.local.pubsub_process import PubsubProcess
from loader.pull import protocol as pb

sys.path.insert(0, str(Path(__file__).parent))

from system_harness import PATIENCE, ROOT, Database, Topic, Worker, check_orders, make_orders, settings_of, until


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with open_postgres(os.environ.get("LOADER_TEST_DATABASE_URL"), durable=False, max_connections=200) as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield Database(postgres.database_url(name))
    postgres.start()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def pubsub_process() -> Iterator[PubsubProcess]:
    with PubsubProcess() as server:
        yield server


@pytest.fixture
def topic(pubsub_process: PubsubProcess) -> Iterator[Topic]:
    made = Topic(pubsub_process)
    yield made
    pubsub_process.faults.clear()
    with made.channel:
        for found in made.stub.list_subscriptions(
            pb.ListSubscriptionsRequest(project=f"projects/{made.project}")
        ).subscriptions:
            made.stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=found.name))


@pytest.fixture
def start_topic() -> Iterator[Callable[[], Topic]]:
    """Makes a topic on a server of its own, which the test may kill."""
    made: list[Topic] = []

    def start() -> Topic:
        made.append(Topic(PubsubProcess().start()))
        return made[-1]

    yield start
    for each in made:
        each.channel.close()
        each.server.stop()


@pytest.fixture
def worker(database: Database, topic: Topic) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []
    usual = topic

    def start(environment: Mapping[str, str] | None = None, topic: Topic = usual, **settings: object) -> Worker:
        url = str(settings.pop("database_url", database.url))
        started.append(Worker({**settings_of(topic, url, **settings), **(environment or {})}))
        return started[-1]

    yield start
    for each in started:
        if each.alive:
            each.kill()
        each.process.stdout.close()  # type: ignore[union-attr]


@pytest.fixture
def command(topic: Topic, database: Database) -> Callable[..., tuple[int, str]]:
    """Runs the command to its end: exit code and everything it said."""

    def run(*arguments: str, environment: Mapping[str, str] | None = None, **settings: object) -> tuple[int, str]:
        url = str(settings.pop("database_url", database.url))
        answer = subprocess.run(
            [sys.executable, "-m", "loader", *arguments],
            cwd=ROOT,
            env={**settings_of(topic, url, **settings), **(environment or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return answer.returncode, answer.stdout + answer.stderr

    return run


@pytest.fixture
def http() -> Callable[[int, str], tuple[int, str]]:
    """Status and body of a path on a port of this machine."""

    def get(port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return get


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Any]:
    return until


@pytest.fixture
def orders() -> Callable[..., list[dict[str, Any]]]:
    return make_orders


@pytest.fixture
def assert_loaded() -> Callable[..., None]:
    return check_orders
