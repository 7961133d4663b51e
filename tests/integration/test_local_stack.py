"""`loader local` and `loader publish`, as a shell runs them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from loader.local.process import identity
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

EXAMPLE = Path(__file__).resolve().parents[2] / "loader" / "bridge" / "examples" / "gps.hcl"


class Shell:
    """A folder with the command in it, and the variables that `local up` exported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("LOADER_", "PUBSUB_", "PG")) and key != "COLUMNS"
        }
        root = str(Path(__file__).resolve().parents[2])
        self.variables["PYTHONPATH"] = root

    def loader(self, *arguments: str, code: int = 0, text: bytes | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "loader", *arguments],
            cwd=self.folder,
            env=self.variables,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.errors = done.stderr.decode()
        assert done.returncode == code, self.errors
        return done.stdout.decode()

    def json(self, *arguments: str, code: int = 0, text: bytes | None = None) -> Any:
        return json.loads(self.loader(*arguments, "--json", code=code, text=text))

    def export(self, lines: str) -> None:
        for line in lines.splitlines():
            word, assignment = shlex.split(line)
            assert word == "export"
            name, _, value = assignment.partition("=")
            self.variables[name] = value


@pytest.fixture
def shell() -> Iterator[Shell]:
    # Postgres of root runs as another account, which does not get into pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="loader-stack-"))
    folder.chmod(0o755)
    shell = Shell(folder)
    yield shell
    shell.loader("local", "down")
    shutil.rmtree(folder)


def up(shell: Shell) -> Any:
    shell.export(shell.loader("local", "up", "--pubsub", "memory"))
    return shell.json("local", "status")


def test_up_prints_what_a_shell_needs_and_published_lines_arrive(shell: Shell) -> None:
    state = up(shell)
    assert [state[name]["running"] for name in ("pubsub", "postgres")] == [True, True]
    assert "password" not in json.dumps(state)
    with psycopg.connect(shell.variables["LOADER_DATABASE_URL"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    receipt = shell.json("publish", "-", "--attribute", "k=v=w", text=b'{"a":1}\n\n{"a":2}')
    assert (receipt["messages"], receipt["skipped"]) == (2, 1)
    assert receipt["topic"] == "projects/local/topics/events"
    channel = open_channel(shell.variables["PUBSUB_EMULATOR_HOST"])
    request = pb.PullRequest(subscription=shell.variables["LOADER_SUBSCRIPTION"], max_messages=10)
    received = [one.message for one in Stub(channel).pull(request).received_messages]
    channel.close()
    assert [one.data for one in received] == [b'{"a":1}', b'{"a":2}']
    assert [dict(one.attributes) for one in received] == [{"k": "v=w"}] * 2


def test_up_again_keeps_what_runs_and_starts_what_died(shell: Shell) -> None:
    first = up(shell)
    assert up(shell) == first
    os.kill(first["pubsub"]["pid"], signal.SIGKILL)
    while identity(first["pubsub"]["pid"]) is not None:
        pass
    assert shell.json("local", "status", code=1)["pubsub"]["running"] is False
    second = up(shell)
    assert second["postgres"] == first["postgres"]
    assert second["pubsub"]["pid"] != first["pubsub"]["pid"]
    assert second["pubsub"]["endpoint"] == first["pubsub"]["endpoint"]


def test_down_ends_both_twice_is_no_error_and_data_stay(shell: Shell) -> None:
    state = up(shell)
    with psycopg.connect(shell.variables["LOADER_DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS a")
    assert len(shell.json("local", "down")["ended"]) == 2
    assert identity(state["pubsub"]["pid"]) is None
    assert identity(state["postgres"]["pid"]) is None
    assert shell.json("local", "down") == {"ended": []}
    before = dict(shell.variables)
    up(shell)
    assert shell.variables == before
    with psycopg.connect(shell.variables["LOADER_DATABASE_URL"]) as connection:
        assert connection.execute("SELECT a FROM kept").fetchone() == (1,)


def test_kafka_comes_with_what_the_gps_example_reads_and_goes_with_the_rest(shell: Shell) -> None:
    pytest.importorskip("confluent_kafka")
    shell.export(shell.loader("local", "up", "--pubsub", "memory", "--kafka"))
    state = shell.json("local", "status")
    assert set(state) == {"pubsub", "postgres", "kafka", "registry"}
    before = dict(shell.variables)
    up(shell)  # without --kafka: what runs stays, and so do its variables
    assert shell.variables == before
    os.kill(state["kafka"]["pid"], signal.SIGKILL)
    while identity(state["kafka"]["pid"]) is not None:
        pass
    assert shell.json("local", "status", code=1)["kafka"]["running"] is False
    assert up(shell)["kafka"]["running"] is True
    sent = shell.json(
        "bridge", "generate", "gps", "--brokers", shell.variables["GPS_BROKERS"], "--registry",
        shell.variables["GPS_REGISTRY"], "--records", "3", "--rate", "0",
    )  # fmt: skip
    assert sent["records"] == 3
    shell.loader("bridge", str(EXAMPLE), "--plan")
    channel = open_channel(shell.variables["PUBSUB_EMULATOR_HOST"])
    name = shell.variables["GPS_SUBSCRIPTION"]
    assert Stub(channel).get_subscription(pb.GetSubscriptionRequest(subscription=name)).topic.endswith("/gps-links")
    channel.close()
    pids = [entry["pid"] for entry in shell.json("local", "status").values()]
    assert len(shell.json("local", "down")["ended"]) == 4
    assert [identity(pid) for pid in pids] == [None] * 4
    assert set(up(shell)) == {"pubsub", "postgres"}


def test_kafka_without_the_extra_says_what_to_install_before_anything_runs(shell: Shell) -> None:
    stub = shell.folder / "absent"
    stub.mkdir()
    # Looked for before the real packages: as if fastavro were not installed.
    (stub / "sitecustomize.py").write_text(
        "import importlib.util as util\nreal = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'fastavro' else real(name, *rest)\n"
    )
    shell.variables["PYTHONPATH"] += os.pathsep + str(stub)
    shell.loader("local", "up", "--kafka", code=1)
    assert "fastavro" in shell.errors
    assert "pip install '.[bridge]'" in shell.errors
    assert shell.json("local", "status", code=1) == {}


def test_topic_and_subscription_keep_messages_so_that_every_backfill_can_be_tried(shell: Shell) -> None:
    up(shell)
    channel = open_channel(shell.variables["PUBSUB_EMULATOR_HOST"])
    topic = Stub(channel).get_topic(pb.GetTopicRequest(topic="projects/local/topics/events"))
    channel.close()
    assert topic.message_retention_duration.seconds == 86_400


def test_down_leaves_a_process_alone_that_has_the_recorded_number_by_chance(shell: Shell) -> None:
    up(shell)
    file = shell.folder / ".local" / "state.json"
    state = json.loads(file.read_text())
    real = state["pubsub"]["pid"]
    state["pubsub"]["pid"] = os.getpid()
    file.write_text(json.dumps(state))
    assert shell.json("local", "status", code=1)["pubsub"]["running"] is False
    assert len(shell.json("local", "down")["ended"]) == 1
    os.kill(real, signal.SIGTERM)


def test_the_state_with_its_password_is_for_the_owner_only(shell: Shell) -> None:
    up(shell)
    assert (shell.folder / ".local" / "state.json").stat().st_mode & 0o077 == 0


def test_a_pubsub_that_the_environment_names_is_used_and_not_ended(shell: Shell, pubsub: Any) -> None:
    shell.variables["PUBSUB_EMULATOR_HOST"] = pubsub.endpoint
    shell.export(shell.loader("local", "up"))
    assert shell.variables["PUBSUB_EMULATOR_HOST"] == pubsub.endpoint
    assert len(shell.json("local", "down")["ended"]) == 1
    name = "projects/local/subscriptions/events-loader"
    assert pubsub.stub.get_subscription(pb.GetSubscriptionRequest(subscription=name)).retain_acked_messages
    pubsub.stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=name))
    pubsub.stub.delete_topic(pb.DeleteTopicRequest(topic="projects/local/topics/events"))


def test_publish_without_a_destination_says_what_to_set(shell: Shell) -> None:
    shell.loader("publish", "-", text=b"x\n", code=78)
    assert "--topic" in shell.errors
    assert "LOADER_SUBSCRIPTION" in shell.errors


def test_publish_to_a_topic_that_is_not_there_fails_in_one_line(shell: Shell, pubsub: Any) -> None:
    shell.variables["PUBSUB_EMULATOR_HOST"] = pubsub.endpoint
    shell.loader("publish", "-", "--topic", f"projects/{pubsub.project}/topics/none", text=b"x\n", code=1)
    assert len(shell.errors.splitlines()) == 1
    assert "NOT_FOUND" in shell.errors


def test_publish_of_a_file_that_cannot_be_read_names_it(shell: Shell) -> None:
    shell.loader("publish", "none.jsonl", "--topic", "projects/p/topics/events", code=1)
    assert "none.jsonl" in shell.errors


def test_publish_refuses_an_attribute_without_a_value(shell: Shell) -> None:
    shell.loader("publish", "-", "--attribute", "novalue", text=b"x\n", code=2)
    assert "novalue" in shell.errors
