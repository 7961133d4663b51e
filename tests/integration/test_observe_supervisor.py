"""The supervisor over real processes: a tiny worker that does what its arguments tell it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loader.errors import ConfigurationError, LoaderError
from loader.observe.profile import ProfileBusy
from loader.observe.store import merged
from loader.worker.supervisor import Supervisor

CHILD = textwrap.dedent(
    '''
    """Connects to the test, says who it is, and does each order that comes."""
    import os, signal, socket, sys, threading
    from loader.observe.endpoints import Worker
    from loader.observe.health import Health
    from loader.observe.metrics import LoaderMetrics
    from loader.worker.control import Control

    conversation = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    orders = conversation.makefile("r")

    def say(text):
        conversation.sendall(f"{text}\\n".encode())

    stubborn = threading.Event()
    stop = threading.Event()

    def on_signal(number, frame):
        say(f"signal {number}")
        if not stubborn.is_set():
            stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    control = Control.from_environment(os.environ)
    metrics = LoaderMetrics()
    health = Health(metrics)
    control.start(Worker(metrics, health))

    def obey():
        for order in orders:
            what, _, rest = order.strip().partition(" ")
            if what == "load":
                metrics.store.add("loader_events_loaded_total", int(rest), "orders")
            elif what == "flight":
                control.flight.write(0, rest.split())
            elif what == "suspects":
                rest = " ".join(f"{key}={value}" for key, value in sorted(control.suspects.items()))
            elif what == "stubborn":
                stubborn.set()
            elif what == "exit":
                os._exit(int(rest))
            say(f"done {rest}")

    threading.Thread(target=obey, daemon=True).start()
    say(f"up {os.getpid()}")
    while not stop.wait(0.05):
        pass
    os._exit(0)
    '''
)


class Child:
    """A worker at the other end of a socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(60)
        self._connection = connection
        self._file = connection.makefile("r")
        self.pid = int(self.line().split()[1])

    def line(self) -> str:
        return self._file.readline().strip()

    def order(self, text: str) -> str:
        self.send(text)
        return self.line()

    def send(self, text: str) -> None:
        self._connection.sendall(f"{text}\n".encode())

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.ended()

    def ended(self) -> list[str]:
        """What it said last; returns once it has gone."""
        said = []
        with contextlib.suppress(ConnectionError):
            while line := self._file.readline():
                said.append(line.strip())
        return said

    def close(self) -> None:
        self._file.close()
        self._connection.close()


class Stage:
    """A supervisor in a thread, and its workers."""

    def __init__(self, script: Path, count: int, shutdown_seconds: float = 30.0) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        port = str(self.listener.getsockname()[1])
        self.children: list[Child] = []
        self.supervisor = Supervisor(
            [sys.executable, str(script), port],
            count,
            os.environ,
            shutdown_seconds,
            first_backoff=0.01,
            margin_seconds=0.0,
        )
        self.outcome: int | BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.outcome = self.supervisor.run()
        except BaseException as error:
            self.outcome = error

    def next_child(self) -> Child:
        connection, _ = self.listener.accept()
        child = Child(connection)
        self.children.append(child)
        return child

    def end(self) -> int | BaseException | None:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.outcome


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    # The supervisor runs in a thread here, where Python allows no signal handlers.
    monkeypatch.setattr("loader.worker.supervisor.signal.signal", lambda number, handler: None)
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    stages: list[Stage] = []

    def build(count: int, **options: float) -> Stage:
        stage = Stage(script, count, **options)
        stages.append(stage)
        stage.thread.start()
        return stage

    yield build
    for stage in stages:
        stage.supervisor.stop()
        for child in stage.children:
            with contextlib.suppress(ProcessLookupError):
                if stage.thread.is_alive():
                    os.kill(child.pid, signal.SIGKILL)
        stage.thread.join(60)
        for child in stage.children:
            child.close()
        stage.listener.close()


def loaded(stage: Stage) -> float:
    return merged([stage.supervisor.fleet.snapshot()]).value("loader_events_loaded_total", "orders")


def test_workers_are_started_and_drained_together(stage) -> None:
    run = stage(2)
    children = [run.next_child(), run.next_child()]
    assert children[0].pid != children[1].pid
    run.supervisor.stop()
    run.supervisor.stop()
    # Each is told once, however often the supervisor is.
    assert [child.ended() for child in children] == [[f"signal {signal.SIGTERM:d}"]] * 2
    assert run.end() == 0


def test_metrics_of_all_are_summed_and_a_death_loses_none(stage) -> None:
    run = stage(2)
    first, second = run.next_child(), run.next_child()
    first.order("load 5")
    second.order("load 7")
    assert loaded(run) == 12
    first.kill()
    third = run.next_child()
    assert loaded(run) == 12
    third.order("load 100")
    assert loaded(run) == 112
    all_metrics = merged([run.supervisor.fleet.snapshot()])
    assert all_metrics.value("loader_workers") == 2
    assert all_metrics.value("loader_worker_deaths_total", "SIGKILL") == 1


def test_one_worker_that_is_not_ready_makes_all_not_ready(stage) -> None:
    run = stage(2)
    run.next_child(), run.next_child()
    report = run.supervisor.fleet.report()
    # These never pull, and say so; they live all the same.
    assert report.alive
    assert not report.ready
    assert report.reasons == ["worker 0: starting", "worker 1: starting"]


def test_a_worker_that_hangs_is_found_out(stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.worker.fleet.ASK_SECONDS", 0.2)
    run = stage(1)
    child = run.next_child()
    assert run.supervisor.fleet.report().alive
    os.kill(child.pid, signal.SIGSTOP)
    try:
        assert "worker 0: no answer" in run.supervisor.fleet.report().reasons[0]
        monkeypatch.setattr("loader.worker.fleet.SILENT_SECONDS", 0.0)
        assert not run.supervisor.fleet.report().alive
    finally:
        os.kill(child.pid, signal.SIGCONT)


def test_a_profile_is_of_the_process_that_was_named(stage) -> None:
    run = stage(2)
    run.next_child(), run.next_child()
    fleet = run.supervisor.fleet
    assert "s of CPU" in fleet.profile(0.1, "top", 1)
    with pytest.raises(ValueError, match="2 processes"):
        fleet.profile(0.1, "top", 2)
    fleet._profiling.acquire()
    with pytest.raises(ProfileBusy):
        fleet.profile(0.1, "top", 0)
    fleet._profiling.release()


def test_wrong_configuration_of_one_ends_all(stage) -> None:
    run = stage(2)
    first, second = run.next_child(), run.next_child()
    first.send("exit 78")
    assert second.ended() == [f"signal {signal.SIGTERM:d}"]
    outcome = run.end()
    assert isinstance(outcome, ConfigurationError)
    assert outcome.exit_code == 78


def test_a_worker_that_cannot_stay_up_ends_all(stage) -> None:
    run = stage(1)
    for _ in range(5):
        run.next_child().send("exit 3")
    outcome = run.end()
    assert isinstance(outcome, LoaderError)
    assert outcome.exit_code == 1
    assert "5 times within 60 s, at last: exit code 3" in str(outcome)


def test_a_worker_that_does_not_drain_is_killed_and_told_of(stage) -> None:
    run = stage(2, shutdown_seconds=1.0)
    good, bad = run.next_child(), run.next_child()
    bad.order("stubborn")
    run.supervisor.stop()
    good.ended()
    bad.ended()
    assert run.end() == 1


def test_a_message_in_flight_at_two_deaths_is_suspect_for_all(stage) -> None:
    run = stage(2)
    first, second = run.next_child(), run.next_child()
    first.order("flight m1 poison m2")
    first.kill()
    third = run.next_child()
    assert third.order("suspects") == "done"
    third.order("flight m3 poison")
    third.kill()
    fourth = run.next_child()
    assert fourth.order("suspects") == "done poison=0"
    fourth.order("flight poison")
    fourth.kill()
    assert run.next_child().order("suspects") == "done poison=1"
    # One that lived all the while is told as well.
    while second.order("suspects") != "done poison=1":
        pass


def test_an_orderly_end_accuses_no_message(stage) -> None:
    run = stage(1)
    for _ in range(2):
        child = run.next_child()
        child.order("flight m1")
        child.send("exit 1")
    assert run.next_child().order("suspects") == "done"


def test_workers_drain_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        port = str(listener.getsockname()[1])
        program = (
            "import os, sys; from loader.worker.supervisor import Supervisor;"
            f"sys.exit(Supervisor([sys.executable, {str(script)!r}, {port!r}], 2, os.environ, 20.0).run())"
        )
        with subprocess.Popen([sys.executable, "-c", program]) as parent:
            children = [Child(listener.accept()[0]), Child(listener.accept()[0])]
            parent.kill()
            assert [child.ended() for child in children] == [[f"signal {signal.SIGTERM:d}"]] * 2
            for child in children:
                child.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_supervisor_drains_all_and_exits_0(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        port = str(listener.getsockname()[1])
        program = (
            "import os, sys; from loader.worker.supervisor import Supervisor;"
            f"sys.exit(Supervisor([sys.executable, {str(script)!r}, {port!r}], 2, os.environ, 20.0).run())"
        )
        # To the whole group, as a terminal's Ctrl-C: the workers are in groups of their own and are told once.
        with subprocess.Popen([sys.executable, "-c", program], process_group=0) as parent:
            children = [Child(listener.accept()[0]), Child(listener.accept()[0])]
            os.killpg(parent.pid, number)
            assert [child.ended() for child in children] == [[f"signal {signal.SIGTERM:d}"]] * 2
            assert parent.wait(60) == 0
            for child in children:
                child.close()
