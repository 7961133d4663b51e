"""Environment names of the reference worker (dataroche/pubsub-dlt-stream), so that its deployments move over.

They are dlt configuration names: the credentials may be one URL or one name for each part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from loader.database.conninfo import render_conninfo
from loader.errors import ConfigurationError

CREDENTIALS = "DESTINATION__POSTGRES__CREDENTIALS"

ALIASES = {
    "PUBSUB_INPUT_SUBSCRIPTION": "subscription",
    "DATASET_NAME": "dataset",
    "WINDOW_SIZE_SECS": "window_seconds",
    "MAX_BUNDLE_SIZE": "max_bundle_messages",
    "TABLE_NAME_DATA_KEY": "table_key",
    "TABLE_NAME_PREFIX": "table_prefix",
    CREDENTIALS: "database_url",
}

# Parts of dlt's PostgresCredentials and the libpq keyword of each. The driver is always libpq here.
CREDENTIAL_PARTS = {
    "HOST": "host",
    "PORT": "port",
    "DATABASE": "dbname",
    "USERNAME": "user",
    "PASSWORD": "password",
    "CONNECT_TIMEOUT": "connect_timeout",
    "CLIENT_ENCODING": "client_encoding",
    "QUERY": None,
    "DRIVERNAME": None,
}

IGNORED = {
    "PUBSUB_INPUT_TOPIC": "the subscription already says which topic it reads",
    "LOAD__DELETE_COMPLETED_JOBS": "no load packages are kept on disk",
}


@dataclass(frozen=True, slots=True)
class Aliased:
    """What the reference worker's names say: values by attribute, the name that each came from, what is ignored."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    names: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_aliases(environ: Mapping[str, str]) -> Aliased:
    """Translate the reference worker's names found in `environ`.

    Raises ConfigurationError for a destination other than Postgres and for an unknown part of the credentials."""
    destination = environ.get("DESTINATION_NAME", "").strip()
    if destination and destination.rpartition(".")[2].lower() != "postgres":
        raise ConfigurationError(
            f"DESTINATION_NAME={destination!r} is not supported: only postgres is; unset it or set it to postgres"
        )
    found = Aliased()
    for name, attribute in ALIASES.items():
        if environ.get(name, "").strip():
            found.values[attribute] = environ[name].strip()
            found.names[attribute] = name
    if "database_url" not in found.values:
        conninfo = _split_credentials(environ)
        if conninfo is not None:
            found.values["database_url"] = conninfo
            found.names["database_url"] = CREDENTIALS
    ignored = [f"{name} ({why})" for name, why in IGNORED.items() if environ.get(name, "").strip()]
    if ignored:
        found.warnings.append(f"ignored, remove it: {', '.join(ignored)}")
    return found


def _split_credentials(environ: Mapping[str, str]) -> str | None:
    prefix = CREDENTIALS + "__"
    parts = {name.removeprefix(prefix): value for name, value in environ.items() if name.startswith(prefix) and value}
    if not parts:
        return None
    unknown = sorted(parts.keys() - CREDENTIAL_PARTS.keys())
    if unknown:
        known = ", ".join(CREDENTIAL_PARTS)
        raise ConfigurationError(f"{prefix}{unknown[0]} is not a part of the credentials; the parts are {known}")
    params = _query(prefix + "QUERY", parts["QUERY"]) if "QUERY" in parts else {}
    for part, keyword in CREDENTIAL_PARTS.items():
        if keyword is not None and part in parts:
            # Only the password is taken to the letter: a blank at the end of a host is never meant.
            params[keyword] = parts[part] if part == "PASSWORD" else parts[part].strip()
    return render_conninfo(params)


def _query(name: str, text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ConfigurationError(f'{name} must be a JSON object such as {{"sslmode": "require"}}')
    return {str(key): str(value) for key, value in document.items()}
