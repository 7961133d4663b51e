"""The account that a program runs under which refuses to run as root, and the folders that it can reach."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.errors import LoaderError

SHARED = Path("/var/tmp")


@dataclass(frozen=True)
class Account:
    """An unprivileged account of this machine."""

    name: str
    user: int
    group: int

    def spawn(self) -> dict[str, Any]:
        """Keyword arguments for subprocess: the child runs as this account and with none of our groups."""
        return {"user": self.user, "group": self.group, "extra_groups": []}

    def can(self, test: str, path: Path) -> bool:
        """Whether `path` passes `test -x` or `-r` for the account; asked as that account, so that all rules count."""
        command = ["/bin/sh", "-c", f'test -{test} "$1"', "sh", str(path)]
        return subprocess.run(command, cwd="/", check=False, **self.spawn()).returncode == 0

    def own(self, folder: Path) -> None:
        """Gives a folder and what is in it to the account."""
        for root, _, files in os.walk(folder):
            for path in (root, *(os.path.join(root, name) for name in files)):
                os.chown(path, self.user, self.group, follow_symlinks=False)


def unprivileged() -> Account | None:
    """None unless this process is root. Makes no account: takes `postgres` if there is one, else `nobody`.

    initdb looks its account up by name, so that a bare number would not do.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise LoaderError("Postgres does not run as root, and there is no account 'postgres' or 'nobody' to run it as.")


def reachable_folder(wanted: Path, account: Account) -> Path:
    """`wanted`, or a folder under /var/tmp that stands for it when the account cannot enter its parents."""
    if account.can("x", wanted.parent):
        return wanted
    return _shared(f"loader-data-{_digest(wanted)}")


def reachable_programs(folder: Path, account: Account) -> Path:
    """`folder` (a `bin` with its `lib` and `share` beside it), or a copy of all three that the account can enter."""
    if account.can("x", folder / "postgres"):
        return folder
    prefix = folder.parent
    package = prefix.parent
    stamp = (folder / "postgres").stat()
    copy = _shared(f"loader-programs-{_digest(prefix, stamp.st_size, stamp.st_mtime_ns)}")
    # The depth is kept: a wheel's programs look for their libraries in PACKAGE.libs, by a path relative to their own.
    wanted = {prefix / part: Path(package.name, prefix.name, part) for part in ("lib", "share", "bin")}
    wanted[package.with_name(f"{package.name}.libs")] = Path(f"{package.name}.libs")
    done = copy / "done"
    if not done.exists():
        for source, place in wanted.items():
            if source.is_dir() and not (copy / place).exists():
                # Built aside and moved: another process never sees half a folder.
                aside = Path(tempfile.mkdtemp(dir=copy))
                shutil.copytree(source, aside / "part", symlinks=True)
                (copy / place).parent.mkdir(parents=True, exist_ok=True)
                (copy / place).parent.chmod(0o755)
                with contextlib.suppress(OSError):  # another process was first, and its copy is as good
                    (aside / "part").rename(copy / place)
                shutil.rmtree(aside)
        done.touch()
    return copy / package.name / prefix.name / "bin"


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def _shared(name: str) -> Path:
    """A folder of root's under /var/tmp that all can enter; raises LoaderError if somebody else made it."""
    folder = SHARED / name
    folder.mkdir(mode=0o755, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise LoaderError(f"{folder} belongs to somebody else or others can write to it: remove it.")
    folder.chmod(0o755)
    return folder
