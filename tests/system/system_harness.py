"""What the tests of this folder handle: a database, a topic, a worker process, and orders to compare.

Everything waits for events and conditions with a deadline, never for a time to pass."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGTERM
from typing import Any

import psycopg
import pytest

from loader.local.pubsub_process import PubsubProcess
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0


def until(condition: Callable[[], Any], what: Callable[[], str] | str, seconds: float = PATIENCE) -> Any:
    """Asks again until the condition holds; fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
    return result


class Database:
    """A database of one test."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def name(self) -> str:
        """Of the database."""
        return self.url.rpartition("/")[2]

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of its own, autocommit."""
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=None)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query answers. Tables are looked for in the dataset `events` first."""
        with self.connect() as connection:
            connection.execute("set search_path to events, public")
            return connection.execute(query.encode(), parameters or None).fetchall()

    def one(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """The only value."""
        [(value,)] = self.rows(query, parameters)
        return value

    def execute(self, *statements: str) -> None:
        """Statements, each committed on its own."""
        with self.connect() as connection:
            connection.execute("set search_path to events, public")
            for statement in statements:
                connection.execute(statement.encode())

    def count(self, table: str) -> int:
        """Rows of a table, 0 while it is not there."""
        try:
            return int(self.one(f'select count(*) from "{table}"'))
        except psycopg.errors.UndefinedTable:
            return 0

    def letters(self) -> int:
        """Open dead letters, 0 while there is no dataset."""
        try:
            return int(self.one("select count(*) from _dead_letters where resolved_at is null"))
        except psycopg.errors.UndefinedTable:
            return 0

    def until(self, query: str, wanted: Any = True, seconds: float = PATIENCE) -> None:
        """Waits for a query's only value; a table that is not there yet is waited for, too."""
        seen: list[Any] = [None]

        def reached() -> bool:
            try:
                seen[0] = self.one(query)
            except (psycopg.errors.UndefinedTable, psycopg.OperationalError) as error:
                seen[0] = error
                return False
            return bool(seen[0] == wanted)

        until(reached, lambda: f"{query} = {wanted!r}, last {seen[0]!r}", seconds)

    def until_count(self, table: str, wanted: int, seconds: float = PATIENCE) -> None:
        """Waits until a table has at least so many rows."""
        seen = [0]

        def reached() -> bool:
            try:
                seen[0] = self.count(table)
            except psycopg.OperationalError:
                return False
            return seen[0] >= wanted

        until(reached, lambda: f"{wanted} rows in {table}, last {seen[0]}", seconds)

    def until_waiting(self, application_name: str, seconds: float = PATIENCE) -> None:
        """Waits until a worker's connection waits for a lock."""
        self.until(
            "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'"
            f" and application_name like '{application_name}%' and datname = current_database()",
            True,
            seconds,
        )


class Topic:
    """A project of its own with one topic and one subscription."""

    def __init__(self, server: PubsubProcess) -> None:
        self.server = server
        self.project = f"test-{uuid.uuid4().hex[:12]}"
        self.name = f"projects/{self.project}/topics/events"
        self.channel = open_channel(server.endpoint)
        self.stub = Stub(self.channel)
        self.stub.create_topic(pb.Topic(name=self.name))
        self.subscription = self.subscribe("loader")

    def subscribe(self, short_name: str, **settings: Any) -> str:
        """Makes a subscription; returns its full name."""
        name = f"projects/{self.project}/subscriptions/{short_name}"
        settings.setdefault("ack_deadline_seconds", 60)
        self.stub.create_subscription(pb.Subscription(name=name, topic=self.name, **settings))
        return name

    def publish(self, bodies: Sequence[Any], attributes: Mapping[str, str] | None = None) -> None:
        """Publishes bytes as they are and anything else as JSON, at most 1,000 messages or 5 MB a request."""
        group: list[Any] = []
        size = 0
        for body in bodies:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            if group and (len(group) == 1_000 or size + len(data) > 5_000_000):
                self.stub.publish(pb.PublishRequest(topic=self.name, messages=group))
                group, size = [], 0
            group.append(pb.PubsubMessage(data=data, attributes=attributes or {}))
            size += len(data)
        if group:
            self.stub.publish(pb.PublishRequest(topic=self.name, messages=group))

    def pull(self, limit: int = 1_000) -> list[Any]:
        """What waits, at once; leased for 60 s."""
        request = pb.PullRequest(subscription=self.subscription, max_messages=limit, return_immediately=True)
        return list(self.stub.pull(request).received_messages)

    def counts(self, subscription: str | None = None) -> dict[str, int]:
        """The server's counts: backlog, leased, delivered, acked."""
        counts: dict[str, int] = self.server.faults.stats()["subscriptions"][subscription or self.subscription]
        return counts

    def expire_leases(self) -> None:
        """Ends the leases of a dead worker now rather than after 60 seconds."""
        self.server.faults.expire_leases()

    def until_leased(self, wanted: int) -> None:
        """Waits until so many messages are held by workers."""
        until(lambda: self.counts()["leased"] >= wanted, lambda: f"{wanted} leased, last {self.counts()}")

    def until_streams(self, wanted: int) -> None:
        """Waits until so many streams are open on the server."""
        stats = self.server.faults.stats
        until(lambda: stats()["streams"] >= wanted, lambda: f"{wanted} streams, last {stats()['streams']}")

    def until_count_settled(self, database: Database, table: str, rows: int) -> None:
        """Waits until a table has so many rows and everything is acked."""
        database.until_count(table, rows)
        self.until_settled()

    def until_settled(self, seconds: float = PATIENCE, subscription: str | None = None) -> None:
        """Waits until nothing is left to deliver or to ack."""

        def settled() -> bool:
            counts = self.counts(subscription)
            return counts["backlog"] == 0 and counts["leased"] == 0

        until(settled, lambda: f"everything acked, last {self.counts(subscription)}", seconds)

    def restart(self) -> None:
        """Kills the server and starts an empty one at the same address, with this topic and subscription."""
        self.channel.close()
        self.server.kill()
        self.server.start()
        self.channel = open_channel(self.server.endpoint)
        self.stub = Stub(self.channel)
        self.stub.create_topic(pb.Topic(name=self.name))
        self.subscription = self.subscribe("loader")


class Worker:
    """A `loader run` process and what it said."""

    def __init__(self, environment: Mapping[str, str], arguments: Sequence[str] = ("run",)) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loader", *arguments],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        """Everything said so far."""
        return "\n".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.lines.append("")
            self._news.notify_all()

    def until_said(self, text: str, seconds: float = PATIENCE) -> str:
        """Waits for a line that holds the text."""
        found: list[str] = []

        def said() -> bool:
            found[:] = [line for line in self.lines if text in line]
            return bool(found) or (bool(self.lines) and self.lines[-1] == "")

        with self._news:
            self._news.wait_for(said, seconds)
        if not found:
            pytest.fail(f"{text!r} was not said; said was:\n{self.output}")
        return found[0]

    def until_started(self) -> Worker:
        """Waits until it loads."""
        self.until_said(" loads projects/")
        return self

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and waits for the end."""
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Waits for the end; the exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the worker did not end within {seconds:g} s; it said:\n{self.output}")
        self._reader.join(10)
        return code

    def nap(self, seconds: float = 0.02) -> None:
        """Waits a little, or until the end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def stop(self, number: int = SIGTERM, seconds: float = PATIENCE) -> tuple[int, float]:
        """Signal and wait: exit code and how long it took."""
        started = time.monotonic()
        self.signal(number)
        return self.wait(seconds), time.monotonic() - started

    def memory(self, name: str = "VmHWM") -> int:
        """Resident bytes: the most there were (VmHWM), or now (VmRSS). Linux only."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:")]
        return int(kilobytes) * 1024

    def remotes(self) -> set[tuple[str, int]]:
        """Remote ends of the process' open TCP and UDP sockets over IPv4; anything over IPv6 by its raw text."""
        inodes = set()
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                inodes.add(os.readlink(link))
        found = set()
        for kind in ("tcp", "udp", "tcp6", "udp6"):
            for line in Path(f"/proc/{self.pid}/net/{kind}").read_text().splitlines()[1:]:
                fields = line.split()
                host, _, port = fields[2].partition(":")
                if f"socket:[{fields[9]}]" not in inodes or int(port, 16) == 0:
                    continue
                raw = bytes.fromhex(host)[::-1]
                if len(raw) == 16 and raw[4:8] == b"\xff\xff\x00\x00"[::-1]:
                    raw = raw[:4]
                found.add((".".join(map(str, raw)), int(port, 16)))
        return found

    def cpu(self) -> float:
        """CPU seconds spent so far. Linux only."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settings_of(topic: Topic, database_url: str, **settings: object) -> dict[str, str]:
    """A worker's environment: short windows, no HTTP server unless asked for."""
    found: dict[str, object] = {
        "subscription": topic.subscription,
        "database_url": database_url,
        "window_seconds": 0.3,
        "table_key": "kind",
        "http_port": 0,
        **settings,
    }
    environment = {f"LOADER_{name.upper()}": str(value) for name, value in found.items() if value is not None}
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**base, "PUBSUB_EMULATOR_HOST": topic.server.endpoint, "PYTHONPATH": str(ROOT), **environment}


def make_orders(count: int, start: int = 0, kind: str = "order", **extra: Any) -> list[dict[str, Any]]:
    """Events with two children each and a text that tells them apart."""
    return [
        {
            "kind": kind,
            "number": number,
            "text": f"{kind} {number} äöü\t\\ {'x' * (number % 50)}",
            "amount": number / 8,
            "items": [{"sku": f"s{number}-{index}", "count": index} for index in range(2)],
            **extra,
        }
        for number in range(start, start + count)
    ]


def _difference(found: Counter[Any], wanted: Counter[Any]) -> str:
    missing, added = wanted - found, found - wanted
    return (
        f"{missing.total()} missing, such as {list(missing)[:3]}; {added.total()} too many, such as {list(added)[:3]}"
    )


def check_orders(database: Database, bodies: Sequence[Mapping[str, Any]], letters: int = 0) -> None:
    """Every event is exactly one row with its exact values and its own children, and nothing else is there."""
    wanted: dict[str, Counter[Any]] = {}
    children: dict[str, Counter[Any]] = {}
    for body in bodies:
        kind = body["kind"]
        wanted.setdefault(kind, Counter())[(body["number"], body["text"], body["amount"])] += 1
        for index, item in enumerate(body["items"]):
            children.setdefault(kind, Counter())[(body["number"], index, item["sku"], item["count"])] += 1
    for kind, expected in wanted.items():
        found = Counter(database.rows(f'select number, text, amount from "{kind}"'))
        assert found == expected, f"{kind}: {_difference(found, expected)}"
        rows = database.rows(
            f'select r.number, c._dlt_list_idx, c.sku, c.count from "{kind}__items" c'
            f' left join "{kind}" r on r._dlt_id = c._dlt_parent_id'
        )
        found = Counter(rows)
        assert found == children[kind], f"{kind}__items: {_difference(found, children[kind])}"
    assert database.letters() == letters
    # Each load id in a table has its `_dlt_loads` row: a load is there as a whole.
    for kind in wanted:
        loads = f'select distinct _dlt_load_id from "{kind}" except select load_id from _dlt_loads'
        assert database.rows(loads) == []
