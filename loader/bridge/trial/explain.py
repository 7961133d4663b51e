"""Says what every pipeline would do with one message: which stage, which rule, where it goes, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from loader.bridge.config.instance import Instance
from loader.bridge.config.model import Configuration
from loader.bridge.lookups.state import FetchFailed, fetch
from loader.bridge.trial.trial import Lookups, Trial, make_frame
from loader.errors import LoaderError

FIELDS = frozenset({"topic", "key", "headers", "value", "partition", "offset", "timestamp", "source"})


def read_message(path: str) -> dict[str, Any]:
    """The message in a file. Raises LoaderError that says what it must be."""
    shape = 'an object such as {"topic": "events", "key": "k", "headers": {}, "value": {…}}'
    try:
        message = orjson.loads(Path(path).read_bytes())
    except OSError as error:
        raise LoaderError(f"{path}: cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise LoaderError(f"{path}: not JSON: {error}; it must be {shape}") from None
    if not isinstance(message, dict) or set(message) - FIELDS or not isinstance(message.get("headers") or {}, dict):
        raise LoaderError(f"{path}: must be {shape}; allowed: {', '.join(sorted(FIELDS))}")
    return message


def explain(
    configuration: Configuration,
    message: Mapping[str, Any],
    instance: Instance | None,
    lookups: Lookups,
) -> list[dict[str, Any]]:
    """One entry a pipeline: {"pipeline", "runs", "steps", "sent", "refused", "decodes"}. With an instance, pipelines
    of other ones are left out; with `source` or `topic` in the message, those of other sources."""
    found = []
    for pipeline in configuration.pipelines.values():
        source = configuration.endpoints[pipeline.source]
        if instance is not None and not instance.runs(source.region, source.environment):
            continue
        topic = source.options.get("topic")
        if message.get("source", source.name) != source.name:
            continue
        if isinstance(topic, str) and source.kind == "kafka" and message.get("topic", topic) != topic:
            continue
        trial = Trial(configuration, pipeline.name, lookups)
        result = trial.run(make_frame(message, trial.format, topic if isinstance(topic, str) else source.name))
        found.append(
            {
                "pipeline": pipeline.name,
                "steps": [asdict(step) for step in result.steps],
                "sent": [
                    {
                        "sink": sent.sink,
                        "key": _text(sent.key),
                        "headers": {name: _text(value) for name, value in sent.headers},
                        "value": _text(sent.value),
                        "untouched": sent.untouched,
                    }
                    for sent in result.sent
                ],
                "refused": [asdict(refused) for refused in result.refused],
                "decodes": result.decodes,
            }
        )
    return found


def fetched(configuration: Configuration) -> Lookups:
    """The lookups that the pipelines read, fetched once now. Raises LoaderError if one cannot be."""
    states: dict[str, Mapping[str, Any]] = {}

    def state(name: str) -> Mapping[str, Any]:
        if name not in states:
            try:
                states[name] = fetch(configuration.lookups[name])
            except FetchFailed as error:
                raise LoaderError(f"lookup {name} cannot be fetched: {error}") from None
        return states[name]

    return state


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
