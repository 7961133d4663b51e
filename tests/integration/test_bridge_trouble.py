"""Trouble of one sink: bounded in look-ups, in memory and in time, and nobody else's."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import Bridge, Json, ListSink, committed, produce, until

from loader.bridge.engine.flow import Limits
from loader.bridge.engine.reader import Pace
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame, Payload
from loader.bridge.sinks.file import FileSink
from loader.bridge.sinks.http import HttpSink, retry_after
from loader.bridge.sinks.pubsub import PubsubSink
from loader.bridge.sinks.sink import Origin
from loader.bridge.stages.stage import Outcome
from loader.errors import ConfigurationError
from loader.local.kafka import API_OFFSET_COMMIT, KafkaServer
from loader.local.pubsub_server import PubsubServer
from loader.local.services import Publisher
from loader.pull import protocol as pb
from loader.pull.channel import Stub, open_channel


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer({"events": 4}) as server:
        yield server


def _values(count: int, start: int = 0) -> list[bytes]:
    return [b'{"n": %d}' % number for number in range(start, start + count)]


def test_a_missing_topic_costs_few_requests_and_no_neighbour(kafka, monkeypatch):
    calls = []
    publish = Publisher.Publish

    def counted(self, request, context):
        calls.append(request.topic)
        return publish(self, request, context)

    monkeypatch.setattr(Publisher, "Publish", counted)
    missing = "projects/project/topics/missing"
    values = _values(6_000)
    produce(kafka.brokers, "events", values)
    # A server of its own, made after the counting began.
    with PubsubServer() as server:

        def make(flow):
            if flow.name == "well":
                return ListSink(flow.delivery("list"))
            return PubsubSink("out", missing, lambda: open_channel(server.endpoint), flow.delivery("out"), Timer())

        bridge = Bridge(kafka, ["well", "missing"], make_sink=make, limits=Limits(messages=1_000))
        until(lambda: len(bridge.sinks["well"].values) == 6_000)
        until(lambda: len(calls) >= 5)
        assert len(calls) < 60, "a request for each backoff, not for each message"
        assert "NOT_FOUND" in bridge.flows[1].trouble
        assert bridge.flows[1].counts.dead == 0
        assert bridge.flows[1].in_flight <= 3_000
        with open_channel(server.endpoint) as channel:
            Stub(channel).create_topic(pb.Topic(name=missing))
        until(lambda: bridge.flows[1].counts.sent == 6_000, lambda: str(bridge.flows[1].counts), 60)
        assert bridge.stop()


def test_a_dead_host_makes_no_look_up_a_message(kafka, monkeypatch):
    looked = []
    original = socket.getaddrinfo

    def count(host, *rest, **more):
        if host == "dead.invalid":
            looked.append(host)
            raise socket.gaierror(socket.EAI_NONAME, "no such host")
        return original(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", count)
    produce(kafka.brokers, "events", _values(4_000))

    def make(flow):
        if flow.name == "well":
            return ListSink(flow.delivery("list"))
        return HttpSink("dead", "http://dead.invalid/x", flow.delivery("dead"), Timer())

    bridge = Bridge(kafka, ["well", "dead"], make_sink=make, limits=Limits(messages=500))
    until(lambda: len(bridge.sinks["well"].values) == 4_000)
    until(lambda: len(looked) >= 4)
    assert len(looked) < 40
    assert bridge.flows[1].counts.dead == 0
    bridge.stop(seconds=0.5)


def test_a_partition_that_goes_with_a_dead_sink_goes_in_bounded_time(kafka):
    produce(kafka.brokers, "events", _values(400))
    pace = Pace(commit=0.2, revoke=1.0)
    first = Bridge(kafka, pace=pace)
    first.sinks["one"].hold = True
    until(lambda: first.flows[0].in_flight == 400)
    began = time.monotonic()
    second = Bridge(kafka, pace=pace)
    until(lambda: second.reader._source is not None and len(second.reader._source.assigned) == 2, seconds=15)
    assert time.monotonic() - began < 12
    until(lambda: len(second.sinks["one"].values) == 200, "what the first could not deliver, the second does")
    assert sum(committed(kafka.brokers, "bridge", "events").values()) <= 200
    first.stop(seconds=0.5)
    second.stop()


def test_commits_that_are_refused_are_made_good(kafka):
    produce(kafka.brokers, "events", _values(400))
    bridge = Bridge(kafka)
    until(lambda: len(bridge.sinks["one"].values) == 400)
    kafka.fail(API_OFFSET_COMMIT, [27, 22, 27])
    produce(kafka.brokers, "events", _values(40, 400))
    until(lambda: len(bridge.sinks["one"].values) == 440)
    until(lambda: sum(committed(kafka.brokers, "bridge", "events").values()) == 440)
    assert bridge.reader.fault is None
    assert bridge.stop()


def test_a_rebalance_under_load_loses_nothing(kafka):
    made: list[bytes] = []
    enough = threading.Event()

    def feed():
        while not enough.wait(0.05):
            values = [b"%d" % number for number in range(len(made), len(made) + 500)]
            produce(kafka.brokers, "events", values)
            made.extend(values)

    feeding = threading.Thread(target=feed)
    feeding.start()
    bridges = [Bridge(kafka)]
    try:
        for _ in range(2):
            until(lambda: bridges[-1].sinks["one"].values, seconds=20)
            bridges.append(Bridge(kafka))
        until(lambda: bridges[-1].sinks["one"].values, seconds=20)
        assert bridges[0].stop()
    finally:
        enough.set()
        feeding.join()
    # What a bridge delivered when a rebalance refused its commit is delivered again by the next owner, then committed.
    until(lambda: sum(committed(kafka.brokers, "bridge", "events").values()) == len(made), lambda: f"{len(made)}", 40)
    assert set().union(*(bridge.sinks["one"].values for bridge in bridges)) == set(made)
    for bridge in bridges[1:]:
        assert bridge.stop()
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == len(made)


def test_a_slow_sink_bounds_what_is_in_flight(kafka):
    produce(kafka.brokers, "events", [b"x" * 20_000] * 800)
    bridge = Bridge(kafka, limits=Limits(messages=10_000, bytes=1 << 20))
    bridge.sinks["one"].hold = True
    until(lambda: bridge.flows[0].in_flight_bytes >= 1 << 20)
    # One read beyond the bound, at most.
    assert bridge.flows[0].in_flight_bytes < (1 << 20) + (9 << 20)
    before = bridge.flows[0].in_flight
    time.sleep(0.5)  # nothing more may come, and that takes time to see
    assert bridge.flows[0].in_flight == before
    bridge.sinks["one"].release()
    until(lambda: bridge.flows[0].counts.sent == 800)
    assert bridge.stop()


class _Mutates:
    """Changes a field through the frame, and sends only some on."""

    def apply(self, frames):
        for frame in frames:
            frame.set(["n"], -1)
        return Outcome(frames)


class _Reads:
    def apply(self, frames):
        return Outcome([frame for frame in frames if frame.get(["n"]) >= 0])


def test_a_stage_changes_neither_the_neighbours_nor_the_untouched_bytes(kafka):
    class Exact(Json):
        def decode_exactly(self, value, fields):
            return fields

    values = [b'{ "n" :  %d}' % number for number in range(500)]
    produce(kafka.brokers, "events", values)
    bridge = Bridge(kafka, ["changes", "reads"], format=Exact())
    bridge.flows[0]._chain.stages[:] = [_Mutates()]
    bridge.flows[1]._chain.stages[:] = [_Reads()]
    until(lambda: all(len(sink.values) == 500 for sink in bridge.sinks.values()))
    assert sorted(bridge.sinks["reads"].values) == sorted(values)
    assert set(bridge.sinks["changes"].values) == {b'{"n":-1}'}
    assert sum(flow.counts.decodes for flow in bridge.flows) == 500, "decoded once for both"
    assert bridge.stop()


def test_untouched_payloads_leave_as_they_came_and_are_not_decoded(kafka):
    values = [b'{ "n" :  %d}' % number for number in range(500)]
    produce(kafka.brokers, "events", values)
    bridge = Bridge(kafka, format=Json())
    until(lambda: len(bridge.sinks["one"].values) == 500)
    assert sorted(bridge.sinks["one"].values) == sorted(values)
    assert bridge.flows[0].counts.decodes == 0
    assert bridge.stop()


class _Http(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.judge(body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@pytest.fixture
def http() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Http)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_refused_message_of_a_batch_is_found_and_buried_alone(kafka, http, tmp_path):
    got: list[int] = []

    def judge(body):
        numbers = [each["n"] for each in json.loads(body)]
        if 13 in numbers:
            return 422
        got.extend(numbers)
        return 200

    http.judge = judge
    produce(kafka.brokers, "events", _values(200))
    dead = tmp_path / "dead.ndjson"
    bridge = Bridge.__new__(Bridge)

    def make(flow):
        flow._dead = FileSink("dead", str(dead), flow.dead_delivery(), lines="messages")
        url = f"http://127.0.0.1:{http.server_port}/"
        return HttpSink("http", url, flow.delivery("http"), Timer(), batch="array")

    bridge.__init__(kafka, make_sink=make)
    until(lambda: bridge.flows[0].counts.sent == 199, lambda: str(bridge.flows[0].counts))
    until(lambda: bridge.flows[0].in_flight == 0)
    assert sorted(got) == [number for number in range(200) if number != 13]
    [letter] = [json.loads(line) for line in dead.read_text().splitlines()]
    assert letter["value"] == '{"n": 13}'
    reasons = {each["name"]: each["value"] for each in letter["headers"]}
    assert reasons["dead_reason"].startswith("HTTP 422")
    assert reasons["dead_topic"] == "events"
    assert bridge.stop()
    assert sum(committed(kafka.brokers, "bridge", "events").values()) == 200


def test_an_outage_is_retried_and_makes_no_dead_letter(kafka, http):
    answers = [503, 429, 401, 500]
    got: list[bytes] = []

    def judge(body):
        if answers:
            return answers.pop()
        got.append(body)
        return 204

    http.judge = judge
    produce(kafka.brokers, "events", _values(20))

    def make(flow):
        return HttpSink("http", f"http://127.0.0.1:{http.server_port}/", flow.delivery("http"), Timer())

    bridge = Bridge(kafka, make_sink=make)
    until(lambda: bridge.flows[0].counts.sent == 20)
    assert sorted(got) == sorted(_values(20))
    assert bridge.flows[0].counts.dead == 0
    assert bridge.stop()


def test_retry_after_is_a_number_or_a_date():
    assert retry_after("120", 0.0) == 120.0
    assert retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 10.0) == 50.0
    assert retry_after("soon", 0.0) is None
    assert retry_after(None, 0.0) is None


@pytest.mark.parametrize(
    ("url", "headers", "ca_file"),
    [
        ("ftp://a/", {}, None),
        ("http://", {}, None),
        ("http://a:x/", {}, None),
        ("http://a/", {"a b": "1"}, None),
        ("http://a/", {"a": "1\n"}, None),
        ("https://a/", {}, "/no/such/file"),
    ],
)
def test_an_http_endpoint_that_no_request_can_be_made_of_is_refused(url, headers, ca_file):
    with pytest.raises(ConfigurationError, match="the endpoint out: "):
        HttpSink("out", url, None, None, headers=headers, ca_file=ca_file)


def test_an_identity_beyond_ascii_is_sent_and_a_request_that_cannot_be_made_is_told(http, monkeypatch, caplog):
    http.judge = lambda body: 204
    told, settled = threading.Event(), threading.Event()

    class Delivered:
        def confirm(self, share, count, size):
            settled.set()

    sink = HttpSink("out", f"http://127.0.0.1:{http.server_port}/", Delivered(), Timer())
    frame = Frame(Payload(b"{}", Json()), None, (), "ключ", 0, 0, 0, Origin("ключ", 0, "file/ключ/0/"))
    sink.send([frame], None, 1.0)
    assert settled.wait(10)

    monkeypatch.setattr(sink, "_body", lambda frames: [][0])
    monkeypatch.setattr(sink._requests, "_fail", lambda request, outcome: told.set())
    sink.send([frame], None, 1.0)
    assert told.wait(10)
    assert "a request cannot be made" in caplog.text
    sink.close(0.0)
