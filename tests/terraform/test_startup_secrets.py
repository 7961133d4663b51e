"""fetch_secrets.py against a metadata server and a Secret Manager on loopback, with Google's own client."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from psycopg.conninfo import make_conninfo

SCRIPT = Path(__file__).resolve().parents[2] / "startup/fetch_secrets.py"
PASSWORD = "p:a\\s's wörd"


class Google(BaseHTTPRequestHandler):
    """A metadata server that gives a token, and a Secret Manager that wants it."""

    secrets: ClassVar = {
        "projects/p/secrets/db/versions/latest": PASSWORD.encode() + b"\n",
        "projects/p/secrets/k/versions/3": b"\0\n",
    }

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(200, "computeMetadata/")
            return
        if path.startswith("/computeMetadata"):
            assert self.headers["Metadata-Flavor"] == "Google"
            if path.endswith("/token"):
                self._answer(200, {"access_token": "T", "expires_in": 3600, "token_type": "Bearer"})
            elif path.endswith("/project-id"):
                self._answer(200, "p")
            else:
                self._answer(200, {"email": "loader@p.iam", "scopes": ["s"], "aliases": []})
            return
        name = path.removeprefix("/v1/").removesuffix(":access")
        if self.headers["Authorization"] != "Bearer T":
            self._answer(401, {"error": "no token"})
        elif name not in self.secrets:
            self._answer(403, {"error": {"message": "Permission denied"}})
        else:
            self._answer(200, {"name": name, "payload": {"data": base64.b64encode(self.secrets[name]).decode()}})

    def _answer(self, code: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/text" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def fetch(tmp_path):
    """Runs the script with names; gives the finished process and the folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Google)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    folder = tmp_path / "secrets"
    folder.mkdir()

    def run(names):
        (tmp_path / "names.json").write_text(json.dumps(names))
        host = f"127.0.0.1:{server.server_port}"
        environment = {
            "PATH": os.environ["PATH"],
            "GCE_METADATA_HOST": host,
            "GCE_METADATA_IP": host,
            "SECRET_MANAGER_ENDPOINT": f"http://{host}",
            "HOME": str(tmp_path),
            "GOOGLE_APPLICATION_CREDENTIALS": "",
            "CLOUDSDK_CONFIG": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, SCRIPT, tmp_path / "names.json", folder],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done, folder

    yield run
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_password_becomes_a_file_that_libpq_reads(fetch):
    done, folder = fetch({"pgpass": "projects/p/secrets/db/versions/latest"})
    assert done.returncode == 0, done.stderr
    path = folder / "pgpass"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "*:*:*:*:p\\:a\\\\s's wörd\n"
    assert not list(folder.glob("*.new"))


def test_other_secrets_are_written_to_the_byte(fetch):
    done, folder = fetch({"kafka": "projects/p/secrets/k/versions/3"})
    assert done.returncode == 0, done.stderr
    assert (folder / "kafka").read_bytes() == b"\0\n"


def test_a_new_version_replaces_the_old_file(fetch):
    _, folder = fetch({"kafka": "projects/p/secrets/k/versions/3"})
    (folder / "kafka").write_bytes(b"old")
    fetch({"kafka": "projects/p/secrets/k/versions/3"})
    assert (folder / "kafka").read_bytes() == b"\0\n"


def test_a_refusal_names_the_secret_and_the_role_and_writes_nothing(fetch):
    done, folder = fetch({"kafka": "projects/p/secrets/k/versions/3", "pgpass": "projects/p/secrets/other/versions/1"})
    assert done.returncode != 0
    assert "projects/p/secrets/other/versions/1" in done.stderr
    assert "secretmanager.secretAccessor" in done.stderr
    assert list(folder.iterdir()) == []


def test_libpq_takes_the_escaped_password(fetch):
    from psycopg.pq import PGconn

    _, folder = fetch({"pgpass": "projects/p/secrets/db/versions/latest"})
    # libpq looks a password up before it connects: the port is closed, the look-up done.
    conninfo = make_conninfo(host="127.0.0.1", port=1, user="u", dbname="d", passfile=str(folder / "pgpass"))
    connection = PGconn.connect_start(conninfo.encode())
    try:
        assert connection.password == PASSWORD.encode()
    finally:
        connection.finish()
