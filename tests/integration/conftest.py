"""Servers for the tests of this folder.

`postgres` (session): a running loader.local.postgres server: `.url`, `.version`, `.origin`, and for an embedded one
    `.kill()`, `.start()`, `.restart()` (same port, same data; leave it running), `.database_url(name)`.
    LOADER_TEST_DATABASE_URL=postgresql://… uses that server instead; LOADER_TEST_POSTGRES=wheel|local chooses.
`database_url` (each test): URL of a fresh, empty database; dropped afterwards with its connections.
`pubsub_server` (session): the in-memory Pub/Sub server, in this process.
`pubsub` (each test): a `Pubsub`: fresh project with a topic and a subscription on that server.
    `.endpoint`, `.environment` (for a child process), `.project`, `.topic`, `.subscription` (full names), `.stub`
    (loader.pull.channel.Stub), `.publish([...])`, `.pull(n)`, `.ack(messages)`, `.subscribe(id, **settings)`,
    `.counts()` (backlog, leased, retained, delivered, acked), `.faults` (loader.local.faults.Faults: cut_streams,
    refuse, duplicate, delay, silence, drop_acks; cleared after the test).
`pubsub_process` (each test): a server process of its own (loader.local.pubsub_process): `.endpoint`, `.kill()`,
    `.start()` (same port, empty), `.faults`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from loader.local.faults import Faults
from loader.local.installation import find_installation
from loader.local.postgres import EmbeddedPostgres, Postgres, open_postgres
from loader.local.pubsub_process import PubsubProcess
from loader.local.pubsub_server import PubsubServer
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel


class Pubsub:
    """A project of its own on a Pub/Sub server, with one topic and one subscription."""

    def __init__(self, endpoint: str, faults: Faults | None) -> None:
        self.endpoint = endpoint
        self.environment = {"PUBSUB_EMULATOR_HOST": endpoint}
        self.faults: Any = faults
        self.project = f"test-{uuid.uuid4().hex[:12]}"
        self.topic = f"projects/{self.project}/topics/events"
        self.channel = open_channel(endpoint)
        self.stub = Stub(self.channel)
        self.stub.create_topic(pb.Topic(name=self.topic))
        self.subscription = self.subscribe("events-loader")

    def subscribe(self, short_name: str, **settings: Any) -> str:
        """Makes another subscription of the topic; returns its full name."""
        name = f"projects/{self.project}/subscriptions/{short_name}"
        settings.setdefault("ack_deadline_seconds", 60)
        self.stub.create_subscription(pb.Subscription(name=name, topic=self.topic, **settings))
        return name

    def publish(self, bodies: Sequence[bytes | str], attributes: Mapping[str, str] | None = None) -> list[str]:
        """Publishes bodies, 1,000 a request; returns the message ids."""
        ids: list[str] = []
        for start in range(0, len(bodies), 1_000):
            messages = [
                pb.PubsubMessage(data=body.encode() if isinstance(body, str) else body, attributes=attributes or {})
                for body in bodies[start : start + 1_000]
            ]
            ids += self.stub.publish(pb.PublishRequest(topic=self.topic, messages=messages)).message_ids
        return ids

    def pull(self, limit: int = 1_000, subscription: str | None = None, wait: bool = True) -> list[Any]:
        """One unary pull: ReceivedMessages. Without `wait` it answers at once, with none if there are none."""
        request = pb.PullRequest(
            subscription=subscription or self.subscription, max_messages=limit, return_immediately=not wait
        )
        return list(self.stub.pull(request).received_messages)

    def ack(self, messages: Sequence[Any], subscription: str | None = None) -> None:
        """Acks pulled messages."""
        ids = [message.ack_id for message in messages]
        self.stub.acknowledge(pb.AcknowledgeRequest(subscription=subscription or self.subscription, ack_ids=ids))

    def counts(self, subscription: str | None = None) -> dict[str, int]:
        """The server's counts of a subscription."""
        counts: dict[str, int] = self.faults.stats()["subscriptions"][subscription or self.subscription]
        return counts

    def close(self) -> None:
        """Ends faults, deletes the project's parts and closes the channel."""
        if self.faults is not None:
            self.faults.clear()
        for name in self.stub.list_subscriptions(
            pb.ListSubscriptionsRequest(project=f"projects/{self.project}")
        ).subscriptions:
            self.stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=name.name))
        for topic in self.stub.list_topics(pb.ListTopicsRequest(project=f"projects/{self.project}")).topics:
            self.stub.delete_topic(pb.DeleteTopicRequest(topic=topic.name))
        self.channel.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    url, kind = os.environ.get("LOADER_TEST_DATABASE_URL"), os.environ.get("LOADER_TEST_POSTGRES")
    server: Postgres
    if kind and not url:
        server = EmbeddedPostgres(installation=find_installation(kind), durable=False, max_connections=200)
    else:
        server = open_postgres(url, durable=False, max_connections=200)
    with server:
        yield server


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield postgres.database_url(name)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def pubsub_server() -> Iterator[PubsubServer]:
    with PubsubServer() as server:
        yield server


@pytest.fixture
def pubsub(pubsub_server: PubsubServer) -> Iterator[Pubsub]:
    project = Pubsub(pubsub_server.endpoint, pubsub_server.faults)
    yield project
    project.close()


@pytest.fixture
def pubsub_process() -> Iterator[PubsubProcess]:
    with PubsubProcess() as server:
        yield server
