"""What a pipeline needs: which lookups, and whether it reads payloads. Found in its stages' expressions."""

from __future__ import annotations

from loader.bridge.condition.analysis import reads
from loader.bridge.condition.parse import parse
from loader.bridge.config.model import Pipeline, StageSpec
from loader.bridge.config.tree import Expression, expressions

CHANGERS = frozenset({"convert", "copy_field", "drop_fields", "flatten", "rename"})
"""Stages that read the payload without an expression that says so."""


def lookups_of(pipeline: Pipeline) -> dict[str, Expression]:
    """Names of the lookups that its stages read, each with the first expression that does."""
    found: dict[str, Expression] = {}
    for expression in expressions([spec.options for spec in pipeline.stages]):
        names: set[str] = set()
        reads(parse(expression.text, expression.place), names)
        for name in names:
            found.setdefault(name, expression)
    return found


def reads_payload(spec: StageSpec) -> bool:
    """Whether a stage decodes payloads."""
    options = spec.options
    if spec.kind == "drop_fields":
        return bool(options.get("fields"))
    if spec.kind in CHANGERS or options.get("new_ids") or (spec.kind == "set" and options.get("fields")):
        return True
    return any(reads(parse(each.text, each.place), set()) for each in expressions(options))
