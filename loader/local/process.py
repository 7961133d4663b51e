"""Processes that outlive the command which started them: who they are, and how to end them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path


def identity(pid: int) -> str | None:
    """A text that only this process has had: a process id is given again, its start time with it is not.

    None when there is no such process, or only what is left of one that ended.
    """
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The name in parentheses may hold anything, spaces and parentheses too.
            fields = stat.read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else f"{boot} {fields[19]}"
    answer = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat=,lstart="],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def end(pid: int, known: str, first: signal.Signals = signal.SIGTERM, seconds: float = 20.0) -> bool:
    """Ends the process if it is still the one that `identity` described: politely, after `seconds` by SIGKILL.

    False when it was not there any more.
    """
    if identity(pid) != known:
        return False
    for number in (first, signal.SIGKILL):
        # It may go between the look and the signal.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if identity(pid) != known:
                return True
            time.sleep(0.02)
    return identity(pid) != known
