"""Postgres in Docker, for machines that have no Postgres programs but a Docker that answers."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from types import TracebackType

import psycopg

from loader.errors import LoaderError
from loader.local.ports import free_port

IMAGE = "postgres:17-alpine"
ANSWER_SECONDS = 10.0
START_SECONDS = 300.0
"""The image may have to be fetched first."""


def docker_answers() -> bool:
    """Whether there is a docker command whose daemon answers."""
    program = shutil.which("docker")
    if program is None:
        return False
    command = [program, "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=ANSWER_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _docker(*arguments: str, **environment: str) -> str:
    answer = subprocess.run(
        ["docker", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
        env={**os.environ, **environment},
    )
    if answer.returncode:
        raise LoaderError(f"docker {arguments[0]} failed: {answer.stderr.strip()[-300:]}")
    return answer.stdout.strip()


class DockerPostgres:
    """A container of ours. Data live as long as it: `close` removes both."""

    def __init__(self, *, durable: bool = True, max_connections: int = 100) -> None:
        self._password = secrets.token_hex(16)
        # Chosen by us: a port that Docker chooses changes at each start.
        self.port = free_port()
        settings = ["-c", f"max_connections={max_connections}", *([] if durable else ["-c", "fsync=off"])]
        self.container = _docker(
            *("run", "--detach", "--publish", f"127.0.0.1:{self.port}:5432"),
            # Passed on by name: arguments of a process are there for all to see.
            *("--env", "POSTGRES_PASSWORD", IMAGE, *settings),
            POSTGRES_PASSWORD=self._password,
        )
        try:
            self.url = self.database_url("postgres")
            self._wait()
            with psycopg.connect(self.url) as connection:
                number = connection.info.server_version
        except BaseException:
            self.close()
            raise
        self.version = f"{number // 10_000}.{number % 10_000}"
        self.origin = f"PostgreSQL {self.version} in Docker ({IMAGE})"

    def database_url(self, database: str) -> str:
        """Conninfo of another database on the server."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise LoaderError(f"Postgres in Docker took no connections within 60 s: {error}") from error
                time.sleep(0.1)

    def start(self) -> DockerPostgres:
        """Starts the container again after `stop` or `kill`; nothing happens if it runs."""
        _docker("start", self.container)
        self._wait()
        return self

    def stop(self) -> None:
        """Stops the container; data stay in it."""
        _docker("stop", self.container)

    def kill(self) -> None:
        """kill -9 of everything in the container."""
        _docker("kill", self.container)

    def restart(self) -> None:
        """Stops and starts it."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Removes the container and its data."""
        _docker("rm", "--force", "--volumes", self.container)

    def __enter__(self) -> DockerPostgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
