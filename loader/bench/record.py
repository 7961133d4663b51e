"""The record of a benchmark: what was measured, where and with what, as JSON that is kept."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from loader import __version__

RESULTS = Path("tests/benchmarks/results")
_PACKAGES = ("dlt", "psycopg", "orjson", "grpcio", "protobuf", "google-cloud-pubsub")


def make_record(
    name: str, command: str, parameters: dict[str, Any], results: dict[str, Any], versions: dict[str, str]
) -> dict[str, Any]:
    """A complete record. `command` repeats the run; `versions` adds servers to the packages' versions."""
    return {
        "benchmark": name,
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {"loader": __version__, **package_versions(), **versions},
        "parameters": parameters,
        "results": results,
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that the figures depend on."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def cpu_name() -> str:
    """The processor as the system calls it."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    if match:
        return match[1]
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return platform.processor() or "unknown"


def save(record: dict[str, Any], folder: Path) -> Path:
    """Keeps the record as `NAME-DATE.json`; returns where."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = re.sub(r"[^0-9]", "", record["date"][:19])
    path = folder / f"{record['benchmark']}-{stamp}.json"
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return path
