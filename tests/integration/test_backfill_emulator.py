"""A backfill by a seek on the official emulator, with a worker process that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psycopg
import pytest

from loader.errors import LoaderError
from loader.local.emulator import EmulatorProcess, find_emulator
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

TOPIC = "projects/backfill-test/topics/events"
SUBSCRIPTION = "projects/backfill-test/subscriptions/loader"

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


@pytest.fixture
def emulator():
    try:
        found = find_emulator()
    except LoaderError as missing:
        pytest.skip(str(missing))
    with EmulatorProcess(found) as process:
        yield process


def test_a_seek_on_the_official_emulator_brings_back_what_was_deleted(emulator, database_url):
    environment = {
        **os.environ,
        "PUBSUB_EMULATOR_HOST": emulator.endpoint,
        "LOADER_SUBSCRIPTION": SUBSCRIPTION,
        "LOADER_DATABASE_URL": database_url,
        "LOADER_WINDOW_SECONDS": "0.3",
        "LOADER_HTTP_PORT": "0",
        "LOADER_DEFAULT_TABLE": "orders",
    }
    channel = open_channel(emulator.endpoint)
    stub = Stub(channel)
    stub.create_topic(pb.Topic(name=TOPIC))
    stub.create_subscription(
        pb.Subscription(name=SUBSCRIPTION, topic=TOPIC, ack_deadline_seconds=60, retain_acked_messages=True)
    )
    messages = [pb.PubsubMessage(data=json.dumps({"n": n}).encode()) for n in range(100)]
    command = [sys.executable, "-m", "loader"]
    subprocess.run([*command, "snapshot", "create", "before"], env=environment, check=True, timeout=30)
    stub.publish(pb.PublishRequest(topic=TOPIC, messages=messages))
    worker = subprocess.Popen([*command, "run"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with psycopg.connect(database_url, autocommit=True) as conn:
            until_count(conn, 100)
            conn.execute("delete from events.orders where n < 70")
            done = backfill(command, environment, "--since", "10m")
            assert done.returncode == 0, done.stderr
            assert conn.execute("select count(*), count(distinct n) from events.orders").fetchall() == [(100, 100)]
            conn.execute("delete from events.orders where n < 70")
            # The emulator keeps no labels, which tell elsewhere whose snapshot it is.
            by_snapshot = backfill(command, environment, "--snapshot", "before")
            assert by_snapshot.returncode == 0, by_snapshot.stderr
            until_count(conn, 100)
    finally:
        worker.terminate()
        assert worker.wait(30) == 0
        channel.close()
    receipt = json.loads(done.stdout)["receipt"]
    assert (receipt["messages"], receipt["events_new"], receipt["events_there"]) == (100, 70, 30)


def until_count(conn, wanted):
    deadline = time.monotonic() + 60
    while True:
        try:
            if conn.execute("select count(*) from events.orders").fetchone() == (wanted,):
                return
        except psycopg.errors.UndefinedTable:
            pass
        assert time.monotonic() < deadline, "the worker did not load in time"
        time.sleep(0.05)


def backfill(command, environment, *arguments):
    return subprocess.run(
        [*command, "backfill", *arguments, "--yes", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=90,
    )
