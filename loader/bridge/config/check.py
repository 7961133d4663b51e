"""Checks what no single block can show: unknown names, loops, limits, policies, shared consumers, fan-out."""

from __future__ import annotations

from collections.abc import Iterable

from loader.bridge.condition.analysis import patterns
from loader.bridge.condition.parse import parse
from loader.bridge.condition.pattern import LONGEST, study
from loader.bridge.config.finding import Findings, allowed
from loader.bridge.config.loops import find_loops, reading
from loader.bridge.config.model import Configuration, Pipeline, Place
from loader.bridge.config.needs import lookups_of
from loader.bridge.config.plan import group_name
from loader.bridge.config.pubsub import check_endpoint, check_headers
from loader.bridge.config.reach import check_stages
from loader.bridge.config.tree import expressions

LONGEST_LINGER = 10
"""Seconds. A spot machine has 30 s from the signal to its end, and a bridge 20 s of these."""


def check(configuration: Configuration, findings: Findings) -> None:
    """Add what is wrong, doubtful or good to know."""
    if not configuration.pipelines and not findings.failed:
        findings.error(Place(configuration.file, 1), "there is no pipeline")
    for endpoint in configuration.endpoints.values():
        if endpoint.kind == "pubsub":
            check_endpoint(endpoint, findings)
    sound = [pipeline for pipeline in configuration.pipelines.values() if _names(configuration, pipeline, findings)]
    for pipeline in configuration.pipelines.values():
        _policy(pipeline, findings)
        check_stages(pipeline, findings)
        _patterns(pipeline, findings)
    for pipeline in sound:
        _fan_out(configuration, pipeline, findings)
        if any(configuration.endpoints[sink].kind == "pubsub" for sink in pipeline.sinks):
            check_headers(pipeline, findings)
        elif pipeline.options.get("ordering_key") == "key":
            findings.warn(pipeline.place, "ordering_key has no meaning: no sink is Pub/Sub")
    for ring in find_loops(configuration):
        way = " → ".join(pipeline.name for pipeline in ring)
        if len(ring) == 1:
            text = f"pipeline {way!r} feeds its own source; use a mirror block for two ways"
        else:
            text = f"a loop: {way} → {ring[0].name}; each message would go round for ever"
        findings.error(ring[0].place, text)
    _shared(configuration, sound, findings)
    _tests(configuration, findings)


def _names(configuration: Configuration, pipeline: Pipeline, findings: Findings) -> bool:
    """Whether source and sinks are endpoints that can be used so."""
    endpoints = configuration.endpoints
    before = len(findings.all)
    roles: list[tuple[str, str]] = [("source", pipeline.source), *(("sink", sink) for sink in pipeline.sinks)]
    if pipeline.dead_letter:
        roles.append(("dead_letter", pipeline.dead_letter))
    for role, name in roles:
        if name not in endpoints:
            if name:  # a missing one has been told already
                findings.error(pipeline.place, f"{role} {name!r} is no endpoint{allowed(name, endpoints)}")
            continue
        endpoint = endpoints[name]
        if role == "source" and endpoint.kind == "http":
            findings.error(pipeline.place, f"source {name!r}: an http endpoint can only be a sink")
        if endpoint.kind == "pubsub":
            what = "subscription" if role == "source" else "topic"
            if not endpoint.options.get(what):
                findings.error(pipeline.place, f"{role} {name!r} has no {what}; set it in line {endpoint.place.line}")
    for name, expression in lookups_of(pipeline).items():
        if name not in configuration.lookups:
            findings.error(expression.place, f"lookup {name!r} is not there{allowed(name, configuration.lookups)}")
    sinks = [sink for sink in pipeline.sinks if sink in endpoints]
    for sink in {sink for sink in sinks if sinks.count(sink) > 1}:
        findings.error(pipeline.place, f"the sink {sink!r} stands twice")
    return len(findings.all) == before and bool(sinks) and pipeline.source in endpoints


def _policy(pipeline: Pipeline, findings: Findings) -> None:
    if (pipeline.options.get("linger") or 0) > LONGEST_LINGER:
        text = f"linger is {LONGEST_LINGER} s at most: what still waits when the bridge stops is not drained"
        findings.error(pipeline.place, text)
    policy = pipeline.options.get("on_refusal")
    if policy == "dead_letter" and not pipeline.dead_letter:
        findings.error(
            pipeline.place,
            "it does not say what becomes of messages that are refused for good: set "
            'dead_letter = "ENDPOINT", or on_refusal = "stop" or "drop"',
        )
    if policy != "dead_letter" and pipeline.dead_letter:
        findings.warn(pipeline.place, f"dead_letter is not used: on_refusal is {policy}")
    if pipeline.dead_letter and pipeline.dead_letter in pipeline.sinks:
        findings.warn(pipeline.place, f"dead letters go to the sink {pipeline.dead_letter!r}, among good messages")


def _patterns(pipeline: Pipeline, findings: Findings) -> None:
    """How long a text may be for `matches`: many a field is longer than 2,000 characters, few than 20,000."""
    for expression in expressions([spec.options for spec in pipeline.stages]):
        for pattern in patterns(parse(expression.text, expression.place)):
            longest = study(pattern).longest
            if longest is not None:
                tell = findings.note if longest == max(LONGEST.values()) else findings.warn
                tell(
                    expression.place,
                    f"matches tries {pattern!r} on {longest:,} characters at most, for its time grows faster than the "
                    "text; a message with a longer one is refused",
                )


def _fan_out(configuration: Configuration, pipeline: Pipeline, findings: Findings) -> None:
    environments = {configuration.endpoints[sink].environment for sink in pipeline.sinks}
    if len(environments) > 1:
        findings.warn(
            pipeline.place,
            f"the sinks of {pipeline.name!r} are in {' and '.join(sorted(environments))}: trouble in one holds up the "
            "others; a replicate block gives each a pipeline of its own",
        )
    copies = 1
    for spec in pipeline.stages:
        copies *= spec.options.get("copies") or 1 if spec.kind == "multiply" else 1
    if copies > 1 or len(pipeline.sinks) > 1:
        findings.note(
            pipeline.place,
            f"fan-out of {pipeline.name!r}: up to {copies * len(pipeline.sinks)} for one "
            f"({copies} × {len(pipeline.sinks)} sinks)",
        )


def _shared(configuration: Configuration, pipelines: Iterable[Pipeline], findings: Findings) -> None:
    """Who reads together, and groups that two readers of different sources would fight over."""
    by_group: dict[str, list[Pipeline]] = {}
    reaching: dict[tuple[object, str], list[str]] = {}
    for pipeline in pipelines:
        by_group.setdefault(group_name(configuration, pipeline), []).append(pipeline)
        for sink in pipeline.sinks:
            source = reading(configuration.endpoints[pipeline.source])
            reaching.setdefault((source, sink), []).append(pipeline.name)
    for group, members in by_group.items():
        own = [member for member in members if member.options.get("group") or not member.shared]
        if len(members) > 1 and (own or len({member.source for member in members}) > 1):
            names = ", ".join(member.name for member in members)
            findings.error(members[-1].place, f"the consumer group {group!r} is that of {names}; give each its own")
        elif len(members) > 1:
            names = ", ".join(member.name for member in members)
            findings.note(members[0].place, f"{names} share the consumer {group!r}; shared = false gives one its own")
    for (_, sink), names_there in reaching.items():
        if len(names_there) > 1:
            findings.warn(
                configuration.pipelines[names_there[-1]].place,
                f"{' and '.join(names_there)} take the same source to {sink!r}: a message that passes several arrives "
                "several times, with an identity for each",
            )


def _tests(configuration: Configuration, findings: Findings) -> None:
    for test in configuration.tests:
        if test.pipeline and test.pipeline not in configuration.pipelines:
            text = f"pipeline {test.pipeline!r} is not there{allowed(test.pipeline, configuration.pipelines)}"
            findings.error(test.place, text)
            continue
        for name in test.lookups:
            if name not in configuration.lookups:
                findings.error(test.place, f"lookup {name!r} is not there{allowed(name, configuration.lookups)}")
        sinks = configuration.pipelines[test.pipeline].sinks if test.pipeline else ()
        for expected in test.expected:
            if expected.get("sink") and expected["sink"] not in sinks:
                findings.error(test.place, f"{expected['sink']!r} is no sink{allowed(expected['sink'], sinks)}")
