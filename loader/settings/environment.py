"""Reads the settings: LOADER_* over the reference worker's names over a TOML file over the defaults."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loader.errors import ConfigurationError
from loader.settings.aliases import read_aliases
from loader.settings.declaration import SECRETS, Settings

PREFIX = "LOADER_"
CONFIG = "LOADER_CONFIG"

# Kubernetes injects these for every service called loader or loader-SOMETHING, compose and docker links the like.
_INJECTED_NAME = re.compile(
    r"LOADER_(?:PORT|PORT_.+|SERVICE_.+|ENV_.+|.+_SERVICE_(?:HOST|PORT(?:_.+)?)|.+_(?:TCP|UDP|SCTP)(?:_.+)?)"
)
# A service called loader-http injects LOADER_HTTP_PORT=tcp://10.0.0.7:80: the name is ours, the value tells it apart.
_INJECTED_PORT = re.compile(r"(?:tcp|udp|sctp)://\S+", re.IGNORECASE)
_INJECTED_LINK = re.compile(r"/[^/]+/[^/]+")


def load_settings(config_path: str | Path | None, environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """The settings and the warnings to log about them.

    An empty variable counts as unset: compose and Terraform write one for each value that is missing.
    Raises ConfigurationError, one line that names the setting, its value unless it is secret, and what to set."""
    path = config_path or environ.get(CONFIG) or None
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    if path is not None:
        for attribute, value in read_toml(Path(path)).items():
            values[attribute], names[attribute] = value, f"{attribute} in {path}"
    aliased = read_aliases(environ)
    values.update(aliased.values)
    names.update(aliased.names)
    for attribute, text in read_environment(environ).items():
        values[attribute], names[attribute] = text, PREFIX + attribute.upper()
    try:
        return Settings(**values), aliased.warnings
    except ValidationError as error:
        faults = [_explain(fault, names, values) for fault in error.errors(include_url=False, include_context=False)]
    # Raised outside the handler, so that no traceback carries pydantic's error with its inputs.
    raise ConfigurationError("; ".join(faults))


def read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """LOADER_* values by attribute name, what was injected for a service left out. Raises on unknown names."""
    values = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name == CONFIG or not text.strip() or _injected(name, text):
            continue
        attribute = name.removeprefix(PREFIX).lower()
        if attribute not in Settings.model_fields or name != name.upper():
            raise ConfigurationError(
                f"{name} is not a setting{_nearest(name, (PREFIX + field.upper() for field in Settings.model_fields))}"
            )
        values[attribute] = text if attribute in SECRETS else text.strip()
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """Top-level keys of a TOML file, the settings' names in lower case. Raises on unknown keys."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the configuration file {path} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the configuration file {path} is not TOML: {error}") from None
    for key in document:
        if key not in Settings.model_fields:
            raise ConfigurationError(f"{key} in {path} is not a setting{_nearest(key, Settings.model_fields)}")
    return document


def _injected(name: str, text: str) -> bool:
    attribute = name.removeprefix(PREFIX).lower()
    if attribute in Settings.model_fields:
        return name.endswith("_PORT") and bool(_INJECTED_PORT.fullmatch(text.strip()))
    if name.endswith("_PORT") and _INJECTED_PORT.fullmatch(text.strip()):
        return True
    if name.endswith("_NAME"):
        return bool(_INJECTED_LINK.fullmatch(text.strip()))
    return bool(_INJECTED_NAME.fullmatch(name))


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name.upper(), [field.upper() for field in known], n=1, cutoff=0.6)
    if not close:
        return "; `loader settings` lists them all"
    return f"; did you mean {close[0] if name.upper().startswith(PREFIX) else close[0].lower()}?"


_KINDS = {"number": "a number", "integer": "a whole number", "boolean": "true or false"}


def _explain(fault: Any, names: Mapping[str, str], values: Mapping[str, Any]) -> str:
    attribute = str(fault["loc"][0]) if fault["loc"] else ""
    name = names.get(attribute, PREFIX + attribute.upper())
    message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message[:1].lower() + message[1:]
    message = re.sub(r"^input should be", "must be", message)
    # pydantic names the kind, and then its own trouble with parsing it.
    if kind := re.match(r"must be an? valid (\w+), unable to ", message):
        message = f"must be {_KINDS.get(kind[1], kind[1])}"
    if attribute in SECRETS:
        return f"{name}: {message}"
    value = str(values.get(attribute))
    return f"{name}={value if len(value) <= 80 else value[:77] + '...'}: {message}"
