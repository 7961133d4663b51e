"""Where pipelines stand that go their own way: positions kept in Kafka beside the shared group's.

They are the metadata of positions of one more group name, `<group>.apart`, that nobody is a member of: pipeline → the
position up to which it has delivered, while the shared group may be further. Whoever is given a partition looks here
first, so neither a crash nor a change of owners loses what such a pipeline has not delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from loader.bridge.sources.kafka_options import Quiet
from loader.errors import LoaderError

_SECONDS = 10.0
Partition = tuple[str, int]


class Marks:
    """Marks of one shared group, for the partitions that this instance owns. Thread-safe.

    `read` and the writes raise LoaderError when Kafka does not answer: then nothing may be assumed."""

    def __init__(self, settings: Mapping[str, Any], group: str) -> None:
        self._settings = {**settings, "group.id": f"{group}.apart"}
        self._lock = threading.Lock()
        self._owned: dict[Partition, dict[str, int]] = {}
        self._client: Any = None

    def read(self, partitions: Sequence[Partition]) -> dict[str, dict[Partition, int]]:
        """Own partitions; returns pipeline → partition → position of what stands apart in them."""
        with self._lock:
            found: dict[str, dict[Partition, int]] = {}
            answer = self._call(lambda c: c.committed([TopicPartition(*one) for one in partitions], timeout=_SECONDS))
            for each in answer:
                marks: dict[str, int] = orjson.loads(each.metadata) if each.offset >= 0 and each.metadata else {}
                self._owned[each.topic, each.partition] = marks
                for pipeline, position in marks.items():
                    found.setdefault(pipeline, {})[each.topic, each.partition] = position
            return found

    def set(self, pipeline: str, positions: Mapping[Partition, int]) -> None:
        """Keep where a pipeline stands, in partitions that are still owned; returns when Kafka has it."""
        with self._lock:
            changed = {key: at for key, at in positions.items() if key in self._owned}
            self._write({key: {**self._owned[key], pipeline: at} for key, at in changed.items()})

    def clear(self, pipeline: str, partitions: Iterable[Partition] | None = None) -> None:
        """The pipeline goes with the shared group again."""
        with self._lock:
            keys = [key for key in (self._owned if partitions is None else partitions) if key in self._owned]
            self._write(
                {
                    key: {name: at for name, at in self._owned[key].items() if name != pipeline}
                    for key in keys
                    if pipeline in self._owned[key]
                }
            )

    def forget(self, partitions: Iterable[Partition]) -> None:
        """The partitions are somebody else's: nothing more is written for them."""
        with self._lock:
            for key in partitions:
                self._owned.pop(key, None)

    def close(self) -> None:
        """Let go of the client."""
        with self._lock:
            self._owned.clear()
            if self._client is not None:
                self._client.close()
                self._client = None

    def _write(self, marks: Mapping[Partition, dict[str, int]]) -> None:
        if not marks:
            return
        offsets = [
            # The offset itself only shows an operator how far the slowest is.
            TopicPartition(*key, min(value.values(), default=0), orjson.dumps(value).decode())
            for key, value in marks.items()
        ]
        self._call(lambda client: client.commit(offsets=offsets, asynchronous=False))
        self._owned.update(marks)

    def _call(self, call: Any) -> Any:
        if self._client is None:
            self._client = Consumer(self._settings, logger=Quiet())  # else it writes to stderr, beside the JSON
        try:
            return call(self._client)
        except KafkaException as error:
            raise LoaderError(f"Kafka does not keep the marks of pipelines: {error.args[0].str()}") from error
