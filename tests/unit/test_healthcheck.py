from __future__ import annotations

import http.server
import threading

import pytest

from loader import healthcheck


@pytest.fixture
def server():
    """A server whose /healthz answers `server.status`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(self.server.status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.status = 200
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_exit_code_is_what_healthz_says(server, monkeypatch, status, code, host):
    server.status = status
    monkeypatch.setenv("LOADER_HTTP_HOST", host)
    monkeypatch.setenv("LOADER_HTTP_PORT", str(server.server_port))
    assert healthcheck.main() == code


def test_nobody_there_is_not_healthy(server):
    server.server_close()
    assert not healthcheck.healthy("127.0.0.1", server.server_port)


def test_a_server_that_is_off_by_choice_is_healthy(monkeypatch):
    monkeypatch.setenv("LOADER_HTTP_PORT", "0")
    assert healthcheck.main() == 0
