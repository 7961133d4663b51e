"""What may stand in the blocks other than endpoints: bridge, pipeline, lookup, mirror, replicate, test."""

from __future__ import annotations

from collections.abc import Mapping

from loader.bridge.stages.stage import Option

BRIDGE = (
    Option("name", "string", "Stands in front of consumer groups; two files on one Kafka cluster need two.", "bridge"),
)

FLOW = (
    Option("dead_letter", "endpoint", "Endpoint for messages that a stage or a sink refuses for good."),
    Option(
        "on_refusal",
        "one of dead_letter|stop|drop",
        "dead_letter: to that endpoint. stop: the pipeline stops at the message. drop: it is counted and logged.",
        "dead_letter",
    ),
    Option("format", "string", 'Format of the payload: raw, json, protobuf; or a block `format "KIND" { … }`.', "json"),
    Option(
        "criticality",
        "one of high|low",
        "Urgency of its alerts; unset: high if a sink's environment is prod, production or live, else low.",
    ),
    Option("shared", "bool", "May share its consumer with pipelines of the same source and sink environment.", True),
    Option("group", "string", "Consumer group of this pipeline alone; unset, it is derived: see --plan."),
    Option("start", "one of earliest|latest", "As the source's; set here, the pipeline does not share with others."),
    Option("enabled", "bool", "Whether it runs at all.", True),
    Option("max_in_flight", "count", "Most messages read and not yet confirmed; then reading pauses.", 20_000),
    Option("max_in_flight_bytes", "size", "Most payload bytes read and not yet confirmed.", 64 * 1024 * 1024),
    Option("commit_interval", "duration", "How often offsets are committed.", 5.0),
    Option("linger", "duration", "How long a message may wait for others to be read and sent along with it.", 0.03),
    Option(
        "ordering_key",
        "one of none|key",
        "key: the message's key is Pub/Sub's ordering key, which limits a key to 1 MB/s.",
        "none",
    ),
    Option(
        "tombstones",
        "one of skip|forward",
        "What becomes of messages without a value: counted and left out, or sent empty, marked by the attribute "
        "tombstone = true.",
        "skip",
    ),
)

PIPELINE = (
    Option("source", "endpoint", "Endpoint that messages come from.", required=True),
    Option(
        "sinks",
        "list(endpoint)",
        "Endpoints that messages go to: to all, unless a route says otherwise.",
        required=True,
    ),
    *FLOW,
)

MIRROR = (
    Option("between", "list(endpoint)", "Two endpoints that each get the other's messages.", required=True),
    Option("header", "string", "Header that carries the endpoints a message has been to.", "bridge-trail"),
    *FLOW,
)

REPLICATE = (
    Option("source", "endpoint", "Endpoint that messages come from.", required=True),
    Option("to", "list(endpoint)", "Endpoints that each get every message, by a pipeline of their own.", required=True),
    *FLOW,
)

LOOKUP = (
    Option("key", "path", "Field of each entry that it is found by; unset: the state is a map already."),
    Option("refresh", "duration", "How often it is fetched again.", 30.0),
    Option("timeout", "duration", "How long a fetch may take.", 10.0),
)

LOOKUP_KINDS: Mapping[str, tuple[Option, ...]] = {
    "http": (
        Option("url", "string", "Address of a JSON list or map.", required=True),
        Option("headers", "map(string)", "Headers of the request; secrets by reference.", {}),
        Option("path", "path", "Where in the answer the list or map stands."),
        Option("ca_file", "string", "File of the authority that signed the host's certificate.", file=True),
    ),
    "sql": (
        Option("dsn", "string", "libpq URL or conninfo of a Postgres.", required=True, secret=True),
        Option("query", "string", "Query whose rows are the entries, by column name.", required=True),
    ),
    "file": (
        Option("path", "string", "File to read.", required=True, file=True),
        Option("type", "one of auto|json|ndjson|csv", "auto: by the name's ending.", "auto"),
    ),
}

FORMATS: Mapping[str, tuple[Option, ...]] = {
    "raw": (),
    "json": (),
    "protobuf": (
        Option(
            "descriptor_set",
            "string",
            "File made by `protoc --include_imports --descriptor_set_out`.",
            required=True,
            file=True,
        ),
        Option("message", "string", "Full name of the message, package.Message.", required=True),
    ),
    "avro": (
        Option("registry", "string", "Address of the schema registry, https://host:port.", required=True),
        Option("subject", "string", "Subject whose newest schema is loaded at start, such as gps-value."),
        Option("username", "string", "User of the registry (basic authentication)."),
        Option("password", "string", "Its password.", secret=True),
        Option("token", "string", "Bearer token for the registry, instead of a user.", secret=True),
        Option("ca_file", "string", "File of the authority that signed the registry's certificate.", file=True),
        Option("cert_file", "string", "Client certificate, if the registry wants one.", file=True),
        Option("key_file", "string", "Its key, unless that is in cert_file.", file=True),
        Option("timeout", "duration", "How long the registry may take to answer.", 5.0),
        Option(
            "reader_schema",
            "string",
            "File (.avsc) of a schema that payloads are read by; unset: the one that each was written with.",
            file=True,
        ),
        Option(
            "columnar",
            "one of auto|off",
            "auto: batches are read into columns where a stage can use them and the extra bridge-fast is installed.",
            "auto",
        ),
    ),
}

TEST = (
    Option("pipeline", "string", "Pipeline that is tested.", required=True),
    Option("lookups", "map(value)", "State that lookups are taken to have, by name and key.", {}),
    Option(
        "input",
        "blocks",
        "A message that comes in.",
        required=True,
        inner=(
            Option("value", "value", "Payload: a map or list is written as JSON, a text as it is, null: a tombstone."),
            Option("key", "string", "Key."),
            Option("headers", "map(string)", "Headers.", {}),
            Option("topic", "string", "Topic; unset, the source's name.", ""),
            Option("partition", "number", "Partition.", 0),
            Option("offset", "number", "Offset.", 0),
            Option("timestamp", "number", "Milliseconds since the epoch.", 0),
        ),
    ),
    Option(
        "expect",
        "blocks",
        "A message that comes out, in order; only what is given is compared.",
        inner=(
            Option("sink", "endpoint", "Endpoint that it goes to."),
            Option("value", "value", "Payload: a map or list is compared as JSON, a text byte for byte."),
            Option("key", "string", "Key."),
            Option("headers", "map(string)", "Headers that it has, among others.", {}),
            Option("refused", "string", "It is refused, and this is part of the reason."),
        ),
    ),
)
