"""Asks the Kafka client whether it takes what the file says of Kafka endpoints; no broker is spoken to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loader.bridge.config.finding import Findings
from loader.bridge.config.model import Configuration, Endpoint
from loader.bridge.config.reference import resolve, secrets, unset
from loader.bridge.sources.kafka_options import connection, consumer_settings, make_client, producer_settings
from loader.errors import ConfigurationError
from loader.logs import Redaction

NOT_INSTALLED = (
    "the properties of Kafka endpoints are not checked: confluent-kafka is not installed "
    "(pip install 'pubsub-postgres-loader[bridge]')"
)
_WITHOUT_SERVERS = {"sasl_ssl": "ssl", "sasl_plaintext": "plaintext"}
_ASKS_OTHERS = ("OAUTHBEARER", "GSSAPI")
"""Mechanisms whose client fetches a token, or runs kinit, as soon as it is made."""
_CONNECTION = ("tls", "ca_file", "username", "password", "mechanism")
_CREATION = "Failed to create"
"""How librdkafka begins when values are sound, each for itself, but not with each other."""

Said = Iterator[tuple[str | None, str]]
"""Refusals: the property if it is one alone, and the client's words."""


def check_properties(configuration: Configuration, findings: Findings, environ: Mapping[str, str]) -> None:
    """Add what the client refuses of each Kafka endpoint, as a source and as a sink, as far as it is one.

    What cannot be known here is left out: references that cannot be resolved, and files that are not here."""
    pipelines = configuration.pipelines.values()
    readers = {pipeline.source for pipeline in pipelines}
    writers = {sink for pipeline in pipelines for sink in (*pipeline.sinks, pipeline.dead_letter)}
    kafka = [each for each in configuration.endpoints.values() if each.kind == "kafka"]
    used = [each for each in kafka if each.name in readers | writers]
    if not used:
        return
    try:
        from confluent_kafka import Consumer, Producer
    except ImportError:
        findings.warn(used[0].place, NOT_INSTALLED)
        return
    for endpoint in used:
        hide = Redaction(secrets(endpoint.options, environ))
        told = set()
        for role, there, kind, settings_of in (
            ("source", readers, Consumer, lambda properties: consumer_settings("", "check", properties)),
            ("sink", writers, Producer, lambda properties: producer_settings("", properties)),
        ):
            for name, words in _asked(kind, settings_of, endpoint, environ) if endpoint.name in there else ():
                what = "" if name is None else f"properties: {name}: "
                if (name, words) not in told:  # most are the same for both
                    told.add((name, words))
                    text = f'endpoint "kafka" "{endpoint.name}" as a {role}: {what}{words}'
                    findings.error(endpoint.place, hide.text(text))


def _asked(
    kind: Callable[..., Any],
    settings_of: Callable[[Mapping[str, Any]], dict[str, Any]],
    endpoint: Endpoint,
    environ: Mapping[str, str],
) -> Said:
    options = {name: endpoint.options.get(name) for name in _CONNECTION}
    known = {name: resolve(each, environ) for name, each in options.items() if not unset(each, environ)}
    written = endpoint.options.get("properties") or {}
    properties = {name: resolve(each, environ) for name, each in written.items() if not unset(each, environ)}
    # A library that the client would load, and so run; and files of another machine.
    properties = {name: each for name, each in properties.items() if name != "plugin.library.paths"}
    properties = {name: each for name, each in properties.items() if not _elsewhere(name, each)}
    complete = known.keys() == options.keys() and properties.keys() == written.keys()
    # The client names a property as it does itself, linger.ms as queue.buffering.max.ms: alone, it is that one.
    for name, value in list(properties.items()):
        if (words := _refused(kind, settings_of, {name: value})) and not words.startswith(_CREATION):
            del properties[name]
            yield name, words
    given = connection({**known, "properties": properties})
    complete = complete and not _elsewhere("ssl.ca.location", given.get("ssl.ca.location"))
    given = {name: each for name, each in given.items() if not _elsewhere(name, each)}
    if words := _refused(kind, settings_of, given, complete):
        yield None, words


def _elsewhere(name: str, value: Any) -> bool:
    return name.endswith(".location") and isinstance(value, str) and not Path(value).exists()


def _refused(
    kind: Callable[..., Any],
    settings_of: Callable[[Mapping[str, Any]], dict[str, Any]],
    properties: Mapping[str, Any],
    complete: bool = False,
) -> str | None:
    """The client's words if it does not take these properties."""
    try:
        settings = settings_of(properties)
        del settings["bootstrap.servers"]  # without it the client connects to nobody
        client = make_client(kind, _offline(settings, complete), _SILENT)
    except ConfigurationError as error:
        return str(error)
    if hasattr(client, "close"):
        client.close()
    return None


def _offline(settings: Mapping[str, Any], complete: bool) -> dict[str, Any]:
    """The settings without what makes the client begin a login or read certificates that it does not have."""
    protocol = str(settings.get("security.protocol", "")).lower()
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "GSSAPI"))).upper()
    if not complete and protocol in ("ssl", *_WITHOUT_SERVERS):
        return {**settings, "security.protocol": "plaintext"}
    if protocol in _WITHOUT_SERVERS and mechanism in _ASKS_OTHERS:
        return {**settings, "security.protocol": _WITHOUT_SERVERS[protocol]}
    return dict(settings)


_SILENT = logging.getLogger(f"{__name__}.silent")
_SILENT.disabled = True  # the client's own lines tell of properties of the other role, and that there is no broker
