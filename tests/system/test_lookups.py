"""Nothing but Pub/Sub and the database is looked up or connected to, from the start to the stop."""

from __future__ import annotations

import json
import sys

import pytest

_SPY = """
import atexit, json, os, sys
_seen = []
def _hook(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        target = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        with open(os.environ["SPY_FILE"], "a") as file:
            file.write(json.dumps([event, str(target)]) + "\\n")
sys.addaudithook(_hook)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_no_host_but_pubsub_and_the_database_is_looked_up(worker, database, topic, orders, postgres, tmp_path, until):
    (tmp_path / "sitecustomize.py").write_text(_SPY)
    spied = tmp_path / "seen"
    spied.touch()
    topic.publish(orders(50))
    # Not as in a test of the product's own: the path of the package comes second here.
    root = __file__.partition("/tests/")[0]
    one = worker(environment={"PYTHONPATH": f"{tmp_path}:{root}", "SPY_FILE": str(spied)})
    remotes: set[tuple[str, int]] = set()
    until(lambda: remotes.update(one.remotes()) or database.count("order") == 50, "50 rows")
    topic.publish(orders(50, start=50, late=1))
    until(lambda: remotes.update(one.remotes()) or database.count("order") == 100, "100 rows")
    remotes.update(one.remotes())
    assert one.stop()[0] == 0
    allowed = {("127.0.0.1", postgres.port), ("127.0.0.1", topic.server.port)}
    assert remotes, "the sockets of the worker are seen"
    assert remotes <= allowed
    for event, target in map(json.loads, spied.read_text().splitlines()):
        assert "127.0.0.1" in target or target == "None", (event, target)
