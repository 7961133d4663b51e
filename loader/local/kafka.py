"""A Kafka broker for demo and tests without Java or Docker: librdkafka's mock cluster, by ctypes.

`python -m loader.local.kafka --topic events:4` in a process of its own, or KafkaServer in a test. It speaks the real
protocol to any client on this machine and keeps everything in memory: at most 5 MiB or 100,000 messages a partition,
the oldest beyond it are gone without a word (so compress, or take more partitions). It has no controller: topics
cannot be made by a client's admin call, but they appear with four partitions when somebody produces to them.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from loader.errors import LoaderError

_PRODUCER = 0  # rd_kafka_type_t
_ERROR_BYTES = 512
_PATTERNS = (
    "../confluent_kafka.libs/librdkafka*.so*",  # wheels for Linux
    ".dylibs/librdkafka*.dylib",  # wheels for macOS
)

API_PRODUCE, API_FETCH, API_OFFSET_COMMIT, API_OFFSET_FETCH, API_JOIN_GROUP = 0, 1, 8, 9, 11
"""Kafka's numbers of requests, for `fail`."""


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise LoaderError(
            "The Kafka broker needs confluent-kafka: pip install 'pubsub-postgres-loader[bridge]'"
        ) from error
    folder = os.path.dirname(confluent_kafka.__file__)
    found = [path for pattern in _PATTERNS for path in sorted(glob.glob(os.path.join(folder, pattern)))]
    try:
        # A client built against the system's librdkafka brings none along.
        library = ctypes.CDLL(found[0] if found else "librdkafka.so.1")
    except OSError as error:
        raise LoaderError(f"librdkafka was not found beside confluent-kafka in {folder}: {error}") from error
    return _declare(library)


def _declare(library: Any) -> Any:
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    declarations: dict[str, tuple[Any, list[Any]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_push_request_errors_array": (
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(number)],
        ),
        "rd_kafka_mock_broker_set_down": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_rtt": (number, [pointer, ctypes.c_int32, number]),
    }
    for name, (result, arguments) in declarations.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class KafkaServer:
    """A cluster on 127.0.0.1 within this process; `brokers` is what bootstrap.servers wants.

    `topics` maps names to partition counts. Raises LoaderError when librdkafka is missing or refuses."""

    def __init__(self, topics: Mapping[str, int] | None = None, broker_count: int = 1) -> None:
        self._library = _library()
        self._count = broker_count
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        settings = self._library.rd_kafka_conf_new()
        # This client is only the cluster's host: that it has no bootstrap.servers is no news.
        self._library.rd_kafka_conf_set(settings, b"log_level", b"3", error, _ERROR_BYTES)
        self._client = self._library.rd_kafka_new(_PRODUCER, settings, error, _ERROR_BYTES)
        if not self._client:
            raise LoaderError(f"librdkafka refused to start: {error.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, broker_count)
        if not self._cluster:
            self._library.rd_kafka_destroy(self._client)
            raise LoaderError(f"librdkafka could not make a mock cluster of {broker_count} brokers")
        self.brokers: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        # Members of a test's group are all there at once: waiting for more would only cost 3 s each time.
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    def create_topic(self, name: str, partitions: int = 4) -> None:
        """Make a topic. Raises LoaderError when it exists."""
        code = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        if code:
            raise LoaderError(f"The topic {name!r} with {partitions} partitions was refused: librdkafka error {code}")

    def fail(self, api: int, errors: Sequence[int]) -> None:
        """Answer the next requests of one kind (API_…) with these Kafka error codes, one each."""
        array = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api, len(errors), array)

    def set_down(self, down: bool = True) -> None:
        """Break all brokers' connections and take no new ones, or take them again."""
        change = self._library.rd_kafka_mock_broker_set_down if down else self._library.rd_kafka_mock_broker_set_up
        for broker in range(1, self._count + 1):
            change(self._cluster, broker)

    def set_delay(self, milliseconds: int) -> None:
        """Delay every answer."""
        for broker in range(1, self._count + 1):
            self._library.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds)

    def close(self) -> None:
        """End the cluster; its messages are gone."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = self._client = None

    def __enter__(self) -> KafkaServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if not name or (count and not (count.isascii() and count.isdigit() and int(count) > 0)):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME or NAME:PARTITIONS")
    return name, int(count or 4)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Prints one line with the brokers once they answer."""
    parser = argparse.ArgumentParser(prog="python -m loader.local.kafka", description=main.__doc__)
    parser.add_argument("--topic", type=_topic, action="append", default=[], help="NAME:PARTITIONS, more than once")
    parser.add_argument("--brokers", type=int, default=1)
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with KafkaServer(dict(options.topic), options.brokers) as server:
        sys.stdout.write(f"listening on {server.brokers}\n")
        sys.stdout.flush()
        stop.wait()
    return 0


def process_command(topics: Mapping[str, int]) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a broker in a process of its own."""
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-m", "loader.local.kafka"]
    for name, partitions in topics.items():
        command += ["--topic", f"{name}:{partitions}"]
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return command, {**os.environ, "PYTHONPATH": path}


if __name__ == "__main__":
    sys.exit(main())
