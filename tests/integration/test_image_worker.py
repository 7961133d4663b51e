"""The container image, built by the Dockerfile and run as the start-up file runs it: closed, drained, exit 0.

It needs podman with buildah, or Docker, and a base image that is on this machine already:
LOADER_TEST_BASE_IMAGE, else python:3.13-slim (`docker pull python:3.13-slim`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]
BASES = ("python:3.13-slim", "docker.io/library/python:3.13-slim")
CERTIFICATES = Path("/etc/ssl/certs")

# Where cgroups are mixed and limits may not be raised, as in a container, podman runs with these only.
CAUTIOUS = ("--cgroup-manager=cgroupfs", "--runtime=runc"), ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Engine:
    """podman or docker: `call` takes a subcommand and its arguments."""

    def __init__(self, name: str, options: tuple[str, ...] = (), run_options: tuple[str, ...] = ()) -> None:
        self.name, self.options, self.run_options = name, options, run_options

    # A store without overlays copies every layer for each container: that takes its time.
    def call(self, *arguments: str, check: bool = True, seconds: float = 240) -> subprocess.CompletedProcess[str]:
        """Fails the test with the output, unless `check` is false."""
        done = subprocess.run(
            [self.name, *self.options, *arguments], capture_output=True, text=True, timeout=seconds, cwd=ROOT
        )
        if check and done.returncode != 0:
            pytest.fail(f"{self.name} {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done

    def run(self, *arguments: str, check: bool = True, seconds: float = 240) -> subprocess.CompletedProcess[str]:
        """`run` with what this machine needs."""
        return self.call("run", *self.run_options, *arguments, check=check, seconds=seconds)


def base_of(engine: Engine) -> str | None:
    """A base image that is here."""
    chosen = os.environ.get("LOADER_TEST_BASE_IMAGE")
    for base in [chosen] if chosen else BASES:
        if engine.call("image", "inspect", base, check=False).returncode == 0:
            return base
    return None


@pytest.fixture(scope="session")
def engine() -> tuple[Engine, str]:
    """An engine that runs containers here, and a base image of it."""
    if sys.platform != "linux":
        pytest.skip("containers share no loopback with the tests' servers but on Linux")
    missing = []
    for name, tools in (("podman", ("podman", "buildah")), ("docker", ("docker",))):
        if absent := [tool for tool in tools if not shutil.which(tool)]:
            missing.append(f"{' and '.join(absent)} not installed")
            continue
        if Engine(name).call("info", check=False).returncode != 0:
            missing.append(f"{name} does not run here")
            continue
        if (base := base_of(Engine(name))) is None:
            missing.append(f"{name} has no base image: set LOADER_TEST_BASE_IMAGE or pull {BASES[0]}")
            continue
        ways = [Engine(name), Engine(name, *CAUTIOUS)] if name == "podman" else [Engine(name)]
        for way in ways:
            if way.run("--rm", "--network=host", base, "true", check=False).returncode == 0:
                return way, base
        missing.append(f"{name} cannot run {base} here")
    pytest.skip("; ".join(missing))


@pytest.fixture(scope="session")
def image(engine: tuple[Engine, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image, built from the files that git would commit."""
    way, base = engine
    tag = f"localhost/loader-test:{uuid.uuid4().hex[:8]}"
    context = tmp_path_factory.mktemp("context")
    for name in ("loader", "Dockerfile", ".dockerignore", "pyproject.toml", "requirements.txt", "README.md"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, context / name)
    if way.name == "podman":
        # The same store, wherever it is: buildah has an opinion of its own about the driver.
        store = way.call("info", "--format={{.Store.GraphDriverName}} {{.Store.GraphRoot}}").stdout.split()
        command = ["buildah", f"--storage-driver={store[0]}", f"--root={store[1]}", "bud", "--isolation=chroot"]
        if CERTIFICATES.is_dir():  # a proxy between here and the package index may have a certificate of its own
            command.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
    else:
        command = ["docker", "build"]
    command += [f"--build-arg=BASE={base}", "-t", tag, str(context)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    yield tag
    way.call("rmi", "--force", tag, check=False)


def closed_options() -> list[str]:
    """The options with which the start-up file runs the container, less names, volumes and Docker's log driver."""
    text = (ROOT / "startup/cloud-init.yaml.tftpl").read_text()
    [line] = re.findall(r"ExecStart=/usr/bin/docker run (.*--name=loader .*)", text)
    left_out = ("--name", "--rm", "--log-", "--env-file", "--volume", "--stop-timeout")
    options = [word for word in line.split() if word.startswith("--") and not word.startswith(left_out)]
    assert "--read-only" in options
    assert any(option.startswith("--tmpfs=/tmp") for option in options)
    return options


@pytest.fixture
def container(engine: tuple[Engine, str], image: str) -> Iterator[Callable[..., str]]:
    """`container(environment, *arguments)` starts one as the start-up file does; gives its name."""
    way, _ = engine
    names: list[str] = []

    def start(environment: dict[str, str], *arguments: str) -> str:
        name = f"loader-test-{uuid.uuid4().hex[:8]}"
        names.append(name)
        variables = [f"--env={key}={value}" for key, value in environment.items()]
        way.run("--detach", f"--name={name}", *closed_options(), *variables, image, *arguments)
        return name

    yield start
    for name in names:
        way.call("rm", "--force", name, check=False)


def until(condition: Callable[[], bool], what: Callable[[], str], seconds: float = 60) -> None:
    """Asks again until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(what())
        time.sleep(0.1)


def stored(url: str) -> int:
    """Rows in the table, 0 while it is not there."""
    with psycopg.connect(url) as connection:
        try:
            row = connection.execute("select count(*) from events.orders").fetchone()
        except psycopg.errors.UndefinedTable:
            return 0
    assert row is not None
    return int(row[0])


def test_a_closed_container_loads_drains_on_sigterm_and_exits_0(engine, container, pubsub, database_url):
    way, _ = engine
    pubsub.publish([json.dumps({"type": "orders", "id": number}) for number in range(500)])
    name = container(
        {
            **pubsub.environment,
            "LOADER_SUBSCRIPTION": pubsub.subscription,
            "LOADER_DATABASE_URL": database_url,
            "LOADER_TABLE_KEY": "type",
            "LOADER_WINDOW_SECONDS": "0.5",
            "LOADER_HTTP_PORT": "18089",
        },
        "run",
    )

    def logs() -> str:
        done = way.call("logs", name)
        return done.stdout + done.stderr

    until(lambda: stored(database_url) == 500, logs)
    assert way.call("exec", name, "python", "-m", "loader.healthcheck", check=False).returncode == 0
    user = way.call("exec", name, "python", "-c", "import os; print(os.getuid())").stdout.strip()
    assert user == "65532"
    # A window that is open when SIGTERM comes is loaded, not thrown away.
    pubsub.publish([json.dumps({"type": "orders", "id": number}) for number in range(500, 600)])
    until(lambda: pubsub.counts()["leased"] > 0 or stored(database_url) == 600, logs)
    way.call("stop", "-t", "23", name)
    assert way.call("inspect", "--format={{.State.ExitCode}}", name).stdout.strip() == "0", logs()
    assert stored(database_url) == 600
    assert pubsub.counts()["backlog"] == 0
    lines = [json.loads(line) for line in logs().splitlines()]
    assert all(line["severity"] in ("DEBUG", "INFO", "WARNING") for line in lines), logs()


def test_wrong_settings_exit_78(engine, image):
    way, _ = engine
    done = way.run("--rm", *closed_options(), image, "run", check=False)
    assert done.returncode == 78
    assert "LOADER_SUBSCRIPTION" in done.stdout + done.stderr


def test_the_image_holds_what_the_bridge_and_the_secrets_need_and_no_installer(engine, image):
    way, _ = engine
    script = (
        "import confluent_kafka, fastavro, hcl2, google.auth.transport.requests, importlib.util as u;"
        "assert u.find_spec('pip') is None"
    )
    way.run("--rm", *closed_options(), "--entrypoint=python", image, "-c", script)


def test_the_bridge_is_an_argument_with_its_file_where_the_start_up_file_puts_it(engine, image, tmp_path):
    way, _ = engine
    shutil.copy(ROOT / "loader/bridge/examples/router.hcl", tmp_path / "bridge.hcl")
    tmp_path.chmod(0o755)
    (tmp_path / "bridge.hcl").chmod(0o644)
    volume = f"--volume={tmp_path}:/etc/loader:ro"
    done = way.run("--rm", *closed_options(), volume, image, "bridge", "/etc/loader/bridge.hcl", "--check")
    assert "0 errors" in done.stdout + done.stderr
