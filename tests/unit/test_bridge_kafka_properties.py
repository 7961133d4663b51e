"""librdkafka's properties in a file: what the client does not take is told by the check, and before anything starts."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from contextlib import closing

import pytest

pytest.importorskip("confluent_kafka")

from loader.bridge.config.instance import Instance
from loader.bridge.config.load import examine, parse_configuration
from loader.bridge.engine.run import Engine
from loader.errors import ConfigurationError

A = '1: endpoint "kafka" "a" as a source: properties: '
B = '9: endpoint "kafka" "b" as a sink: properties: '


def kafka(name: str, properties: str = "", more: str = "", brokers: str = "127.0.0.1:1") -> str:
    return (
        f'endpoint "kafka" "{name}" {{\n region = "eu"\n environment = "test"\n brokers = "{brokers}"\n'
        f' topic = "{name}"\n{more}\n properties = {{ {properties} }}\n}}\n'
    )


def pipeline(source: str = "a", sink: str = "b", name: str = "p") -> str:
    return f'pipeline "{name}" {{\n source = "{source}"\n sinks = "{sink}"\n on_refusal = "stop"\n}}\n'


def found(tmp_path, text: str, environ: dict[str, str] | None = None, severity: str = "error") -> list[str]:
    path = tmp_path / "f.hcl"
    path.write_text(text)
    return [f"{each.place.line}: {each.text}" for each in examine(path, environ or {}) if each.severity == severity]


def test_each_property_that_the_client_does_not_take_is_named_with_its_endpoint_and_why(tmp_path):
    source = kafka("a", '"fetch.wait.maxx.ms" = 5, "socket.timeout.ms" = 5, "fetch.min.bytes" = 1024')
    sink = kafka("b", '"linger.ms" = "soon", "error_cb" = "x"')
    unused = kafka("c", '"nonsense" = 1')
    told = found(tmp_path, source + sink + unused + pipeline())
    expected = (
        A + 'fetch.wait.maxx.ms: No such configuration property: "fetch.wait.maxx.ms"',
        A + 'socket.timeout.ms: Configuration property "socket.timeout.ms" value 5 is outside allowed range',
        B + 'linger.ms: Invalid value for configuration property "queue.buffering.max.ms"',
        B + "error_cb: error_cb is refused: it takes a function of a program",
    )
    assert len(told) == len(expected)
    assert all(error.startswith(words) for error, words in zip(told, expected, strict=True)), told


def test_an_endpoint_that_is_both_is_asked_as_both_and_what_is_the_same_is_told_once(tmp_path):
    text = kafka("a", '"nonsense" = 1, "max.in.flight" = 50') + kafka("b") + kafka("c")
    errors = found(tmp_path, text + pipeline("a", "b", "p") + pipeline("c", "a", "q"))
    assert len(errors) == 2
    assert "as a source: properties: nonsense" in errors[0]
    assert "as a sink: Failed to create producer: `max.in.flight`" in errors[1]


def test_values_that_are_sound_only_together_are_asked_together(tmp_path):
    assert not found(
        tmp_path,
        kafka("a", '"session.timeout.ms" = 600000, "max.poll.interval.ms" = 900000') + kafka("b") + pipeline(),
    )
    errors = found(tmp_path, kafka("a", '"session.timeout.ms" = 600000') + kafka("b") + pipeline())
    assert "`max.poll.interval.ms`must be >= `session.timeout.ms`" in errors[0]


@pytest.mark.parametrize(
    ("properties", "more"),
    [
        ('"security.protocol" = "SASL_SSL"', 'username = "u"\n password = secret("env:NONE")\n tls = true'),
        ('"ssl.key.location" = "/none.key", "ssl.key.password" = secret("env:NONE")', "tls = true"),
        ("", 'ca_file = "/none.pem"\n tls = true'),
        ('"socket.timeout.ms" = env("NONE")', ""),
        ('"plugin.library.paths" = "/none"', ""),
        ('"security.protocol" = "SASL_SSL", "sasl.mechanism" = "OAUTHBEARER"', ""),
    ],
)
def test_what_only_another_machine_has_is_no_error_here(tmp_path, properties, more):
    assert not found(tmp_path, kafka("a", properties, more) + kafka("b", properties, more) + pipeline())
    wrong = properties + (", " if properties else "") + '"nonsense" = 1'
    assert "nonsense" in found(tmp_path, kafka("a", wrong, more) + kafka("b") + pipeline())[0]


def test_the_check_speaks_to_no_broker_and_says_nothing_of_its_own(tmp_path, caplog, capfd):
    with closing(socket.create_server(("127.0.0.1", 0))) as server, caplog.at_level(logging.DEBUG):
        broker = f"127.0.0.1:{server.getsockname()[1]}"
        text = kafka("a", '"linger.ms" = 5', brokers=broker) + kafka("b", '"fetch.min.bytes" = 1', brokers=broker)
        assert not found(tmp_path, text + pipeline())
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (caplog.text, *capfd.readouterr()) == ("", "", "")


def test_no_secret_is_shown_in_the_clients_words(tmp_path):
    text = kafka("a", '"compression.type" = secret("env:S")') + kafka("b") + pipeline()
    [error] = found(tmp_path, text, {"S": "hunter-22"})
    assert 'Invalid value "***"' in error


def test_without_the_client_the_check_says_that_it_could_not_ask(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    [warning] = found(tmp_path, kafka("a", '"nonsense" = 1') + kafka("b") + pipeline(), severity="warning")
    assert warning.startswith("1: the properties of Kafka endpoints are not checked: confluent-kafka is not installed")


@pytest.mark.parametrize("wrong", ['"nonsense" = 1', '"error_cb" = "x"', '"default.topic.config" = "x"'])
@pytest.mark.parametrize("role", ["source", "sink"])
def test_an_engine_does_not_start_with_them_and_leaves_nothing_behind(tmp_path, role, wrong):
    fine = f'endpoint "file" "fine" {{\n region = "eu"\n environment = "test"\n path = "{tmp_path}/f"\n}}\n'
    text = kafka("a", wrong if role == "source" else "") + kafka("b", wrong if role == "sink" else "") + fine
    configuration = parse_configuration(text + pipeline("a", "fine", "p") + pipeline("a", "b", "q"))
    before = threading.active_count()
    engine = Engine(Instance("eu", "test", "a test"))
    with pytest.raises(ConfigurationError, match=r"nonsense|error_cb|keys") as raised:
        engine.apply(configuration, 1.0)
    assert raised.value.exit_code == 78
    engine.stop(1.0)
    deadline = time.monotonic() + 5
    while threading.active_count() > before:  # a thread that was told to end takes its moment
        assert time.monotonic() < deadline, threading.enumerate()
        threading.Event().wait(0.01)
