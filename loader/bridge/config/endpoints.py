"""What may stand in `endpoint KIND NAME { … }`, kind by kind. Sources, sinks and the reference read it from here."""

from __future__ import annotations

from collections.abc import Mapping

from loader.bridge.stages.stage import Option

MAX_BATCH_MESSAGES = 1000
MAX_BATCH_BYTES = 10_000_000
MAX_ATTRIBUTES = 100
MAX_ATTRIBUTE_NAME = 256
MAX_ATTRIBUTE_VALUE = 1024
"""Limits of one publish request and of one message's attributes (bytes of UTF-8), from Pub/Sub's quotas."""

GUARANTEED = {
    "enable.auto.commit": "the bridge commits what it has delivered, and nothing else",
    "enable.auto.offset.store": "the bridge commits what it has delivered, and nothing else",
    "enable.idempotence": "a retry would deliver twice or out of order",
    "enable.partition.eof": "the bridge reads without end",
    "bootstrap.servers": "set brokers",
    "metadata.broker.list": "set brokers",
    "group.id": "set group",
    "auto.offset.reset": "set start",
    "partition.assignment.strategy": "the bridge hands partitions over cooperatively",
    "auto.commit.interval.ms": "set the pipeline's commit_interval",
    "acks": "a message is confirmed when all replicas in sync have it",
    "request.required.acks": "a message is confirmed when all replicas in sync have it",
    "message.timeout.ms": "a message is tried until it is delivered",
    "delivery.timeout.ms": "a message is tried until it is delivered",
    "transactional.id": "the bridge does not use Kafka's transactions",
}
"""librdkafka's properties that a file may not set, and why."""

COMMON = (
    Option("region", "string", "Region that it is in; an instance runs the pipelines whose source is in its own."),
    Option("environment", "string", "Environment that it is in, such as prod or staging."),
)

_EPOCH = Option("epoch", "string", "Stands in front of identities; set a new one for a topic that was made again.", "")
_FILE_EPOCH = Option(
    "epoch",
    "string",
    "Stands in front of identities, which are the path, a digest of the line and its number: set a new one for a file "
    "in which a line that stood at the same place of an earlier one is another event.",
    "",
)
_START = Option(
    "start",
    "one of earliest|latest",
    "Where a group without committed offsets begins. earliest: a message that came while nobody ran is not lost.",
    "earliest",
)
_COMPRESSION = Option("compression", "one of auto|gzip|none", "auto: gzip if the name ends with .gz.", "auto")

KINDS: Mapping[str, tuple[Option, ...]] = {
    "kafka": (
        *COMMON,
        _EPOCH,
        Option("brokers", "list(string)", "Addresses to begin with, host:port.", required=True),
        Option("topic", "string", "Topic to read from or to write to.", required=True),
        _START,
        Option("group", "string", "Consumer group; unset, it is derived: see --plan."),
        Option("tls", "bool", "Speak TLS to the brokers.", False),
        Option("ca_file", "string", "File of the authority that signed the brokers' certificates.", file=True),
        Option("username", "string", "SASL user; unset, no login."),
        Option("password", "string", "SASL password.", secret=True),
        Option("mechanism", "one of PLAIN|SCRAM-SHA-256|SCRAM-SHA-512", "SASL mechanism.", "SCRAM-SHA-512"),
        Option("properties", "map(scalar)", "Any property of librdkafka, by its own name.", {}),
    ),
    "pubsub": (
        *COMMON,
        _EPOCH,
        Option("topic", "string", "Topic to write to, projects/P/topics/T."),
        Option("subscription", "string", "Subscription to read from, projects/P/subscriptions/S."),
        Option("batch_messages", "count", "Most messages of one publish request; Pub/Sub takes 1,000.", 1000),
        Option("batch_bytes", "size", "Most bytes of one publish request; Pub/Sub takes 10 MB.", 9_500_000),
        Option("requests", "count", "Most publish requests in flight.", 8),
        Option(
            "long_headers",
            "one of dead_letter|drop",
            "What is done with headers beyond Pub/Sub's limits (100, names of 256 bytes, values of 1,024 bytes): the "
            "message is a dead letter, or it goes without them.",
            "dead_letter",
        ),
        Option("streams", "count", "Streams of a source.", 1),
    ),
    "http": (
        *COMMON,
        Option("url", "string", "Where to send to, https://host/path.", required=True),
        Option("method", "one of POST|PUT|PATCH", "HTTP method.", "POST"),
        Option("headers", "map(string)", "Headers of each request; secrets by reference.", {}),
        Option("content_type", "string", "Content-Type of a request; unset, it follows from batch.", ""),
        Option("batch", "one of single|ndjson|array", "One message a request, lines, or a JSON array.", "single"),
        Option("batch_messages", "count", "Most messages of one request.", 100),
        Option("batch_bytes", "size", "Most bytes of one request.", 1_000_000),
        Option("concurrency", "count", "Most requests in flight.", 8),
        Option("timeout", "duration", "How long an answer may take.", 10.0),
        Option("ca_file", "string", "File of the authority that signed the host's certificate.", file=True),
    ),
    "file": (
        *COMMON,
        _FILE_EPOCH,
        Option("path", "string", "File of lines, one message each; - is standard input or output.", required=True),
        _COMPRESSION,
        Option(
            "lines",
            "one of values|messages",
            "values: a line is a payload. messages: a line is an object with key, headers, value, topic, partition, "
            "offset, timestamp.",
            "values",
        ),
    ),
}
