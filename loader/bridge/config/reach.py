"""Finds what no message can reach: stages behind one that drops all, rules behind one that always holds, sinks."""

from __future__ import annotations

from typing import Any

from loader.bridge.condition.compile import compile_condition
from loader.bridge.config.finding import Findings, allowed
from loader.bridge.config.model import Pipeline, StageSpec
from loader.bridge.config.needs import reads_payload


def check_stages(pipeline: Pipeline, findings: Findings) -> None:
    """Unreachable stages, rules and sinks of one pipeline, and stages that read what is raw bytes."""
    reachable = set(pipeline.sinks)
    ended: StageSpec | None = None
    format = pipeline.format
    for spec in pipeline.stages:
        if ended is not None:
            text = (
                f'the stage "{spec.kind}" is never reached: "{ended.kind}" in line {ended.place.line} drops everything'
            )
            findings.error(spec.place, text)
            break
        if format == "raw" and reads_payload(spec):
            findings.error(
                spec.place,
                f'the stage "{spec.kind}" reads the payload, which is raw; set format to json or protobuf, or use '
                "headers, key and topic only",
            )
        if idle := _idle(spec):
            findings.warn(spec.place, idle)
        if spec.kind == "filter":
            holds = _constant(spec.options.get("when"))
            if holds is False:
                ended = spec
                findings.warn(spec.place, "this filter's condition is never true: it drops every message")
            elif holds is True:
                findings.warn(spec.place, "this filter's condition is always true: it does nothing")
        elif spec.kind == "sample" and spec.options.get("rate") == 0:
            ended = spec
            findings.warn(spec.place, "a sample with rate = 0 drops every message")
        elif spec.kind == "route":
            reachable &= _route(pipeline, spec, findings)
            if not reachable:
                ended = spec
        elif spec.kind == "convert":
            format = spec.options.get("to") or format
    for sink in pipeline.sinks:
        if sink not in reachable and ended is None:
            findings.warn(pipeline.place, f"no message reaches the sink {sink!r}: no rule sends any there")


def _idle(spec: StageSpec) -> str | None:
    """Why a stage does nothing to any message."""
    wanted = {
        "set": ("fields", "headers", "key"),
        "rename": ("fields",),
        "drop_fields": ("fields", "headers"),
        "copy_field": ("to", "to_header", "to_key"),
    }.get(spec.kind)
    if wanted is None or any(spec.options.get(each) for each in wanted):
        return None
    return f'the stage "{spec.kind}" does nothing: it has no {" and no ".join(wanted)}'


def _route(pipeline: Pipeline, spec: StageSpec, findings: Findings) -> set[str]:
    """Sinks that a route can send to."""
    found: set[str] = set()
    always: int | None = None
    for number, rule in enumerate(spec.options["rule"], 1):
        if always is not None and spec.options.get("match") != "all":
            findings.error(spec.place, f"rule {number} is never reached: rule {always} always holds")
            break
        holds = _constant(rule["when"])
        if holds is False:
            findings.warn(spec.place, f"rule {number} never holds")
        else:
            found.update(_known(pipeline, spec, rule["to"], findings))
        if holds is True:
            always = number
    if always is None:
        found.update(_known(pipeline, spec, spec.options.get("default"), findings))
    elif spec.options.get("default"):
        findings.error(spec.place, f"the default is never reached: rule {always} always holds")
    return found


def _known(pipeline: Pipeline, spec: StageSpec, names: Any, findings: Findings) -> list[str]:
    known = []
    for name in names or ():
        if name in pipeline.sinks:
            known.append(name)
        else:
            text = f"{name!r} is no sink of pipeline {pipeline.name!r}{allowed(name, pipeline.sinks)}"
            findings.error(spec.place, text)
    return known


def _constant(when: Any) -> bool | None:
    if isinstance(when, bool) or when is None:
        return when
    return compile_condition(when).constant
