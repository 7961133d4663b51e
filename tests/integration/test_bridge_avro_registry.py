"""The schema registry as a real HTTP server: asked once, waited for, never taken for a bad message."""

from __future__ import annotations

import io
import json
import ssl
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

pytest.importorskip("confluent_kafka")

sys.path.insert(0, str(Path(__file__).parent))

from bridge_harness import Bridge, ListSink, produce, until

from loader.bridge.formats.avro import make
from loader.bridge.frame import Unavailable, Undecodable
from loader.bridge.registry.client import Access, NoSuchSchema, Registry
from loader.bridge.registry.schemas import NotYetFetched
from loader.bridge.registry.server import RegistryServer
from loader.bridge.stages.flatten import Flatten
from loader.errors import ConfigurationError
from loader.local.kafka import KafkaServer

SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {
            "name": "list",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "E", "fields": [{"name": "n", "type": "long"}]},
            },
        }
    ],
}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def framed(number: int, value: Any, schema: Any = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def fetched(form: Any, value: bytes) -> Any:
    """As the pipeline does it."""
    while True:
        try:
            return form.decode(value)
        except NotYetFetched as missing:
            missing.remedy()


def test_each_schema_is_asked_for_once_and_the_newest_at_the_start(registry):
    old = registry.register("s", SCHEMA)
    wider = json.loads(json.dumps(SCHEMA))
    wider["fields"].append({"name": "more", "type": "string"})
    new = registry.register("s", wider)
    form = make({"registry": registry.url + "/", "subject": "s"})
    assert registry.asked == []
    form.start()
    assert registry.asked == ["/subjects/s/versions/latest"]
    for _ in range(3):
        assert fetched(form, framed(new, {"list": [], "more": "x"}, wider)) == {"list": [], "more": "x"}
        assert fetched(form, framed(old, {"list": [{"n": 1}]})) == {"list": [{"n": 1}]}
    assert registry.asked == ["/subjects/s/versions/latest", f"/schemas/ids/{old}"]


def test_references_are_followed_and_shared_ones_asked_for_once(registry):
    registry.register("base", {"type": "record", "name": "a.Base", "fields": [{"name": "x", "type": "int"}]})
    base = {"name": "a.Base", "subject": "base", "version": 1}
    for name in ("left", "right"):
        fields = [{"name": "base", "type": "a.Base"}]
        registry.register(name, {"type": "record", "name": f"a.{name}", "fields": fields}, [base])
    sides = [{"name": f"a.{name}", "subject": name, "version": 1} for name in ("left", "right")]
    fields = [{"name": name, "type": f"a.{name}"} for name in ("left", "right")]
    number = registry.register("top", {"type": "record", "name": "T", "fields": fields}, sides)
    found = Registry(Access(registry.url)).by_id(number)
    value = {"left": {"base": {"x": 1}}, "right": {"base": {"x": 2}}}
    assert fetched(make({"registry": registry.url}), framed(number, value, found)) == value
    assert registry.asked.count("/subjects/base/versions/1") == 2  # by this client, and by that of the format


def test_an_unknown_id_is_refused_and_asked_for_once(registry):
    form = make({"registry": registry.url})
    for _ in range(3):
        with pytest.raises(Undecodable, match="does not have the schema 9"):
            fetched(form, b"\0\0\0\0\x09x")
    assert registry.asked == ["/schemas/ids/9"]


@pytest.mark.parametrize("kind", ["PROTOBUF", "JSON"])
def test_schemas_of_other_kinds_are_refused(registry, kind):
    number = registry.store.register("s", "{}", kind=kind)
    with pytest.raises(NoSuchSchema, match=kind):
        Registry(Access(registry.url)).by_id(number)


@pytest.mark.parametrize("status", [500, 503, 429, 401, 403, 302, 404])
def test_any_other_answer_is_an_outage(registry, status):
    registry.failing, registry.failing_body = status, b"<html>"
    with pytest.raises(Unavailable, match=f"answers {status}"):
        Registry(Access(registry.url)).by_id(1)


def test_a_registry_that_does_not_answer_is_given_up_in_time():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match="does not answer"):
            Registry(Access(url, timeout=0.2)).by_id(1)
    with pytest.raises(Unavailable, match="does not answer"):
        Registry(Access(url, timeout=0.2)).by_id(1)


@pytest.mark.parametrize(
    ("access", "header"),
    [
        ({"username": "u", "password": "p:ü"}, "Basic " + b64encode("u:p:ü".encode()).decode()),
        ({"token": "t"}, "Bearer t"),
    ],
)
def test_it_enters_by_password_or_token_and_shows_neither(registry, access, header):
    number = registry.register("s", SCHEMA)
    registry.authorization = header
    entry = Access(registry.url, **access)
    assert Registry(entry).by_id(number)["name"] == "R"
    assert "p:ü" not in repr(entry)
    assert "'t'" not in repr(entry)
    with pytest.raises(Unavailable, match="401"):
        Registry(Access(registry.url)).by_id(number)


@pytest.mark.parametrize("wrong", [{"registry": "ftp://x"}, {"registry": "https://x", "ca_file": "/nowhere"}])
def test_what_cannot_work_is_told_at_once(wrong):
    with pytest.raises(ConfigurationError, match="registry"):
        make(wrong)


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Path, Path]:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return key, certificate


def test_tls_with_its_own_authority_and_a_client_certificate(certificates):
    key, certificate = certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with RegistryServer(tls=context) as server:
        number = server.register("s", SCHEMA)
        files = {"ca_file": str(certificate), "cert_file": str(certificate), "key_file": str(key)}
        assert Registry(Access(server.url, **files)).by_id(number)["name"] == "R"
        for lacking in ("ca_file", "cert_file"):
            some = {name: file for name, file in files.items() if name != lacking and name != "key_file"}
            with pytest.raises((Unavailable, ConfigurationError)):
                Registry(Access(server.url, **some, timeout=2.0)).by_id(number)


def test_an_outage_holds_the_pipeline_and_an_unknown_id_goes_to_the_dead_letters(registry):
    number = registry.register("s", SCHEMA)
    registry.failing = 503
    form = make({"registry": registry.url})
    form.start()
    stage = Flatten({"each": ("list",)}, None)  # type: ignore[arg-type]
    with KafkaServer({"events": 4}) as kafka:
        bridge = Bridge(kafka, stages=[stage], format=form)
        dead = ListSink(bridge.flows[0].dead_delivery())
        bridge.flows[0]._dead = dead
        sink = bridge.sinks["one"]
        try:
            produce(kafka.brokers, "events", [framed(number, {"list": [{"n": each}]}) for each in range(100)])
            until(lambda: bridge.flows[0].trouble, "the pipeline is held")
            asked = len(registry.asked)
            until(lambda: len(registry.asked) > asked + 1, "the registry is asked again")
            assert "503" in str(bridge.flows[0].trouble)
            assert (sink.values, dead.values, bridge.flows[0].counts.dead) == ([], [], 0)
            registry.failing = None
            until(lambda: len(sink.values) == 100, lambda: f"{len(sink.values)} of 100")
            assert sorted(json.loads(value)["n"] for value in sink.values) == list(range(100))
            assert bridge.flows[0].trouble is None
            bad = framed(99, {"list": [{"n": 5}]})
            produce(kafka.brokers, "events", [bad, framed(number, {"list": [{"n": 100}]})])
            until(lambda: dead.values and len(sink.values) == 101, "one is dead, its neighbour is not")
            assert dead.values == [bad]
            until(lambda: bridge.flows[0].in_flight == 0, "all is settled")
        finally:
            bridge.stop()


def test_a_slow_registry_holds_no_other_pipeline(registry):
    """What waits for the registry holds no lock that others need."""
    number = registry.register("s", SCHEMA)
    form = make({"registry": registry.url})
    value = framed(number, {"list": []})
    asking, going = threading.Event(), threading.Event()
    original = registry.store.answer

    def slow(*arguments: Any) -> Any:
        asking.set()
        going.wait(10)
        return original(*arguments)

    registry.store.answer = slow  # type: ignore[method-assign]
    thread = threading.Thread(target=fetched, args=(form, value))
    thread.start()
    assert asking.wait(10)
    started = time.monotonic()
    with pytest.raises(NotYetFetched):
        form.decode(value)
    with pytest.raises(Undecodable):
        form.decode(b"{}")
    assert time.monotonic() - started < 5
    going.set()
    thread.join(10)
    assert form.decode(value) == {"list": []}
