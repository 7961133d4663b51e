"""Write secrets of Secret Manager to files that only the worker may read: `fetch_secrets.py NAMES.json FOLDER`.

NAMES.json maps a file name to a version, `projects/P/secrets/S/versions/latest`. The file `pgpass` is written as libpq
reads it (PGPASSFILE), with the secret as the password of every connection. Runs in the loader's image at each start."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

ENDPOINT = "https://secretmanager.googleapis.com"
TIMEOUT_SECONDS = 20
PGPASS = "pgpass"


def pgpass(password: str) -> str:
    """One line for any host, port, database and user; libpq wants `:` and `\\` escaped. Raises ValueError."""
    password = password.rstrip("\r\n")  # what `echo` puts behind a secret
    if "\n" in password or "\0" in password:
        raise ValueError("the password holds a line break or a NUL, which a pgpass file cannot")
    return "*:*:*:*:" + password.replace("\\", "\\\\").replace(":", "\\:") + "\n"


def fetch(session: Any, version: str, endpoint: str = ENDPOINT) -> bytes:
    """The secret's bytes. Raises RuntimeError with the service's answer, which holds no secret when it is an error."""
    response = session.get(f"{endpoint}/v1/{version}:access", timeout=TIMEOUT_SECONDS)
    if response.status_code != 200:
        raise RuntimeError(
            f"secret {version}: HTTP {response.status_code}; does the VM's service account have "
            f"roles/secretmanager.secretAccessor on it? {response.text[:300]}"
        )
    return base64.b64decode(response.json()["payload"]["data"])


def write(path: Path, content: bytes) -> None:
    """Replace the file, never readable by others, not for a moment."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)


def main(names: Path, folder: Path) -> None:
    """Fetch all secrets, then write them. Raises on the first that cannot be had; the unit tries again."""
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    session = AuthorizedSession(credentials)
    endpoint = os.environ.get("SECRET_MANAGER_ENDPOINT", ENDPOINT)
    contents = {name: fetch(session, version, endpoint) for name, version in json.loads(names.read_text()).items()}
    for name, content in contents.items():
        write(folder / name, pgpass(content.decode()).encode() if name == PGPASS else content)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
