"""The least that a GPS feed can cost record by record in this language, as a process of its own.

Consume, decode by fastavro, a dictionary a link, orjson, publish: no identities, no times as texts, no bounds, no
commits, no pipelines, nothing retried. `python -m loader.bench.gps_bare BROKERS ENDPOINT TOPIC COUNT` prints
{"records", "rows", "cpu"} of what came after the first tenth."""

from __future__ import annotations

import gc
import json
import sys
import time
from io import BytesIO
from typing import Any

WARM = 0.1
"""Part of the records that is not measured."""


def main(brokers: str, endpoint: str, topic: str, count: int) -> dict[str, float]:
    """Bridge `count` records of the Kafka topic gps; figures of the last nine tenths."""
    import fastavro
    import orjson
    from confluent_kafka import Consumer

    from loader.bench.cpu import own_seconds
    from loader.bridge.formats.avro_convert import Converter
    from loader.bridge.generate.feed import schema
    from loader.bridge.sinks import wire
    from loader.bridge.sources.kafka_options import consumer_settings
    from loader.pull.channel import open_channel

    writer = fastavro.parse_schema(Converter(schema()).schema)
    settings = consumer_settings(brokers, f"bare-{time.monotonic_ns()}", {})
    consumer = Consumer(settings)
    consumer.subscribe(["gps"])
    channel = open_channel(endpoint)
    publish: Any = channel.unary_unary("/google.pubsub.v1.Publisher/Publish")
    start = wire.topic_field(topic)
    parts: list[bytes] = [start]
    flying: list[Any] = []
    records = rows = waiting = 0
    before = (0, 0, 0.0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    while records < count:
        for message in consumer.consume(1_000, 0.05):
            found: Any = fastavro.schemaless_reader(BytesIO((message.value() or b"")[5:]), writer, None)
            device, trip, sent = found["deviceId"], found["tripId"], found["sentAt"]
            for link in found["path"]:
                body = orjson.dumps(
                    {
                        "device_id": device,
                        "trip_id": trip,
                        "sent_at": sent,
                        "link_id": link["linkId"],
                        "entered_at": link["enteredAt"],
                        "left_at": link["leftAt"],
                        "path": link,
                    }
                )
                size = wire.length(len(body))
                parts.append(b"\x12%b\x0a%b%b" % (wire.length(1 + len(size) + len(body)), size, body))
                waiting += 1
            records += 1
            if waiting >= 990:
                rows, waiting = rows + waiting, 0
                if len(flying) >= 8:
                    flying.pop(0).result()
                flying.append(publish.future(b"".join(parts)))
                parts = [start]
        if not before[0] and records >= count * WARM:
            before = (records, rows + waiting, own_seconds())
    if waiting:
        flying.append(publish.future(b"".join(parts)))
    for each in flying:
        each.result()
    cpu = own_seconds() - before[2]
    consumer.close()
    channel.close()
    return {"records": records - before[0], "rows": rows + waiting - before[1], "cpu": cpu}


if __name__ == "__main__":
    brokers, endpoint, topic, count = sys.argv[1:]
    sys.stdout.write(json.dumps(main(brokers, endpoint, topic, int(count))))
