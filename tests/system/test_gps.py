"""The GPS feed from Kafka to Postgres, by real processes: exactly once, and through changes of its schema."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from loader.bridge import examples as shipped
from loader.bridge.formats.avro_values import millis
from loader.bridge.generate.feed import Encoder, schema
from loader.bridge.generate.vehicles import records
from loader.bridge.registry.server import RegistryServer
from loader.local.bridge import BridgeProcess
from loader.local.kafka import KafkaServer
from loader.pull import protocol as pb

START = 1_796_054_400_000
EXAMPLE = Path(shipped.__path__[0]) / "gps.hcl"
QUICK = '"session.timeout.ms" = 3000\n    "heartbeat.interval.ms" = 500\n    "fetch.wait.max.ms" = 20'
LOADER = {"table_key": None, "table_attribute": "table", "event_id_attribute": "event_id", "json_keys": "path"}
README = Path(__file__).resolve().parents[2] / "README.md"


class Feed:
    """A broker and a registry, and records produced by any schema."""

    def __init__(self, kafka: KafkaServer, registry: RegistryServer) -> None:
        self.kafka = kafka
        self.registry = registry
        self.producer = Producer({"bootstrap.servers": kafka.brokers, "linger.ms": 5, "log_level": 2})

    def send(self, written: Any, values: Sequence[Any]) -> None:
        number = self.registry.register("gps-value", written)
        encode = Encoder(json.loads(json.dumps(written)), number)
        for value in values:
            self.producer.produce("gps", encode(value), value["deviceId"])
        assert self.producer.flush(30) == 0


@pytest.fixture
def feed() -> Iterator[Feed]:
    with KafkaServer({"gps": 4}) as kafka, RegistryServer() as registry:
        registry.register("gps-value", schema())
        yield Feed(kafka, registry)


@pytest.fixture
def bridge(feed: Feed, topic: Any, tmp_path: Path) -> Iterator[Callable[..., BridgeProcess]]:
    started: list[BridgeProcess] = []
    dead = f"projects/{topic.project}/topics/dead"
    topic.stub.create_topic(pb.Topic(name=dead))
    environ = {
        "PUBSUB_EMULATOR_HOST": topic.server.endpoint,
        "GPS_BROKERS": feed.kafka.brokers,
        "GPS_REGISTRY": feed.registry.url,
        "GPS_TOPIC": topic.name,
        "GPS_DEAD_TOPIC": dead,
        "BRIDGE_REGION": "here",
        "BRIDGE_ENVIRONMENT": "test",
    }
    file = tmp_path / "gps.hcl"

    def start(stage: str = "") -> BridgeProcess:
        write(file, stage)
        made = BridgeProcess(file, environ, tmp_path / "bridge.log").start().await_ready()
        started.append(made)
        return made

    yield start
    for each in started:
        each.kill()


def refill(database: Any) -> None:
    """The statement of the README, as long as it says that it should be repeated."""
    [statement] = [each for each in re.findall(r"```sql\n(.*?)```", README.read_text(), re.S) if "path->>" in each]
    with database.connect() as connection:
        connection.execute("set search_path to events, public")
        while connection.execute(statement.encode()).rowcount:
            pass


def write(file: Path, stage: str = "") -> None:
    text = EXAMPLE.read_text().replace('"fetch.wait.max.ms" = 100', QUICK)
    file.write_text(text.replace('raw  = "path"', f'raw  = "path"\n    {stage}'))


def made(count: int, seed: int = 1) -> list[dict[str, Any]]:
    return list(islice(records(seed, 50, 1_000, START), count))


def links(values: Sequence[dict[str, Any]]) -> Counter[Any]:
    return Counter(
        (value["deviceId"], value["tripId"], value["sentAt"], link["linkId"], link["enteredAt"], len(link["points"]))
        for value in values
        for link in value["path"]
    )


def stored(database: Any) -> Counter[Any]:
    milliseconds = "(extract(epoch from {}) * 1000)::bigint"
    return Counter(
        database.rows(
            f"select device_id, trip_id, {milliseconds.format('sent_at')}, link_id,"
            f" {milliseconds.format('entered_at')}, jsonb_array_length(path->'points') from gps_links"
        )
    )


def test_each_link_is_one_row_after_kill_9_of_bridge_and_loader(feed, bridge, worker, database, topic):
    values = made(3_000)
    first, loading = bridge(), worker(**LOADER)
    feed.send(schema(), values[:1_500])
    database.until("select count(*) > 500 from gps_links")
    first.kill()
    feed.send(schema(), values[1_500:2_000])
    second = bridge()
    loading.kill()
    topic.expire_leases()
    worker(**LOADER)
    feed.send(schema(), values[2_000:])
    wanted = links(values)
    database.until_count("gps_links", wanted.total(), 90)
    topic.until_settled()
    assert stored(database) == wanted
    assert database.letters() == 0
    assert second.stop() == 0
    types = dict(
        database.rows(
            "select column_name, data_type from information_schema.columns where table_name = 'gps_links'"
            " and column_name not like E'\\\\_%'"
        )
    )
    instant = "timestamp with time zone"
    assert types == {
        "device_id": "character varying",
        "trip_id": "character varying",
        "sent_at": instant,
        "link_id": "bigint",
        "entered_at": instant,
        "left_at": instant,
        "path": "jsonb",
    }


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def changed(*changes: Callable[[dict[str, Any], dict[str, Any]], None]) -> dict[str, Any]:
    """The schema, changed one after the other; a change is given the record and the link."""
    whole = json.loads(json.dumps(schema()))
    link = next(each for each in whole["fields"] if each["name"] == "path")["type"]["items"]
    for change in changes:
        change(whole, link)
    return whole


def test_schemas_change_while_it_runs_and_old_rows_are_refilled(feed, bridge, worker, database, topic, tmp_path):
    def lanes(whole: Any, link: Any) -> None:
        link["fields"].append(field("lanes", "int"))

    def added(whole: Any, link: Any) -> None:
        whole["fields"].append(field("model", "string"))
        link["fields"].append(field("surface", ["null", "string"], default=None))

    def widened(whole: Any, link: Any) -> None:
        next(each for each in link["fields"] if each["name"] == "lanes")["type"] = "long"

    def dropped(whole: Any, link: Any) -> None:
        link["fields"] = [each for each in link["fields"] if each["name"] != "leftAt"]

    def nested(whole: Any, link: Any) -> None:
        road = {"type": "record", "name": "Road", "fields": [field("name", "string"), field("class", "int")]}
        link["fields"].append(field("road", road))

    steps = (lanes, added, widened, dropped, nested)
    versions = [changed(*steps[: count + 1]) for count in range(len(steps))]
    values = made(1_000)
    for number, value in enumerate(values):
        value["model"] = f"m{number % 3}"
        for link in value["path"]:
            wide = number >= 300 and number // 50 % len(versions) >= 2
            link |= {"lanes": 2**40 + number if wide else number % 4, "surface": f"s{number % 5}"}
            link["road"] = {"name": f"r{number}", "class": number % 7}
    # The file names its columns at first; what else there is waits in `path`.
    running = bridge('keep = ["deviceId", "tripId", "sentAt"]\n    fields = ["linkId", "enteredAt", "leftAt"]')
    loading = worker(**LOADER)
    early = values[:300]
    feed.send(versions[1], early)
    database.until_count("gps_links", links(early).total())
    write(tmp_path / "gps.hcl")
    running.hang_up()
    for start in range(300, len(values), 50):
        number = (start // 50) % len(versions)
        feed.send(versions[number], values[start : start + 50])
    # Old and new ids side by side, message by message.
    mixed = made(200, seed=2)
    for number, value in enumerate(mixed):
        value["model"] = "mixed"
        for link in value["path"]:
            link |= {"lanes": 1, "surface": "s", "road": {"name": "r", "class": 1}}
        feed.send(versions[number % len(versions)], [value])
    wanted = links(values) + links(mixed)
    database.until_count("gps_links", wanted.total(), 90)
    topic.until_settled()
    assert stored(database) == wanted
    assert database.letters() == 0
    assert running.metrics()["bridge_messages_dead_total"] == 0
    assert loading.alive
    columns = {
        name
        for (name,) in database.rows(
            "select column_name from information_schema.columns where table_name = 'gps_links'"
        )
    }
    assert {"lanes", "model", "surface", "road__name", "road__class", "left_at"} <= columns
    assert not {name for name in columns if "__v_" in name}
    assert database.one("select count(*) from gps_links where lanes > 2147483648") > 0

    def unfilled() -> int:
        return int(database.one("select count(*) from gps_links where surface is null and path ? 'surface'"))

    assert links(early).total() <= unfilled() < wanted.total() / 2
    refill(database)
    assert unfilled() == 0
    assert database.one("select count(*) from gps_links where surface is distinct from path->>'surface'") == 0
    assert millis(values[0]["sentAt"])[:19] == database.one(
        "select to_char(min(sent_at) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') from gps_links"
    )
