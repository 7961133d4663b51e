"""CPU time of processes: our own, a worker's, and a server's with its children."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from loader.errors import LoaderError

_PROC = Path("/proc")


def own_seconds() -> float:
    """User and system CPU of this process, all threads, in seconds."""
    return time.process_time()


def process_seconds(pid: int) -> float:
    """User and system CPU of a process and of its children, those that have ended included, in seconds.

    Raises LoaderError when the process is not there. Resolution 10 ms: measure for seconds.
    """
    if _PROC.is_dir() and (_PROC / "self" / "stat").exists():
        return _from_proc(pid)
    return _from_ps(pid)


def resident_bytes(pid: int) -> int:
    """Resident memory of one process. Raises LoaderError when it is not there."""
    status = _PROC / str(pid) / "status"
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return int(_ps("-o", "rss=", "-p", str(pid)).strip() or 0) * 1024


def peak_bytes(pid: int) -> int | None:
    """The most resident memory that a process ever had; None where the system does not say."""
    status = _PROC / str(pid) / "status"
    if not status.exists():
        return None
    for line in status.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def open_files(pid: int) -> int | None:
    """Open file descriptors; None where the system does not say."""
    folder = _PROC / str(pid) / "fd"
    return len(os.listdir(folder)) if folder.exists() else None


def thread_count(pid: int) -> int | None:
    """Threads of a process; None where the system does not say."""
    folder = _PROC / str(pid) / "task"
    return len(os.listdir(folder)) if folder.exists() else None


def _from_proc(pid: int) -> float:
    ticks = 0
    found = False
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue  # it ended between the listing and the look
        # The name is in parentheses and may hold anything; what follows it is fixed (man 5 proc).
        fields = stat[stat.rindex(")") + 2 :].split()
        if folder.name == str(pid):
            found = True
            ticks += sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime
        elif fields[1] == str(pid):
            ticks += int(fields[11]) + int(fields[12])
    if not found:
        raise LoaderError(f"process {pid} is not there: its CPU cannot be read")
    return ticks / os.sysconf("SC_CLK_TCK")


def _from_ps(pid: int) -> float:
    total = 0.0
    found = False
    for line in _ps("-A", "-o", "pid=,ppid=,time=").splitlines():
        number, parent, text = line.split()
        if number == str(pid) or parent == str(pid):
            found = found or number == str(pid)
            total += clock_seconds(text)
    if not found:
        raise LoaderError(f"process {pid} is not there: its CPU cannot be read")
    return total


def clock_seconds(text: str) -> float:
    """Seconds of the CPU time that `ps` prints: `[[days-]hours:]minutes:seconds[.hundredths]`."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + int(days or 0) * 86_400


def _ps(*arguments: str) -> str:
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False).stdout
