"""A schema registry for demo and tests: real HTTP on 127.0.0.1, everything in memory.

`python -m loader.bridge.registry.server` in a process of its own, or RegistryServer in a test. It has what producers
and consumers ask for: register, by id, by subject and version, lists. It checks no compatibility.
"""

from __future__ import annotations

import json
import re
import signal
import ssl
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, Any]


class Store:
    """Schemas by id, and versions of subjects. The same text with the same references has one id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}

    def register(
        self, subject: str, schema: str, references: Sequence[Mapping[str, Any]] = (), kind: str = "AVRO"
    ) -> int:
        """The schema's id, a new one if it is new."""
        entry: dict[str, Any] = {"schema": schema}
        if references:
            entry["references"] = list(references)
        if kind != "AVRO":
            entry["schemaType"] = kind
        key = json.dumps(entry, sort_keys=True)
        with self._lock:
            number = self._ids.setdefault(key, len(self._ids) + 1)
            self._schemas[number] = entry
            versions = self._subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
        return number

    def answer(self, method: str, path: str, body: Any) -> Answer:
        """What a registry says."""
        path = path.partition("?")[0]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            entry = self._schemas.get(int(found[1]))
            return (200, entry) if entry is not None else (404, _error(40403, "Schema not found"))
        if path == "/subjects":
            return 200, sorted(self._subjects)
        found = re.fullmatch(r"/subjects/([^/]+)(?:/versions(?:/(\w+))?)?", path)
        if found is None:
            return 404, _error(404, "HTTP 404 Not Found")
        subject, version = unquote(found[1]), found[2]
        if method == "POST":
            number = self.register(
                subject, body["schema"], body.get("references") or (), body.get("schemaType") or "AVRO"
            )
            return 200, {"id": number, "subject": subject, "version": self._subjects[subject].index(number) + 1}
        versions = self._subjects.get(subject)
        if versions is None:
            return 404, _error(40401, "Subject not found")
        if version is None:
            return 200, list(range(1, len(versions) + 1))
        wanted = len(versions) if version == "latest" else int(version) if version.isdigit() else 0
        if not 1 <= wanted <= len(versions):
            return 404, _error(40402, "Version not found")
        number = versions[wanted - 1]
        return 200, {"subject": subject, "version": wanted, "id": number, **self._schemas[number]}


def _error(code: int, text: str) -> dict[str, Any]:
    return {"error_code": code, "message": text}


class RegistryServer:
    """A context manager; `url` is its address. `failing` is a status to answer with instead, `authorization` a header
    that requests must have, `asked` the paths that were asked for."""

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.store = Store()
        self.failing: int | None = None
        self.failing_body: bytes = b"{}"
        self.authorization: str | None = None
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if tls is not None else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """The port, to come back at."""
        return int(self._server.server_address[1])

    def register(self, subject: str, schema: Any, references: Sequence[Mapping[str, Any]] = ()) -> int:
        """The id of a schema, given as data or text."""
        return self.store.register(subject, schema if isinstance(schema, str) else json.dumps(schema), references)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(size) if size else b""
                server.asked.append(self.path)
                if server.failing is not None:
                    self._reply(server.failing, server.failing_body)
                elif server.authorization is not None and self.headers.get("Authorization") != server.authorization:
                    self._reply(401, json.dumps(_error(401, "Unauthorized")).encode())
                else:
                    status, answer = server.store.answer(self.command, self.path, json.loads(raw) if raw else {})
                    self._reply(status, json.dumps(answer).encode())

            def _reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def start(self) -> RegistryServer:
        """Serve in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End; what was registered is gone."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> RegistryServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main() -> int:
    """Serve until SIGTERM or SIGINT. Prints one line with the address once it answers."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with RegistryServer() as server:
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
