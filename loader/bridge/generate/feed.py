"""Writes a feed to Kafka as producers do: the schema registered, each record framed with its id, keyed by device."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import urllib3

from loader.bridge.registry.schema import in_one_piece
from loader.errors import LoaderError

SCHEMA = Path(__file__).resolve().parents[1] / "examples" / "gps.avsc"


def schema() -> Any:
    """The GPS feed's schema, in one piece."""
    return in_one_piece(json.loads(SCHEMA.read_text(encoding="utf-8")))


def register(registry: str, subject: str, schema: Any) -> int:
    """The id that the registry gives the schema. Raises LoaderError."""
    url = f"{registry.rstrip('/')}/subjects/{quote(subject, safe='')}/versions"
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    try:
        answer = urllib3.request("POST", url, body=body, headers=headers, timeout=10.0, retries=False)
        number = answer.json().get("id") if answer.status == 200 else None
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise LoaderError(f"the registry at {registry} does not register {subject}: {type(error).__name__}") from error
    if not isinstance(number, int):
        raise LoaderError(f"the registry at {registry} answers {answer.status} and does not register {subject}")
    return number


class Encoder:
    """Frames records of one schema."""

    def __init__(self, schema: Any, number: int) -> None:
        self._schema = fastavro.parse_schema(schema)
        self._start = b"\0" + number.to_bytes(4, "big")

    def __call__(self, record: Mapping[str, Any]) -> bytes:
        out = BytesIO()
        out.write(self._start)
        fastavro.schemaless_writer(out, self._schema, record)
        return out.getvalue()


@dataclass(slots=True)
class Sent:
    """What was produced."""

    records: int = 0
    rows: int = 0
    """Links of these records."""
    seconds: float = 0.0


def produce(
    brokers: str,
    topic: str,
    messages: Iterable[tuple[bytes, bytes, int]],
    rate: float,
    sent: Sent,
    stop: Callable[[float], bool] = threading.Event().wait,
) -> None:
    """Produce (key, value, rows) at `rate` a second, 0: as fast as it goes. `stop` waits so many seconds and says
    whether to end. `sent` grows as the broker takes them. Raises LoaderError."""
    from confluent_kafka import Producer

    faults: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            faults.append(error.str())

    producer = Producer(
        {"bootstrap.servers": brokers, "compression.type": "lz4", "linger.ms": 5, "enable.idempotence": True}
    )
    began = time.monotonic()
    for number, (key, value, rows) in enumerate(messages):
        if rate and number % 16 == 0 and (early := began + number / rate - time.monotonic()) > 0 and stop(early):
            break
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
        if faults:
            raise LoaderError(f"Kafka at {brokers} refuses a record for {topic}: {faults[0]}")
        sent.records, sent.rows, sent.seconds = number + 1, sent.rows + rows, time.monotonic() - began
    left = producer.flush(30)
    sent.seconds = time.monotonic() - began
    if left or faults:
        reason = faults[0] if faults else "no answer within 30 s"
        raise LoaderError(f"Kafka at {brokers} did not take {left or len(faults)} records for {topic}: {reason}")


def messages(records: Iterable[dict[str, Any]], encode: Encoder) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, value and rows of each record."""
    for record in records:
        yield record["deviceId"].encode(), encode(record), len(record["path"])
