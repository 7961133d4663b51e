"""The bridge's ends, run as a file says: ordering keys into Pub/Sub, Pub/Sub as a source, Kafka as a sink."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

sys.path.insert(0, str(Path(__file__).parent))
from bridge_harness import QUICK, committed, until
from confluent_kafka import Consumer, Producer

from loader.bridge.config.instance import Instance
from loader.bridge.config.load import parse_configuration
from loader.bridge.engine.run import Engine, _secrets
from loader.errors import ConfigurationError
from loader.local.kafka import KafkaServer
from loader.pull import protocol as pb

PROPERTIES = "properties = { " + ", ".join(f'"{name}" = {value}' for name, value in QUICK.items()) + " }"
PLACE = 'region = "eu"\n  environment = "test"'
Run = Callable[[str], Engine]


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer({"events": 4, "copies": 2}) as server:
        yield server


@pytest.fixture
def run(pubsub, monkeypatch) -> Iterator[Run]:
    for name, value in pubsub.environment.items():
        monkeypatch.setenv(name, value)
    engines: list[Engine] = []

    def start(text: str) -> Engine:
        engine = Engine(Instance("eu", "test", "a test"))
        engines.append(engine)
        engine.apply(parse_configuration(text), 5.0)
        return engine

    yield start
    for engine in engines:
        engine.stop(10.0)


def _kafka(name: str, server: KafkaServer, topic: str) -> str:
    return f"""
endpoint "kafka" "{name}" {{
  {PLACE}
  brokers = ["{server.brokers}"]
  topic = "{topic}"
  {PROPERTIES if topic == "events" else ""}
}}
"""


def _pull(pubsub: Any, subscription: str, count: int) -> list[Any]:
    """Message by message as they come, acked."""
    found: list[Any] = []
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        received = pubsub.pull(1_000, subscription, wait=False)
        if not received:
            time.sleep(0.02)
            continue
        pubsub.ack(received, subscription)
        found += [each.message for each in received]
    return found


def test_messages_of_a_key_arrive_in_order_though_requests_fail(kafka, pubsub, run):
    ordered = pubsub.subscribe("ordered", enable_message_ordering=True)
    producer = Producer({"bootstrap.servers": kafka.brokers, "compression.type": "lz4"})
    count = 3_000
    for number in range(count):
        producer.produce("events", b'{"n": %d}' % number, key=b"key-%d" % (number % 7))
    assert producer.flush(20) == 0
    pubsub.faults.refuse("Publish", 2)
    engine = run(f"""
{_kafka("events", kafka, "events")}
endpoint "pubsub" "out" {{
  {PLACE}
  topic = "{pubsub.topic}"
  batch_messages = 100
}}
pipeline "orders" {{
  source = "events"
  sinks = ["out"]
  on_refusal = "stop"
  ordering_key = "key"
  commit_interval = "200ms"
}}
""")
    found = _pull(pubsub, ordered, count // 2)
    pubsub.faults.refuse("Publish", 1, "DEADLINE_EXCEEDED")
    found += _pull(pubsub, ordered, count - len(found))
    seen: dict[str, list[int]] = {}
    for message in found:
        seen.setdefault(message.ordering_key, []).append(int(message.data[6:-1]))
    assert set(seen) == {f"key-{number}" for number in range(7)}
    for key, numbers in seen.items():
        assert numbers == list(range(int(key[4:]), count, 7)), f"{key} is out of order"
    [running] = engine.running.values()
    group = running.consumer.group
    until(lambda: sum(committed(kafka.brokers, group, "events").values()) == count, "it is not committed")


def test_a_subscription_is_a_source_whose_messages_are_acked_once_delivered(pubsub, run):
    copies = f"projects/{pubsub.project}/topics/copies"
    pubsub.stub.create_topic(pb.Topic(name=copies))
    target = f"projects/{pubsub.project}/subscriptions/copies"
    pubsub.stub.create_subscription(pb.Subscription(name=target, topic=copies, ack_deadline_seconds=60))
    ids = pubsub.publish([b'{"n": %d}' % number for number in range(500)], {"origin": "test"})
    pubsub.faults.refuse("Publish", 2)
    engine = run(f"""
endpoint "pubsub" "in" {{
  {PLACE}
  subscription = "{pubsub.subscription}"
}}
endpoint "pubsub" "out" {{
  {PLACE}
  topic = "{copies}"
}}
pipeline "copy" {{
  source = "in"
  sinks = ["out"]
  on_refusal = "stop"
  stage "filter" {{
    when = "payload.n < 400"
  }}
}}
""")
    found = _pull(pubsub, target, 400)
    assert sorted(int(message.data[6:-1]) for message in found) == list(range(400))
    names = {message.attributes["event_id"] for message in found}
    assert names == {f"pubsub/{pubsub.subscription}/{each}" for each in ids[:400]}, "each is told by its own id"
    assert all(message.attributes["origin"] == "test" for message in found)
    until(lambda: pubsub.counts()["acked"] == 500, lambda: str(pubsub.counts()))
    [running] = engine.running.values()
    assert running.flows[0].counts.filtered == 100
    assert engine.stop(10.0)
    assert pubsub.counts()["backlog"] == pubsub.counts()["leased"] == 0


def test_what_a_subscription_gave_is_not_acked_while_the_sink_fails(pubsub, run):
    pubsub.publish([b'{"n": %d}' % number for number in range(50)])
    engine = run(f"""
endpoint "pubsub" "in" {{
  {PLACE}
  subscription = "{pubsub.subscription}"
}}
endpoint "pubsub" "out" {{
  {PLACE}
  topic = "projects/{pubsub.project}/topics/missing"
}}
pipeline "copy" {{
  source = "in"
  sinks = ["out"]
  on_refusal = "stop"
}}
""")
    [running] = engine.running.values()
    until(lambda: running.flows[0].in_flight == 50 and "NOT_FOUND" in (running.flows[0].trouble or ""))
    assert not engine.stop(1.0)
    assert pubsub.counts()["acked"] == 0
    until(lambda: len(pubsub.pull(100, wait=False)) > 0, "it is not given to others")


def test_kafka_as_a_sink_keeps_key_headers_and_time_and_outlives_an_outage(kafka, pubsub, run):
    producer = Producer({"bootstrap.servers": kafka.brokers})
    for number in range(1_000):
        producer.produce(
            "events",
            b'{"n": %d}' % number,
            key=b"k%d" % (number % 5) if number % 2 else None,
            headers=[("a", b"1"), ("a", b"\xff"), ("none", None)],
            timestamp=1_796_000_000_000 + number,
        )
    assert producer.flush(20) == 0
    kafka.fail(0, [19, 6, 19])  # Produce: not enough replicas, and a leader that moved
    engine = run(f"""
{_kafka("events", kafka, "events")}
{_kafka("copies", kafka, "copies")}
pipeline "copy" {{
  source = "events"
  sinks = ["copies"]
  on_refusal = "stop"
  commit_interval = "200ms"
  stage "filter" {{
    when = "payload.n >= 100"
  }}
}}
""")
    [running] = engine.running.values()
    until(lambda: running.flows[0].counts.sent == 900, lambda: str(running.flows[0].counts))
    found = _consume(kafka, "copies", 900)
    assert sorted(int(message.value()[6:-1]) for message in found) == list(range(100, 1_000))
    for message in found:
        number = int(message.value()[6:-1])
        assert message.key() == (b"k%d" % (number % 5) if number % 2 else None)
        assert message.timestamp()[1] == 1_796_000_000_000 + number
        *headers, (name, identity) = message.headers()
        assert headers == [("a", b"1"), ("a", b"\xff"), ("none", None)]
        assert name == "event_id"
        assert b"/events/" in identity
    assert len({message.headers()[-1][1] for message in found}) == 900
    group = running.consumer.group
    until(lambda: sum(committed(kafka.brokers, group, "events").values()) == 1_000, "it is not committed")
    assert engine.stop(10.0)


def _consume(kafka: KafkaServer, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": kafka.brokers, "group.id": "look", "auto.offset.reset": "earliest", **QUICK}
    )
    found: list[Any] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count}"
            found += [message for message in consumer.consume(1_000, 0.1) if message.error() is None]
        return found
    finally:
        consumer.close()


def _copies(kafka: KafkaServer, more: str = "", source: str = "") -> str:
    ends = _kafka("in", kafka, "events").replace("}\n  }", f"}}\n  {source}}}") + _kafka("out", kafka, "copies")
    ends = ends.replace('topic = "copies"', f'topic = "copies"\n  {more}')
    return ends + 'pipeline "p" {\n source = "in"\n sinks = ["out"]\n on_refusal = "stop"\n}\n'


def test_a_property_that_the_client_does_not_know_is_refused_and_what_runs_goes_on(run, kafka):
    engine = run(_copies(kafka))
    before = dict(engine.running)
    odd = 'properties = { "no.such.property" = "1" }'
    for text in (_copies(kafka, odd), _copies(kafka).replace("properties = {", 'properties = { "no.such.one" = 1,')):
        with pytest.raises(ConfigurationError, match="No such configuration property"):
            engine.apply(parse_configuration(text), 5.0)
        assert engine.running == before


FAR = """
endpoint "kafka" "far" {{
  region = "far"
  environment = "test"
  brokers = env("FAR_BROKERS")
  topic = "x"
  username = "u"
  password = secret("env:FAR_PASSWORD")
}}
lookup "far" {{
  sql {{
    dsn = secret("env:FAR_DSN")
    query = "select 1"
  }}
}}
pipeline "far" {{
  source = "far"
  sinks = ["{sink}"]
  on_refusal = "stop"
  stage "filter" {{ when = lookup.far[key] != null }}
}}
"""


def test_secrets_and_lookups_of_other_regions_need_not_be_here(run, kafka):
    text = _copies(kafka) + FAR.format(sink="out")
    engine = run(text)
    assert len(engine.running) == 1
    assert engine.lookup_ages == {}
    assert _secrets(parse_configuration(text)) == []
