"""The HTTP server over real sockets: what clients get, and what hostile ones cannot do."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator

import pytest

import loader.observe.http as subject
from loader.errors import ConfigurationError
from loader.healthcheck import healthy
from loader.observe.http import HttpServer, Request, Response, text


@pytest.fixture
def serve() -> Iterator[Callable[..., HttpServer]]:
    servers: list[HttpServer] = []

    def start(host: str = "127.0.0.1", **endpoints: Callable[[Request], Response]) -> HttpServer:
        paths = {f"/{name}": endpoint for name, endpoint in endpoints.items()}
        server = HttpServer(host, 0, paths or {"/healthz": lambda request: text(200, "ok")})
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()


def get(server: HttpServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())


def raw(server: HttpServer, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        received = b""
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(65536):
                received += chunk
        return received


def test_an_endpoint_gets_path_query_headers_and_peer(serve) -> None:
    seen: list[Request] = []

    def endpoint(request: Request) -> Response:
        seen.append(request)
        return text(200, "fine")

    status, body, headers = get(
        serve(a=endpoint), "/a?x=1&x=2&y=", Authorization="Bearer t", **{"X-Forwarded-For": "8.8.8.8"}
    )
    assert (status, body) == (200, b"fine\n")
    assert headers["Connection"] == "close"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in headers["Server"]
    assert seen[0].query == {"x": "2", "y": ""}
    assert seen[0].headers["authorization"] == "Bearer t"
    assert seen[0].peer == "127.0.0.1"


def test_only_get_and_head_are_answered(serve) -> None:
    server = serve()
    assert get(server, "/healthz", "HEAD")[:2] == (200, b"")
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert get(server, "/healthz", method)[0] == 405
    assert get(server, "/elsewhere")[0] == 404
    assert b"501" in raw(server, b"BREW / HTTP/1.1\r\n\r\n")


def test_a_containers_healthcheck_reaches_it(serve) -> None:
    server = serve()
    assert healthy("127.0.0.1", server.port)
    assert not healthy("127.0.0.1", serve(healthz=lambda request: text(503, "no")).port)


def test_a_failing_endpoint_is_an_answer_without_details(serve, caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        raise RuntimeError("internal detail")

    server = serve(broken=broken, fine=lambda request: text(200, "ok"))
    status, body, _ = get(server, "/broken")
    assert status == 500
    assert b"internal" not in body
    assert "internal detail" in caplog.text
    assert get(server, "/fine")[0] == 200


def test_a_port_that_is_taken_is_named(serve) -> None:
    port = serve().port
    with pytest.raises(ConfigurationError, match=f"Port {port} on 127.0.0.1 is taken.*LOADER_HTTP_PORT") as caught:
        HttpServer("127.0.0.1", port, {})
    assert caught.value.exit_code == 78


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"LOADER_HTTP_HOST '192\.0\.2\.1'"):
        HttpServer("192.0.2.1", 0, {})


def test_ipv6_is_served_where_there_is_ipv6(serve) -> None:
    try:
        server = serve("::1")
    except ConfigurationError:
        pytest.skip("no IPv6 here")
    with contextlib.closing(http.client.HTTPConnection("::1", server.port, timeout=10)) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200


def test_a_request_that_is_too_long_ends(serve) -> None:
    server = serve()
    assert b" 200 " not in raw(server, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
    assert b" 200 " not in raw(server, b"GET /healthz HTTP/1.1\r\n" + b"X: " + b"b" * 1_000_000)
    assert b" 200 " not in raw(server, b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n")
    assert get(server, "/healthz")[0] == 200


def test_clients_that_never_finish_are_let_go_and_hold_up_nobody(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "REQUEST_SECONDS", 0.5)
    server = serve()
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(subject.MOST_CLIENTS - 1)]
    try:
        for connection in slow:
            connection.sendall(b"GET /healthz HT")
        assert get(server, "/healthz")[0] == 200
        assert all(connection.recv(1000) == b"" for connection in slow)
    finally:
        for connection in slow:
            connection.close()


def test_a_request_that_trickles_in_has_one_deadline_for_all_of_it(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "REQUEST_SECONDS", 0.3)
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as connection:
        for _ in range(400):  # each byte well within the deadline, all of them far beyond it
            try:
                connection.sendall(b"x")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the server still listens")


def test_threads_are_bounded(serve) -> None:
    server = serve()
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(subject.MOST_CLIENTS)]
    try:
        with contextlib.suppress(ConnectionError):
            assert raw(server, b"GET /healthz HTTP/1.1\r\n\r\n") == b""
    finally:
        for connection in held:
            connection.close()


def test_closing_frees_the_port() -> None:
    server = HttpServer("127.0.0.1", 0, {})
    server.start()
    port = server.port
    server.close()
    HttpServer("127.0.0.1", port, {}).close()
