"""A small HTTP server for probes, scrapes and profiles: GET only, bounded in threads, in bytes and in time.

A worker loads on whatever a client does here: a slow, silent or broken one costs a thread for a few seconds."""

from __future__ import annotations

import errno
import io
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv6Address, ip_address
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, urlsplit

from loader.errors import ConfigurationError, LoaderError

log = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
"""For the whole of a request to arrive, however its bytes are spread."""
ANSWER_SECONDS = 10.0
MOST_REQUEST_BYTES = 16 * 1024
MOST_CLIENTS = 32


@dataclass(frozen=True, slots=True)
class Request:
    """What an endpoint may ask about a request."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in lower case."""
    peer: str
    """Address at the other end of the socket; no header can say otherwise."""

    @property
    def from_loopback(self) -> bool:
        """The client is on this machine."""
        try:
            address = ip_address(self.peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped  # a dual-stack socket's way to spell an IPv4 client
        return address.is_loopback


@dataclass(frozen=True, slots=True)
class Response:
    """What an endpoint answers."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Endpoint = Callable[[Request], Response]


def text(status: int, body: str, headers: Mapping[str, str] | None = None) -> Response:
    """A line of text as an answer."""
    return Response(body.rstrip("\n").encode("utf-8", "replace") + b"\n", status=status, headers=headers or {})


class HttpServer:
    """Serves endpoints by their paths in threads of its own. Port 0 takes a free one.

    Raises ConfigurationError when the address cannot be had."""

    def __init__(self, host: str, port: int, endpoints: Mapping[str, Endpoint]) -> None:
        try:
            self._server = _Server(host, port, endpoints)
        except (OSError, OverflowError) as error:
            raise _refused(host, port, error) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Take no more clients; those being served are not waited for. May be called without `start`."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _refused(host: str, port: int, error: Exception) -> LoaderError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return ConfigurationError(
            f"Port {port} on {host} is taken by another program: set LOADER_HTTP_PORT to a free one, or to 0 for none"
        )
    if number == errno.EACCES:
        return ConfigurationError(f"Port {port} on {host} is not allowed to this user: set LOADER_HTTP_PORT above 1023")
    return ConfigurationError(f"LOADER_HTTP_HOST {host!r} is no address of this machine ({error}): set another")


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = endpoints
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("A client of the HTTP server went wrong", exc_info=True)


class _Request(io.RawIOBase):
    """The bytes of one request, within its limits of size and time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self._left = MOST_REQUEST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0 or self._left <= 0:
            raise TimeoutError("the request is too long or too slow")
        self._connection.settimeout(left)
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "loader"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection), 4096)

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        endpoint = self.server.endpoints.get(split.path)
        if endpoint is None:
            self._answer(text(HTTPStatus.NOT_FOUND, f"nothing here; there is {', '.join(self.server.endpoints)}"))
            return
        request = Request(
            split.path,
            {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()},
            {name.lower(): value for name, value in self.headers.items()},
            str(self.client_address[0]),
        )
        try:
            response = endpoint(request)
        except Exception:
            log.exception("The HTTP endpoint %s failed", split.path)
            response = text(HTTPStatus.INTERNAL_SERVER_ERROR, "this failed; the log says why")
        self._answer(response)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._answer(text(HTTPStatus.METHOD_NOT_ALLOWED, "GET only", {"Allow": "GET, HEAD"}))

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST

    def _answer(self, response: Response) -> None:
        # One request a connection: nothing of a client's is left to wait for.
        self.close_connection = True
        self.connection.settimeout(ANSWER_SECONDS)
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("HTTP %s " + format, self.client_address[0], *args)
