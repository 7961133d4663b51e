"""Pub/Sub and Postgres on this machine as background processes, remembered in a folder: `loader local`.

If asked for, Kafka and a schema registry as well."""

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

from loader.errors import LoaderError
from loader.local.bridge import kafka_listener, missing_for_kafka, registry_listener
from loader.local.emulator import EmulatorProcess, find_emulator
from loader.local.postgres import EmbeddedPostgres, ExistingPostgres
from loader.local.process import end, identity
from loader.local.pubsub_process import PubsubProcess
from loader.local.resources import GPS_DEAD_TOPIC, GPS_SUBSCRIPTION, GPS_TOPIC, SUBSCRIPTION, make_resources
from loader.pull.channel import EMULATOR_VARIABLE

KAFKA_TOPICS = {"gps": 4}
"""Topics of the Kafka broker and their partitions; others appear when somebody produces to them."""
_MEMORY_ONLY = ("kafka", "registry")
PUBSUB_KINDS = ("auto", "memory", "official")
State = dict[str, dict[str, Any]]


class Stack:
    """What runs, by the file `state.json` of the folder; `pubsub` and `postgres` each have an entry, and with Kafka
    `kafka` and `registry`.

    An entry stays after `down` without its `pid`: the same port is taken again, so that a shell's variables stay right.
    Not those of Kafka and the registry: the broker takes any port, and a stack without them is whole.
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

    def up(self, pubsub: str = "auto", database_url: str | None = None, kafka: bool = False) -> State:
        """Starts what does not run; returns the state. Raises LoaderError when something cannot be had or started.

        With `kafka`, or once it was asked for and until `down`, Kafka and the registry too."""
        with self._locked():
            state = self._read()
            kafka = kafka or "kafka" in state
            if kafka and (missing := missing_for_kafka()):
                raise LoaderError(missing)  # before anything runs
            # Each is remembered as soon as it runs: a failure of the second must not orphan the first.
            state["pubsub"] = self._pubsub(state.get("pubsub", {}), pubsub)
            self._write(state)
            state["postgres"] = self._postgres(state.get("postgres", {}), database_url)
            self._write(state)
            if kafka:
                state["kafka"] = self._listening(state.get("kafka", {}), "kafka")
                self._write(state)
                state["registry"] = self._listening(state.get("registry", {}), "registry")
                self._write(state)
            make_resources(state["pubsub"]["endpoint"], gps=kafka)
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

    def _listening(self, known: dict[str, Any], name: str) -> dict[str, Any]:
        if _running(known):
            return known
        log = self.folder / f"{name}.log"
        if name == "kafka":
            server, origin = kafka_listener(KAFKA_TOPICS, log), "librdkafka's mock broker of Kafka"
        else:
            server, origin = registry_listener(log), "the in-memory schema registry"
        entry = {"kind": "memory", "origin": origin, "endpoint": server.address, "pid": server.pid}
        return {**entry, "identity": identity(server.pid)}

    def down(self) -> list[str]:
        """Ends what `up` started, if it is still that process; returns what was ended. Data of Postgres stay."""
        with self._locked():
            state = self._read()
            ended = []
            for name, first in (
                ("pubsub", signal.SIGTERM),
                ("postgres", signal.SIGINT),
                ("kafka", signal.SIGTERM),
                ("registry", signal.SIGTERM),
            ):
                entry = state.get(name, {})
                pid, known = entry.pop("pid", None), entry.pop("identity", None)
                if pid is not None and end(pid, known, first):
                    ended.append(f"{name} ({entry['origin']})")
                for temporary in (entry.pop("sockets", None), entry.pop("scratch", None)):
                    if temporary:
                        shutil.rmtree(temporary, ignore_errors=True)
            for name in _MEMORY_ONLY:
                state.pop(name, None)
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
    """The variables that point the other commands at a stack that is up, and with Kafka the shipped GPS example."""
    found = {
        EMULATOR_VARIABLE: state["pubsub"]["endpoint"],
        "LOADER_SUBSCRIPTION": SUBSCRIPTION,
        "LOADER_DATABASE_URL": state["postgres"]["url"],
    }
    if "kafka" in state and "registry" in state:
        found |= {
            "GPS_BROKERS": state["kafka"]["endpoint"],
            "GPS_REGISTRY": state["registry"]["endpoint"],
            "GPS_TOPIC": GPS_TOPIC,
            "GPS_DEAD_TOPIC": GPS_DEAD_TOPIC,
            "GPS_SUBSCRIPTION": GPS_SUBSCRIPTION,
            "BRIDGE_REGION": "local",
            "BRIDGE_ENVIRONMENT": "dev",
        }
    return found


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
