"""Pub/Sub and Postgres on this machine as background processes, remembered in a folder: `loader local`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from loader.errors import LoaderError
from loader.local.emulator import EmulatorProcess, find_emulator
from loader.local.postgres import EmbeddedPostgres, ExistingPostgres
from loader.local.process import end, identity
from loader.local.pubsub_process import PubsubProcess
from loader.pull import protocol as pb
from loader.pull.channel import EMULATOR_VARIABLE, Stub, fault, open_channel

PROJECT = "local"
TOPIC = f"projects/{PROJECT}/topics/events"
SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/events-loader"
PUBSUB_KINDS = ("auto", "memory", "official")
State = dict[str, dict[str, Any]]


class Stack:
    """What runs, by the file `state.json` of the folder; `pubsub` and `postgres` each have an entry.

    An entry stays after `down` without its `pid`: the same port is taken again, so that a shell's variables stay right.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._file = self.folder / "state.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One `up` or `down` of a folder at a time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> State:
        try:
            state: State = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise LoaderError(
                f"{self._file} is damaged ({error}): end the processes yourself and remove it."
            ) from error
        return state

    def _write(self, state: State) -> None:
        # Moved into place: a crash leaves the old state or the new one. It holds a password.
        aside = self._file.with_suffix(".new")
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(state, file, indent=2)
        aside.replace(self._file)

    def up(self, pubsub: str = "auto", database_url: str | None = None) -> State:
        """Starts what does not run; returns the state. Raises LoaderError when something cannot be had or started."""
        with self._locked():
            state = self._read()
            # Each is remembered as soon as it runs: a failure of the second must not orphan the first.
            state["pubsub"] = self._pubsub(state.get("pubsub", {}), pubsub)
            self._write(state)
            state["postgres"] = self._postgres(state.get("postgres", {}), database_url)
            self._write(state)
            _make_subscription(state["pubsub"]["endpoint"])
            return state

    def _pubsub(self, known: dict[str, Any], kind: str) -> dict[str, Any]:
        if kind not in PUBSUB_KINDS:
            raise LoaderError(f"--pubsub {kind} is unknown: use {', '.join(PUBSUB_KINDS)}.")
        if _running(known):
            if kind in ("auto", known["kind"]):
                return known
            raise LoaderError(f"The {known['kind']} Pub/Sub server runs here already: `loader local down` first.")
        given = os.environ.get(EMULATOR_VARIABLE, "").strip()
        if kind == "auto" and given and given != known.get("endpoint"):
            return {"kind": "given", "endpoint": given, "origin": f"the emulator at {EMULATOR_VARIABLE}"}
        port = known.get("port", 0)
        log = self.folder / "pubsub.log"
        if kind == "official" or (kind == "auto" and _emulator_installed()):
            emulator = find_emulator()
            official = EmulatorProcess(emulator, port, log)
            return _entry(official, "official", f"the official emulator {emulator.version}")
        return _entry(PubsubProcess(port, log=log), "memory", "the in-memory server")

    def _postgres(self, known: dict[str, Any], url: str | None) -> dict[str, Any]:
        if url:
            if _running(known):
                raise LoaderError("A Postgres server runs here already: `loader local down` first.")
            return {"kind": "given", "origin": ExistingPostgres(url).origin, "url": url}
        if _running(known):
            return known
        server = EmbeddedPostgres(self.folder / "postgres", port=known.get("port", 0), detached=True)
        entry = _entry(server, "embedded", server.origin)
        return {**entry, "url": server.url, "folder": str(server.folder), "sockets": str(server.sockets)}

    def down(self) -> list[str]:
        """Ends what `up` started, if it is still that process; returns what was ended. Data of Postgres stay."""
        with self._locked():
            state = self._read()
            ended = []
            for name, first in (("pubsub", signal.SIGTERM), ("postgres", signal.SIGINT)):
                entry = state.get(name, {})
                pid, known = entry.pop("pid", None), entry.pop("identity", None)
                if pid is not None and end(pid, known, first):
                    ended.append(f"{name} ({entry['origin']})")
                for temporary in (entry.pop("sockets", None), entry.pop("scratch", None)):
                    if temporary:
                        shutil.rmtree(temporary, ignore_errors=True)
            if state:
                self._write(state)
            return ended

    def status(self) -> State:
        """The state with `running` in each entry: None for a server that was given and is not ours to watch."""
        state = self._read()
        for entry in state.values():
            entry["running"] = None if entry.get("kind") == "given" else _running(entry)
        return state


def environment(state: State) -> dict[str, str]:
    """The variables that point the other commands at a stack that is up."""
    return {
        EMULATOR_VARIABLE: state["pubsub"]["endpoint"],
        "LOADER_SUBSCRIPTION": SUBSCRIPTION,
        "LOADER_DATABASE_URL": state["postgres"]["url"],
    }


def _emulator_installed() -> bool:
    try:
        find_emulator()
    except LoaderError:
        return False
    return True


def _entry(server: PubsubProcess | EmulatorProcess | EmbeddedPostgres, kind: str, origin: str) -> dict[str, Any]:
    """Starts a server; what is to be remembered of it. The port that it had before may be taken by now."""
    server.start()
    entry: dict[str, Any] = {"kind": kind, "origin": origin, "port": server.port}
    if not isinstance(server, EmbeddedPostgres):
        entry["endpoint"] = server.endpoint
    if isinstance(server, EmulatorProcess):
        entry["scratch"] = server.scratch
    return {**entry, "pid": server.pid, "identity": identity(server.pid)}


def _running(entry: dict[str, Any]) -> bool:
    pid = entry.get("pid")
    return pid is not None and identity(pid) == entry.get("identity")


def _make_subscription(endpoint: str) -> None:
    """Makes topic and subscription unless they are there: acked messages are kept for a day, to be loaded again."""
    channel = open_channel(endpoint)
    try:
        stub = Stub(channel)
        calls = (
            (stub.create_topic, pb.Topic(name=TOPIC)),
            (
                stub.create_subscription,
                pb.Subscription(
                    name=SUBSCRIPTION,
                    topic=TOPIC,
                    ack_deadline_seconds=60,
                    retain_acked_messages=True,
                    message_retention_duration={"seconds": 86_400},
                ),
            ),
        )
        for call, request in calls:
            try:
                call(request)
            except grpc.RpcError as error:
                code, detail = fault(error)
                if code is not grpc.StatusCode.ALREADY_EXISTS:
                    raise LoaderError(
                        f"Pub/Sub at {endpoint} does not make {request.name}: {code.name} {detail}. "
                        f"If {EMULATOR_VARIABLE} points to a server that is gone, unset it."
                    ) from error
    finally:
        channel.close()
