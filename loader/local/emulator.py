"""The official Pub/Sub emulator, where the Google Cloud SDK has it installed.

Its Java program is started directly: `gcloud` would take seconds more and leave the program behind when it is ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import grpc

from loader.errors import LoaderError
from loader.local.ports import free_port
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel

START_SECONDS = 60.0
STOP_SECONDS = 10.0
_JAR = "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar"
_ROOTS = (
    "/usr/lib/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/usr/local/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/snap/google-cloud-sdk/current",
    "/opt/homebrew/share/google-cloud-sdk",
    "/usr/local/share/google-cloud-sdk",
    "/opt/homebrew/Caskroom/google-cloud-sdk/latest/google-cloud-sdk",
    "/usr/local/Caskroom/google-cloud-sdk/latest/google-cloud-sdk",
)


@dataclass(frozen=True)
class Emulator:
    """The emulator's program and the Java to run it."""

    jar: Path
    java: str
    version: str


def _roots() -> Iterator[Path]:
    for variable in ("CLOUDSDK_ROOT_DIR", "GOOGLE_CLOUD_SDK"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    gcloud = shutil.which("gcloud")
    if gcloud:
        # The command is a link into the SDK's bin.
        yield Path(gcloud).resolve().parents[1]
    yield from map(Path, _ROOTS)
    yield Path.home() / "google-cloud-sdk"


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not program:
        return None
    # macOS has a `java` that only says that there is none.
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, check=False, timeout=30)
    except OSError:
        return None
    return program if answer.returncode == 0 else None


def find_emulator() -> Emulator:
    """The newest emulator in the usual places of the SDK. Raises LoaderError that names what is missing."""
    jars = {jar.resolve() for root in _roots() for jar in root.glob(_JAR)}
    if not jars:
        raise LoaderError(
            "The official Pub/Sub emulator was not found: install it by "
            "`gcloud components install pubsub-emulator` or the package google-cloud-cli-pubsub-emulator."
        )
    java = _java()
    if not java:
        raise LoaderError("The official Pub/Sub emulator needs Java, which was not found: install it or set JAVA_HOME.")
    jar = max(jars, key=lambda one: [int(part) for part in re.findall(r"\d+", one.name)])
    version = re.search(r"emulator-([\d.]+)-all", jar.name)
    return Emulator(jar, java, version[1] if version else "unknown")


class EmulatorProcess:
    """The emulator on a loopback port. A context manager; `start` after `stop` takes the same port, empty."""

    def __init__(self, emulator: Emulator | None = None, port: int = 0, log: Path | None = None) -> None:
        self.emulator = emulator or find_emulator()
        self.port = port or free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self._log = log
        self.scratch: str | None = None
        """Folder of the emulator's data while it runs."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id; its process group has the same number. Raises LoaderError when it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise LoaderError("The Pub/Sub emulator is not running.")
        return self._process.pid

    def start(self) -> EmulatorProcess:
        """Starts it and waits until it answers. Raises LoaderError with the end of what it said otherwise."""
        self.scratch = tempfile.mkdtemp(prefix="loader-emulator-")
        command = [self.emulator.java, "-jar", str(self.emulator.jar), "--host=127.0.0.1", f"--port={self.port}"]
        command.append(f"--data-dir={self.scratch}")
        with self._log.open("a+b") if self._log else tempfile.TemporaryFile("w+b") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.scratch,
                start_new_session=True,
            )
            try:
                self._wait()
            except LoaderError as error:
                self.stop()
                output.seek(0)
                said = output.read().decode(errors="replace").strip()[-500:]
                raise LoaderError(f"{error} It said: {said}") from None
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        channel = open_channel(self.endpoint)
        try:
            while True:
                if self._process is None or self._process.poll() is not None:
                    raise LoaderError("The Pub/Sub emulator ended at its start.")
                try:
                    Stub(channel).list_topics(pb.ListTopicsRequest(project="projects/ready"), timeout=2)
                    return
                except grpc.RpcError:
                    if time.monotonic() > deadline:
                        raise LoaderError(
                            f"The Pub/Sub emulator did not answer on {self.endpoint} within {START_SECONDS:g} s."
                        ) from None
                    time.sleep(0.05)
        finally:
            channel.close()

    def stop(self) -> None:
        """Ends the whole process group. Nothing happens if it is not running."""
        process = self._process
        if process is not None and process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                # The group is gone when its leader went between the look and the signal.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                    break
        self._process = None
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch = None

    def __enter__(self) -> EmulatorProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
