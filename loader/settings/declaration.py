"""The settings, each declared once. An attribute is its environment name without LOADER_, in lower case."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from loader.settings.contract import SchemaContract, parse_contract
from loader.settings.sizes import parse_size

MESSAGES_OUTSTANDING = 3
"""Bundles by count: one loads, one fills, one is on its way, which keeps the database busy."""
BYTES_OUTSTANDING = 1.5
"""Bundles by size. What is held is most of a worker's memory: with three bundles of 1 KB messages it is 35 MB larger
and loads no faster, measured on a server that sends 300,000 a second."""
MIB = 1024 * 1024


def _processes(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 256:
        raise ValueError("must be a number from 1 to 256, or auto")
    return number


def _resource(kind: str) -> AfterValidator:
    pattern = re.compile(rf"projects/[^/\s]+/{kind}/[^/\s]+")
    example = f"projects/my-project/{kind}/my-{kind[:-1]}"

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"must be a full name such as {example}, not {value!r}")
        return value

    return AfterValidator(check)


def _dataset(value: str) -> str:
    # 63 bytes is where Postgres cuts identifiers without a word; a cut name would be another dataset.
    if not value or "\0" in value or len(value.encode("utf-8", "replace")) > 63:
        raise ValueError("must be a Postgres schema name of 1 to 63 bytes")
    if "%" in value:  # psycopg takes it for a placeholder, in quoted names too
        raise ValueError("must not contain %")
    if value.lower().startswith("pg_") or value.lower() == "information_schema":
        raise ValueError(f"{value!r} is reserved by Postgres; choose another name")
    return value


Size = Annotated[int, BeforeValidator(parse_size)]
Contract = Annotated[SchemaContract, BeforeValidator(parse_contract)]
Subscription = Annotated[str, _resource("subscriptions")]
Topic = Annotated[str, _resource("topics")]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda v: str(v).strip().upper())]
Processes = Annotated[int | Literal["auto"], BeforeValidator(_processes)]


class Settings(BaseSettings):
    """What a command needs to know. Build one with `environment.load_settings`; in tests, `Settings(dataset="x")`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, env_prefix="LOADER_")

    # Where from, where to
    subscription: Subscription | None = Field(None, description="Subscription to load, `projects/P/subscriptions/S`.")
    database_url: SecretStr | None = Field(
        None,
        description="Any libpq URL or conninfo; unset, the libpq variables (`PGHOST` …) say where the database is.",
    )
    iam_auth: bool = Field(
        False, description="Cloud SQL IAM login: a fresh OAuth token is the password of each new connection."
    )
    dataset: Annotated[str, AfterValidator(_dataset)] = Field(
        "events", description="Postgres schema that holds the tables; workers that share it agree on one schema."
    )

    # Which table
    table_key: str | None = Field(None, min_length=1, description="JSON field that names the table; it stays a column.")
    table_attribute: str | None = Field(
        None, min_length=1, description="Message attribute that names the table; wins over the key."
    )
    table_prefix: str = Field("", description="Put in front of every table name that a message gives.")
    default_table: str = Field("unknown", min_length=1, description="Table of events that name none.")

    # Which event
    event_id_attribute: str | None = Field(
        None, min_length=1, description="Message attribute that identifies the event; unset, Pub/Sub's message id does."
    )
    event_id_key: str | None = Field(
        None, min_length=1, description="JSON field that identifies the event, where the attribute is absent."
    )

    # Bundles and flow
    window_seconds: float = Field(
        5.0, gt=0, le=600, allow_inf_nan=False, description="A bundle closes this long after its first message."
    )
    max_bundle_messages: int = Field(20_000, ge=1, description="A bundle closes at this many messages.")
    max_bundle_bytes: Size = Field(16 * MIB, ge=1, description="A bundle closes at this size, bodies as delivered.")
    max_outstanding_messages: int | None = Field(
        None, ge=1, description="Messages held by a process at most; unset, three bundles: more would hoard a backlog."
    )
    max_outstanding_bytes: Size | None = Field(
        None,
        ge=1,
        description="Bytes held by a process at most; unset, a bundle and a half: they weigh the most in it.",
    )
    lease_seconds: int = Field(
        60, ge=10, le=600, description="Lease taken on each message, renewed until its bundle has committed."
    )
    streams: int = Field(
        1, ge=1, le=64, description="Streaming pulls a process; one carries 10 MB/s of the service's limit a stream."
    )
    processes: Processes = Field(
        1, description="Worker processes; `auto` is one per CPU, supervised, one drain for all."
    )

    # Budgets
    max_nesting: int = Field(
        10, ge=0, le=100, description="dlt's nesting level: lists within it become child tables, deeper ones jsonb."
    )
    json_keys: str = Field(
        "", description="Top-level keys, `key` or `table.key` with commas between, whose objects and arrays stay jsonb."
    )
    max_columns: int = Field(
        400, ge=20, le=1500, description="Columns a table; later keys go to one jsonb column (Postgres ends at 1,600)."
    )
    max_tables: int = Field(
        500, ge=1, description="Tables of the dataset, child tables included; later ones go to the default table."
    )
    max_message_bytes: Size = Field(
        10 * MIB, ge=1, description="Size of a body after inflating; inflating stops there."
    )
    max_array_elements: int = Field(10_000, ge=1, description="Elements of one array, in the body or within it.")
    max_keys: int = Field(5_000, ge=1, description="Keys of one message, all levels counted.")

    # Schema, what is kept, dead letters
    schema_contract: Contract = Field(
        SchemaContract(),
        description="dlt's contract, `columns=freeze,data_type=discard_value` or one word for all three; "
        "`freeze` dead-letters, the discards are counted.",
    )
    keep_attributes: bool = Field(False, description="Keep the message attributes in the jsonb column `_attributes`.")
    keep_raw: bool = Field(False, description="Keep the body in the jsonb column `_raw`.")
    dead_letter_topic: Topic | None = Field(
        None, description="Topic to which dead letters are exported, `projects/P/topics/T`; the table stays the record."
    )

    # Running
    shutdown_seconds: float = Field(
        20.0,
        gt=0,
        le=600,
        allow_inf_nan=False,
        description="Time from SIGTERM to exit; a spot machine has 30 s in all.",
    )
    http_host: str = Field("127.0.0.1", min_length=1, description="Address of the metrics and health server.")
    http_port: int = Field(8080, ge=0, le=65535, description="Its port; 0 is off.")
    http_token: SecretStr | None = Field(
        None, description="Bearer token that opens `/debug/profile` to others than loopback."
    )
    log_level: LogLevel = Field("INFO", description="DEBUG, INFO, WARNING or ERROR.")
    log_to: Literal["stdout", "cloud"] = Field(
        "stdout", description="`stdout`: JSON in Cloud Logging's format; `cloud`: the Cloud Logging API."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # environment.py reads the environment itself: names that are unknown or aliases must be seen, and
        # a test's Settings(...) must not depend on the shell that it runs in.
        return (init_settings,)

    @property
    def outstanding_messages(self) -> int:
        """Messages that one process may hold, all its streams together."""
        return self.max_outstanding_messages or MESSAGES_OUTSTANDING * self.max_bundle_messages

    @property
    def outstanding_bytes(self) -> int:
        """Bytes that one process may hold, all its streams together."""
        return self.max_outstanding_bytes or int(BYTES_OUTSTANDING * self.max_bundle_bytes)


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if SecretStr in get_args(field.annotation))
"""Attributes whose value appears in no message."""
