"""Lookups: keyed state, the last good one during an outage, no fetch a message."""

from __future__ import annotations

import gzip
import http.server
import json
import threading

import pytest

from loader.bridge.config.model import Lookup, Place
from loader.bridge.frame import Unavailable
from loader.bridge.lookups.lookups import Lookups, Refreshed
from loader.bridge.lookups.state import FetchFailed, fetch, keyed


def lookup(kind: str = "file", refresh: float = 30.0, **options) -> Lookup:
    base = {"key": None, "timeout": 2.0, "type": "auto", "headers": {}, "path": None, "ca_file": None}
    return Lookup("users", kind, refresh, base | options, Place("f", 1))


@pytest.mark.parametrize(
    ("entries", "key", "state"),
    [
        ([{"id": 7}, {"id": "x"}], ("id",), {"7": {"id": 7}, "x": {"id": "x"}}),
        ([{"a": {"id": True}}], ("a", "id"), {"true": {"a": {"id": True}}}),
        ({"a": 1}, None, {"a": 1}),
        (["a", 5], None, {"a": "a", "5": 5}),
        ([], ("id",), {}),
        ({}, None, {}),
    ],
)
def test_entries_are_found_by_the_text_of_their_key(entries, key, state):
    assert keyed(entries, key) == state


@pytest.mark.parametrize(
    ("entries", "key", "says"),
    [
        ([{"id": 7}, {"x": 1}], ("id",), "entry 2 has no id"),
        ([{"id": 7}, {"id": "7"}], ("id",), "two entries have id = '7'"),
        ([{"id": None}], ("id",), "entry 1 has no id"),
        ([{"id": 7}], None, "set key"),
        ("x", ("id",), "neither a list nor a map"),
        (None, None, "neither a list nor a map"),
    ],
)
def test_a_state_that_would_lose_entries_is_refused(entries, key, says):
    with pytest.raises(FetchFailed, match=says):
        keyed(entries, key)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("u.json", b'[{"id":"7","n":"x"}]'),
        ("u.ndjson", b'{"id":"7","n":"x"}\n\n'),
        ("u.csv", b"id,n\n7,x\n"),
        ("u.json.gz", gzip.compress(b'[{"id":"7","n":"x"}]')),
        ("u.csv.gz", gzip.compress(b"id,n\r\n7,x\r\n")),
    ],
)
def test_files_are_read_by_their_ending(tmp_path, name, body):
    (tmp_path / name).write_bytes(body)
    assert fetch(lookup(path=str(tmp_path / name), key=("id",))) == {"7": {"id": "7", "n": "x"}}


BROKEN_GZIP = ("u.json.gz", gzip.compress(b"[1]")[:10] + b"\xff" * 20)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("u.json", b"{"),
        ("u.csv", b"id,n\n7\n"),
        ("u.csv", b"id\n7,8\n"),
        ("u.gz", b"x"),
        ("u.csv", b"\xff\n"),
        BROKEN_GZIP,
    ],
)
def test_a_broken_file_is_a_failed_fetch_and_nothing_else(tmp_path, name, body):
    (tmp_path / name).write_bytes(body)
    with pytest.raises(FetchFailed):
        fetch(lookup(path=str(tmp_path / name), key=("id",)))
    with pytest.raises(FetchFailed, match="cannot be read"):
        fetch(lookup(path=str(tmp_path / "none")))


class Api(http.server.BaseHTTPRequestHandler):
    status = 200
    asked = 0

    def do_GET(self):
        type(self).asked += 1
        assert self.headers["X-Token"] == "t"
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps({"data": {"users": [{"id": 7}]}}).encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def api():
    handler = type("Handler", (Api,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield handler, f"http://127.0.0.1:{server.server_port}/secret-path"
        server.shutdown()
        thread.join()


def test_http_answers_are_read_below_a_path_with_the_headers_given(api):
    handler, url = api
    users = lookup("http", url=url, headers={"X-Token": "t"}, path=("data", "users"), key=("id",))
    assert fetch(users) == {"7": {"id": 7}}
    handler.status = 503
    with pytest.raises(FetchFailed, match="HTTP 503"):
        fetch(users)


def test_a_dead_host_is_a_failed_fetch_that_does_not_show_the_address():
    with pytest.raises(FetchFailed) as raised:
        fetch(lookup("http", url="http://127.0.0.1:1/secret-path"))
    assert "secret-path" not in str(raised.value)


def test_a_database_that_is_not_there_is_a_failed_fetch_without_the_password():
    with pytest.raises(FetchFailed) as raised:
        fetch(lookup("sql", dsn="postgresql://u:hunter2@127.0.0.1:1/d", query="select 1"))
    assert "hunter2" not in str(raised.value)


def test_the_last_good_state_stays_during_an_outage_and_its_age_grows():
    now = [0.0]
    answers: list = [{"a": 1}, FetchFailed("down"), RuntimeError("unexpected"), {"a": 2}]

    def answer(_):
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    refreshed = Refreshed(lookup(), answer, lambda: now[0])
    assert 27 <= refreshed.refresh() <= 33
    now[0] = 10.0
    assert refreshed.refresh() < 2
    now[0] = 20.0
    assert refreshed.refresh() < 3
    assert (refreshed.entries, refreshed.age(), refreshed.failures) == ({"a": 1}, 20.0, 2)
    refreshed.refresh()
    assert (refreshed.entries, refreshed.age(), refreshed.failures) == ({"a": 2}, 0.0, 0)


def test_before_the_first_state_readers_wait_and_are_not_given_an_empty_one():
    ready = threading.Event()

    def answer(_):
        if not ready.is_set():
            raise FetchFailed("down")
        return {}

    lookups = Lookups([lookup(refresh=0.01)], answer)
    with pytest.raises(Unavailable, match="users has not been fetched"):
        lookups.state("users")
    lookups.start()
    try:
        with pytest.raises(Unavailable):
            lookups.state("users")
        ready.set()
        assert lookups.all["users"].wait(5)
        assert lookups.state("users") == {}
    finally:
        lookups.stop()


def test_reading_a_lookup_often_fetches_nothing():
    lookups = Lookups([lookup()], lambda _: {"a": 1})
    lookups.all["users"].refresh()
    for _ in range(1_000):
        lookups.state("users")
    assert lookups.all["users"].fetches == 1
