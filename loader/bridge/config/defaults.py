"""The file as it is understood: every option with its value, and whether it was written or is a default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loader.bridge.config import blocks
from loader.bridge.config.endpoints import KINDS
from loader.bridge.config.model import Configuration
from loader.bridge.config.reference import Reference
from loader.bridge.stages.stage import Option

Row = tuple[str, str, str, str]
"""Block, option, value, `default` or empty."""


def rows(configuration: Configuration) -> Iterator[Row]:
    """Every option of every block. References are shown as they are written, never what they stand for."""
    for endpoint in configuration.endpoints.values():
        block = f'endpoint "{endpoint.kind}" "{endpoint.name}"'
        yield block, "region", endpoint.region, ""
        yield block, "environment", endpoint.environment, ""
        yield from _options(block, endpoint.options, KINDS[endpoint.kind])
    for pipeline in configuration.pipelines.values():
        block = f'pipeline "{pipeline.name}"'
        yield block, "source", pipeline.source, ""
        yield block, "sinks", ", ".join(pipeline.sinks), ""
        yield block, "stages", " → ".join(spec.kind for spec in pipeline.stages) or "none", ""
        yield block, "format", pipeline.format, "default" if pipeline.format == "json" else ""
        yield block, "criticality", pipeline.criticality, ""
        yield block, "dead_letter", pipeline.dead_letter or "–", ""
        yield block, "shared", shown(pipeline.shared), "default" if pipeline.shared else ""
        yield from _options(block, pipeline.options, blocks.FLOW)
    for lookup in configuration.lookups.values():
        block = f'lookup "{lookup.name}"'
        yield block, "refresh", f"{lookup.refresh_seconds:g}", "default" if lookup.refresh_seconds == 30 else ""
        yield from _options(block, lookup.options, (*blocks.LOOKUP, *blocks.LOOKUP_KINDS[lookup.kind]))


def _options(block: str, values: Mapping[str, Any], declared: tuple[Option, ...]) -> Iterator[Row]:
    defaults = {option.name: option.default for option in declared}
    for name, value in values.items():
        yield block, name, shown(value), "default" if value == defaults.get(name) else ""


def shown(value: Any) -> str:
    """A value as one would write it."""
    if value is None or value == {} or value == ():
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Reference):
        return str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {shown(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
