"""A Postgres server for the demo, the benchmarks and the tests.

`open_postgres` picks the first that there is: a URL, the wheel's server or a local installation (run in a folder of
ours), Docker. All listen on loopback only and want a password.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import psycopg
import psycopg.conninfo

from loader.errors import LoaderError
from loader.local.account import reachable_folder, reachable_programs, unprivileged
from loader.local.docker import DockerPostgres, docker_answers
from loader.local.installation import Installation, find_installation
from loader.local.ports import free_port

START_SECONDS = 60.0
STOP_SECONDS = 20.0


class Postgres(Protocol):
    """A server that commands and tests can use."""

    url: str
    """psycopg conninfo as a URL, password included: not for logs."""
    version: str
    origin: str
    """Which one it is, for people."""

    def database_url(self, database: str) -> str:
        """Conninfo of another database on the server."""

    def start(self) -> Postgres:
        """Starts it if it is not running and waits until it takes connections."""

    def stop(self) -> None:
        """Ends it in order; what was committed stays."""

    def kill(self) -> None:
        """Ends it as kill -9 does."""

    def restart(self) -> None:
        """Stops and starts it: same address, same data."""

    def close(self) -> None:
        """Stops it and removes what was temporary."""

    def __enter__(self) -> Postgres: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class EmbeddedPostgres:
    """A server process of ours in a data folder of ours. A context manager.

    Without `folder` the data lives in a temporary folder and goes with the server. `durable=False` turns fsync
    off: faster, commits survive `kill` but not a crash of the machine. A detached server outlives this process.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int = 0,
        durable: bool = True,
        max_connections: int = 100,
        settings: Mapping[str, str] | None = None,
        installation: Installation | None = None,
        detached: bool = False,
    ) -> None:
        self._installation = installation or find_installation()
        self.version = self._installation.version
        self.origin = f"PostgreSQL {self.version} of {self._installation.origin}"
        self._account = unprivileged()
        self._programs = self._installation.folder
        self._temporary = folder is None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="loader-pg-"))
            folder.chmod(0o755)
        if self._account:
            self._programs = reachable_programs(self._programs, self._account)
            folder = reachable_folder(folder.absolute(), self._account)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.absolute()
        """Holds `data`, `log` and `password`. Not the one asked for if Postgres' account could not reach that."""
        self._data = self.folder / "data"
        self.log = self.folder / "log"
        # A socket's path may have about 100 characters: the data folder's can be longer.
        self.sockets: Path | None = None
        """Folder of the server's socket while it runs."""
        self._durable = durable
        self._detached = detached
        self._settings = {
            "max_connections": str(max_connections),
            "listen_addresses": "127.0.0.1",
            "logging_collector": "off",
            # Not synchronous_commit: a commit that was confirmed must survive `kill`, only not a crash of the machine.
            **({} if durable else {"fsync": "off", "full_page_writes": "off"}),
            **(settings or {}),
        }
        self._password = self._initialise()
        self.port = port or free_port()
        self.url = self.database_url("postgres")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server. Raises LoaderError when it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise LoaderError(f"The Postgres server in {self.folder} is not running.")
        return self._process.pid

    def database_url(self, database: str) -> str:
        """Conninfo of another database on the server."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    def _initialise(self) -> str:
        """Makes the data folder if there is none; returns the password."""
        secret = self.folder / "password"
        if (self._data / "PG_VERSION").is_file() and secret.is_file():
            made_by = (self._data / "PG_VERSION").read_text().strip()
            if made_by != self.version.split(".")[0]:
                raise LoaderError(
                    f"The data in {self._data} is of PostgreSQL {made_by}, the server found is {self.version}: "
                    "remove the folder or install that version."
                )
            return secret.read_text().strip()
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700)
        password = secrets.token_hex(16)
        handle = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w") as file:
            file.write(password)
        if self._account:
            self._account.own(self._data)
            os.chown(secret, self._account.user, self._account.group)
        command = [
            str(self._programs / "initdb"),
            f"--pgdata={self._data}",
            "--username=postgres",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--encoding=UTF8",
            "--locale=C",
            *([] if self._durable else ["--no-sync"]),
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self._spawn())
        if answer.returncode:
            shutil.rmtree(self._data, ignore_errors=True)
            raise LoaderError(f"initdb of {self.origin} failed in {self._data}: {answer.stderr.strip()[-500:]}")
        return password

    def _spawn(self) -> dict[str, Any]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        return {"env": {**environment, "LC_ALL": "C"}, **(self._account.spawn() if self._account else {})}

    def start(self) -> EmbeddedPostgres:
        """Starts the server and waits for it. Raises LoaderError with the end of its log when it does not come up."""
        if self._process is not None and self._process.poll() is None:
            return self
        deadline = time.monotonic() + START_SECONDS
        while not self._start_once(deadline):
            # Backends of a killed server hold its shared memory for a moment.
            time.sleep(0.1)
        if not self._detached:
            atexit.register(self.close)
        return self

    def _start_once(self, deadline: float) -> bool:
        """False when it is worth another try."""
        if self.sockets is None or not self.sockets.is_dir():
            self.sockets = Path(tempfile.mkdtemp(prefix="lpg-", dir="/tmp"))
            if self._account:
                self._account.own(self.sockets)
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += ["-k", str(self.sockets)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            # Its own session: a Ctrl-C in the terminal is for the command, which then stops the server in order.
            self._process = subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._spawn(),
            )
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                with self.log.open("rb") as log:
                    log.seek(start)
                    said = log.read().decode(errors="replace")
                if "still in use" in said or "another server might be running" in said or "lock file" in said:
                    return False
                raise LoaderError(f"{self.origin} ended at its start. {self.log} says: {said.strip()[-500:]}")
            if self._ready():
                return True
            time.sleep(0.02)
        self.kill()
        raise LoaderError(f"{self.origin} took no connections within {START_SECONDS:g} s; its log: {self.log}")

    def _ready(self) -> bool:
        """The server writes its state as the last line of postmaster.pid, its own pid as the first."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            if len(lines) >= 8 and self._process and lines[0].strip() == str(self._process.pid):
                return lines[7].strip() == "ready"
        return False

    def stop(self) -> None:
        """Ends the server ('fast': open transactions are rolled back). Nothing happens if it is not running."""
        process = self._process
        if process is not None and process.poll() is None:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                    break
        self._process = None
        if self.sockets is not None:
            shutil.rmtree(self.sockets, ignore_errors=True)
            self.sockets = None

    def kill(self) -> None:
        """kill -9 of the server process; its backends end by themselves. `start` then recovers, as after a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stops and starts the server: same port, same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the server and removes its data if they were temporary."""
        self.stop()
        atexit.unregister(self.close)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> EmbeddedPostgres:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ExistingPostgres:
    """A server that somebody else runs: it can be used, but not started, stopped or killed."""

    def __init__(self, url: str) -> None:
        self.url = url
        with psycopg.connect(url, connect_timeout=10) as connection:
            number = connection.info.server_version
        self.version = f"{number // 10_000}.{number % 10_000}"
        self.origin = f"PostgreSQL {self.version} at the URL given"

    def database_url(self, database: str) -> str:
        """Conninfo of another database on the server."""
        return psycopg.conninfo.make_conninfo(self.url, dbname=database)

    def start(self) -> ExistingPostgres:
        """Nothing to do."""
        return self

    def stop(self) -> None:
        """Nothing to do: it is not ours."""

    def kill(self) -> None:
        """Raises LoaderError: it is not ours."""
        raise LoaderError("A Postgres server that was given by its URL is not ours to end.")

    def restart(self) -> None:
        """Raises LoaderError: it is not ours."""
        self.kill()

    def close(self) -> None:
        """Nothing to do: it is not ours."""

    def __enter__(self) -> ExistingPostgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_postgres(
    url: str | None = None, *, folder: Path | None = None, durable: bool = True, max_connections: int = 100
) -> Postgres:
    """The server at `url`; else one of ours from the wheel or a local installation; else one in Docker.

    Use it as a context manager. Raises LoaderError that names everything that was looked for.
    """
    if url:
        return ExistingPostgres(url)
    try:
        installation = find_installation()
    except LoaderError as missing:
        if not docker_answers():
            raise LoaderError(f"{missing} Or start Docker, or give a server by its URL.") from None
        return DockerPostgres(durable=durable, max_connections=max_connections)
    return EmbeddedPostgres(folder, durable=durable, max_connections=max_connections, installation=installation)
