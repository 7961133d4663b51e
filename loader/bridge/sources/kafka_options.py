"""What the Kafka client is told: small queues, no commits of its own, and whatever else the file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loader.errors import ConfigurationError

DEFAULTS: Mapping[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "auto.offset.reset": "earliest",
    # The defaults hold up to 64 MiB in a queue and 50 MiB in an answer. A smaller queue alone would cost 30 times the
    # throughput, because a full one is looked at again only after a second: the backoff goes down with it.
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 5,
    "fetch.max.bytes": 16_777_216,
    "fetch.wait.max.ms": 100,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 10_000,
    "log_level": 4,
}
_FIXED: Mapping[str, tuple[Any, str]] = {
    "enable.auto.commit": (False, "positions are committed when every sink has confirmed"),
    "enable.auto.offset.store": (False, "positions are committed when every sink has confirmed"),
    "enable.partition.eof": (False, "the end of a partition is no message"),
}
_FUNCTION = "it takes a function of a program"
_REFUSED = {
    "group.id": "set the endpoint's `group`",
    "bootstrap.servers": "set the endpoint's `brokers`",
    "metadata.broker.list": "set the endpoint's `brokers`",
    "enable.auto.commit.interval.ms": "nothing is committed by time alone: set the pipeline's `commit_seconds`",
    "auto.commit.interval.ms": "nothing is committed by time alone: set the pipeline's `commit_seconds`",
    "isolation.level": "",
}


def consumer_settings(brokers: str, group: str, properties: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """librdkafka's configuration of a consumer. Raises ConfigurationError for properties that break a guarantee."""
    settings: dict[str, Any] = dict(DEFAULTS)
    for name, value in properties.items():
        if name in _FIXED:
            wanted, why = _FIXED[name]
            if str(value).lower() != str(wanted).lower():
                raise ConfigurationError(f"{place}{name} = {value!r} is refused: {why}")
        elif _REFUSED.get(name):
            raise ConfigurationError(f"{place}{name} is refused: {_REFUSED[name]}")
        elif name.endswith("_cb"):
            raise ConfigurationError(f"{place}{name} is refused: {_FUNCTION}")
        elif name == "partition.assignment.strategy" and "cooperative-sticky" not in str(value):
            raise ConfigurationError(
                f"{place}{name} = {value!r} is refused: partitions that stay go on only with cooperative-sticky"
            )
        else:
            settings[name] = _plain(value)
    settings.update({name: value for name, (value, _) in _FIXED.items()})
    settings["bootstrap.servers"] = brokers
    settings["group.id"] = group
    return settings


def make_client(kind: Callable[..., Any], settings: Mapping[str, Any], logger: Any = None) -> Any:
    """A client of `kind` (Consumer or Producer). Raises ConfigurationError, in librdkafka's words, for settings that it
    does not take."""
    from confluent_kafka import KafkaException

    given = {} if logger is None else {"logger": logger}
    try:
        return kind(dict(settings), **given)
    except KafkaException as error:
        raise ConfigurationError(error.args[0].str().strip()) from error
    except (TypeError, ValueError, AttributeError) as error:
        # Names that the Python client keeps for functions of a program (error_cb), or for settings within settings.
        raise ConfigurationError(str(error)) from error


class Quiet:
    """For clients of whose failures somebody else tells: librdkafka takes it for a logger."""

    def log(self, *_: Any) -> None:
        """Nothing."""


def check_settings(settings: Mapping[str, Any], endpoint: str) -> None:
    """Ask the client whether it takes a consumer's settings. Raises ConfigurationError."""
    from confluent_kafka import Consumer

    try:
        make_client(Consumer, settings, Quiet()).close()
    except ConfigurationError as error:
        raise ConfigurationError(f"the endpoint {endpoint}: {error}") from error


PRODUCER_DEFAULTS: Mapping[str, Any] = {
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 10,
    # Retried for ever: the bound of what is in flight holds the pipeline, not a deadline that would lose a message.
    "message.timeout.ms": 0,
    "queue.buffering.max.messages": 200_000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 10_000,
    "log_level": 4,
}
_PRODUCER_FIXED = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": 0, "delivery.timeout.ms": 0}


def producer_settings(brokers: str, properties: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """librdkafka's configuration of a producer. Raises ConfigurationError for properties that break a guarantee."""
    settings: dict[str, Any] = dict(PRODUCER_DEFAULTS)
    for name, value in properties.items():
        wanted = _PRODUCER_FIXED.get(name)
        if wanted is not None and str(value).lower() not in (str(wanted).lower(), "-1" if name == "acks" else ""):
            raise ConfigurationError(f"{place}{name} = {value!r} is refused: no message may be lost or given up")
        if name in ("bootstrap.servers", "metadata.broker.list"):
            raise ConfigurationError(f"{place}{name} is refused: set the endpoint's `brokers`")
        if name.endswith("_cb"):
            raise ConfigurationError(f"{place}{name} is refused: {_FUNCTION}")
        settings[name] = _plain(value)
    settings["bootstrap.servers"] = brokers
    return settings


def _plain(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def connection(options: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's properties of an endpoint: its security, and `properties` as they stand."""
    found: dict[str, Any] = {}
    login = options.get("username")
    if options.get("tls") or login:
        found["security.protocol"] = ("SASL_" if login else "") + ("SSL" if options.get("tls") else "PLAINTEXT")
    if options.get("ca_file"):
        found["ssl.ca.location"] = options["ca_file"]
    if login:
        found["sasl.username"] = login
        found["sasl.password"] = options.get("password") or ""
        found["sasl.mechanism"] = options.get("mechanism", "SCRAM-SHA-512")
    return {**found, **(options.get("properties") or {})}
