"""The servers that the demo runs on: Pub/Sub and Postgres, with a topic, a subscription and a dataset of its own.

Kafka and the bridge before them are in kafka.py: they are there only with the extra `bridge`."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import psycopg

from loader.errors import LoaderError
from loader.local.emulator import EmulatorProcess, find_emulator
from loader.local.postgres import open_postgres
from loader.local.pubsub_process import PubsubProcess
from loader.local.stack import Stack
from loader.pull import protocol as pb
from loader.pull.channel import EMULATOR_VARIABLE, Stub, emulator, open_channel

KEPT = Path(".local/demo")
"""Where `--keep` leaves the servers' data and logs, below the current folder."""
PROJECT = "demo"


@dataclasses.dataclass(frozen=True)
class Parts:
    """Servers that run, and the names that this demo uses on them."""

    pubsub: str
    """Which Pub/Sub it is, for people."""
    postgres: str
    """Which Postgres it is, for people."""
    endpoint: str
    database_url: str
    dataset: str
    topic: str
    subscription: str
    folder: Path | None = None
    """Set if the servers stay: where `loader local down --dir` finds them."""
    data: Path | None = None
    """Where Postgres keeps its data then: elsewhere if its account cannot reach `folder`."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point every command of the loader at these parts."""
        return {
            EMULATOR_VARIABLE: self.endpoint,
            "LOADER_SUBSCRIPTION": self.subscription,
            "LOADER_DATABASE_URL": self.database_url,
            "LOADER_DATASET": self.dataset,
            "LOADER_TABLE_KEY": "type",
            "LOADER_TABLE_ATTRIBUTE": "table",
            "LOADER_EVENT_ID_ATTRIBUTE": "event_id",
            "LOADER_JSON_KEYS": "gps_links.path",
        }


@contextmanager
def temporary() -> Iterator[Parts]:
    """Servers that go, with all their data, when the block ends."""
    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(_temporary_pubsub, stack)
            # Both at once: each takes a second or two.
            postgres = stack.enter_context(open_postgres(durable=False))
            endpoint, origin = waiting.result()
        parts = _with_names(endpoint, origin, postgres.url, postgres.origin)
        if endpoint == emulator():
            stack.callback(_remove_names, parts)
        yield parts


@contextmanager
def kept(folder: Path = KEPT) -> Iterator[Parts]:
    """Servers that stay when the block ends well; those of an earlier demo in the same folder are used again."""
    stack = Stack(folder)
    ran = any(entry["running"] for entry in stack.status().values())
    try:
        state = stack.up()
        pubsub, postgres = state["pubsub"], state["postgres"]
        parts = _with_names(pubsub["endpoint"], pubsub["origin"], postgres["url"], postgres["origin"])
        yield dataclasses.replace(parts, folder=folder, data=Path(postgres["folder"]))
    except BaseException:
        # Nobody has been told of them, unless they ran before.
        if not ran:
            stack.down()
        raise


def _temporary_pubsub(stack: ExitStack) -> tuple[str, str]:
    """PUBSUB_EMULATOR_HOST if set, else the official emulator if installed, else the in-memory server."""
    given = emulator()
    if given:
        return given, f"the emulator at {given} ({EMULATOR_VARIABLE})"
    try:
        found = find_emulator()
    except LoaderError:
        return stack.enter_context(PubsubProcess()).endpoint, "the in-memory server"
    return stack.enter_context(EmulatorProcess(found)).endpoint, f"the official emulator {found.version}"


def _with_names(endpoint: str, pubsub: str, url: str, postgres: str) -> Parts:
    """A dataset, topic and subscription that nobody used before, so that the receipt is about this demo alone."""
    name = _free_dataset(url)
    # The emulator may be somebody's own and serve other demos: names there are never used twice.
    suffix = uuid.uuid4().hex[:8]
    topic = f"projects/{PROJECT}/topics/shop-events-{suffix}"
    subscription = f"projects/{PROJECT}/subscriptions/shop-events-{suffix}-loader"
    with open_channel(endpoint) as channel:
        stub = Stub(channel)
        try:
            stub.create_topic(pb.Topic(name=topic))
            stub.create_subscription(pb.Subscription(name=subscription, topic=topic, ack_deadline_seconds=60))
        except grpc.RpcError as error:
            remedy = (
                f" Unset {EMULATOR_VARIABLE} to use a server of the demo's own."
                if os.environ.get(EMULATOR_VARIABLE)
                else ""
            )
            raise LoaderError(f"Pub/Sub at {endpoint} does not make {topic}: {error.code().name}.{remedy}") from error
    return Parts(pubsub, postgres, endpoint, url, name, topic, subscription)


def _remove_names(parts: Parts) -> None:
    """Leaves somebody else's emulator as it was."""
    with open_channel(parts.endpoint) as channel:
        stub = Stub(channel)
        try:
            stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=parts.subscription))
            stub.delete_topic(pb.DeleteTopicRequest(topic=parts.topic))
        except grpc.RpcError as error:
            raise LoaderError(
                f"Pub/Sub at {parts.endpoint} does not delete {parts.topic}: {error.code().name}"
            ) from error


def _free_dataset(url: str) -> str:
    with psycopg.connect(url, connect_timeout=10) as connection:
        taken = {row[0] for row in connection.execute("select nspname from pg_catalog.pg_namespace")}
    return next(name for name in ("demo", *(f"demo_{number}" for number in range(2, 10_000))) if name not in taken)
