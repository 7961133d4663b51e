"""Turns a parsed file into a Configuration. Everything that is wrong is found in one go."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loader.bridge.config import blocks as declared
from loader.bridge.config.check import check
from loader.bridge.config.endpoints import COMMON, GUARANTEED, KINDS
from loader.bridge.config.expand import expand_mirror, expand_replicate
from loader.bridge.config.finding import Finding, Findings, InvalidConfiguration, allowed, in_order
from loader.bridge.config.hcl import parse, read_file
from loader.bridge.config.kafka import check_properties
from loader.bridge.config.model import Configuration, Criticality, Endpoint, Lookup, Pipeline, StageSpec, TestBlock
from loader.bridge.config.options import read_options
from loader.bridge.config.reference import Reference, unset
from loader.bridge.config.tree import Block
from loader.bridge.formats.registry import make_format
from loader.bridge.stages.registry import kinds
from loader.errors import ConfigurationError

PRODUCTION = frozenset({"prod", "production", "live"})
BLOCKS = ("bridge", "endpoint", "lookup", "mirror", "pipeline", "replicate", "test")


def load_configuration(path: str | Path, environ: Mapping[str, str] | None = None) -> Configuration:
    """The checked configuration in `path`. `environ` says what env() in a region or environment means.

    Raises InvalidConfiguration (exit code 78) with every error of the file."""
    configuration, findings = read_configuration(read_file(path), str(path), environ)
    findings.check()
    return configuration


def parse_configuration(text: str, file: str = "bridge.hcl", environ: Mapping[str, str] | None = None) -> Configuration:
    """As `load_configuration`, from a text."""
    configuration, findings = read_configuration(parse(text, file), file, environ)
    findings.check()
    return configuration


def examine(path: str | Path, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Every finding of the file, those of its syntax included, in the order of the file. Beyond what is looked at
    before it is run: variables and secret files that are not there, formats whose files cannot be used, and properties
    that Kafka's client does not take."""
    environ = os.environ if environ is None else environ
    try:
        configuration, findings = read_configuration(read_file(path), str(path), environ)
    except InvalidConfiguration as error:
        return error.findings
    owners: list[Any] = [*configuration.endpoints.values(), *configuration.lookups.values()]
    owners += configuration.pipelines.values()
    owners += (spec for pipeline in configuration.pipelines.values() for spec in pipeline.stages)
    told = set()
    for owner in owners:
        for reference in unset([owner.options, getattr(owner, "format_options", {})], environ):
            if reference not in told:
                told.add(reference)
                findings.warn(reference.place, f"{reference} cannot be resolved here")
    for pipeline in configuration.pipelines.values():
        if not findings.failed and not unset(pipeline.format_options, environ):
            try:
                make_format(pipeline.format, pipeline.format_options)
            except ConfigurationError as error:
                findings.error(pipeline.place, str(error))
    check_properties(configuration, findings, environ)
    return in_order(findings.all)


def read_configuration(
    root: Block, file: str, environ: Mapping[str, str] | None = None
) -> tuple[Configuration, Findings]:
    """The configuration as far as it could be read, and what is wrong with it."""
    reader = _Reader(root, os.environ if environ is None else environ)
    configuration = reader.read(file)
    check(configuration, reader.findings)
    return configuration, reader.findings


class _Reader:
    def __init__(self, root: Block, environ: Mapping[str, str]) -> None:
        self.root = root
        self.environ = environ
        self.findings = Findings()
        self.endpoints: dict[str, Endpoint] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.lookups: dict[str, Lookup] = {}
        self.tests: dict[str, TestBlock] = {}

    def read(self, file: str) -> Configuration:
        by_kind: dict[str, list[Block]] = {kind: [] for kind in BLOCKS}
        for attribute in self.root.attributes.values():
            self.findings.error(attribute.place, f"{attribute.name} stands outside of any block; blocks: {BLOCKS}")
        for block in self.root.blocks:
            if block.kind in by_kind:
                by_kind[block.kind].append(block)
            else:
                self.findings.error(block.place, f"unknown block {block.kind!r}{allowed(block.kind, BLOCKS)}")
        name = self.bridge(by_kind["bridge"])
        # Endpoints first: the criticality of a pipeline follows from its sinks.
        for block in by_kind["endpoint"]:
            self.endpoint(block)
        for block in by_kind["lookup"]:
            self.lookup(block)
        for block in self.root.blocks:
            if block.kind in ("pipeline", "mirror", "replicate"):
                self.flow(block)
        for block in by_kind["test"]:
            self.test(block)
        return Configuration(file, name, self.endpoints, self.pipelines, self.lookups, tuple(self.tests.values()))

    def bridge(self, found: list[Block]) -> str:
        for block in found[1:]:
            self.findings.error(block.place, f"a second bridge block; the first is in line {found[0].place.line}")
        if not found:
            return str(declared.BRIDGE[0].default)
        self.labels(found[0])
        name = read_options(found[0], declared.BRIDGE, self.findings)["name"]
        return self.text(name, found[0], "name") or "bridge"

    def labels(self, block: Block, *names: str) -> list[str] | None:
        """The block's labels, as many as there are names for; None and a finding if there are not."""
        if len(block.labels) != len(names):
            usage = " ".join([block.kind, *(f'"{name}"' for name in names), "{ … }"])
            self.findings.error(block.place, f"write it as: {usage}")
            return None
        texts = [label.text for label in block.labels]
        for label in block.labels:
            # Names stand in metrics, consumer groups and identities, between slashes and dots.
            if block.kind == "test":
                continue  # a sentence
            if not label.text or not all(char.isalnum() or char in "_-." for char in label.text):
                self.findings.error(label.place, f"the name {label.text!r} may hold letters, digits, _, - and . only")
        return texts

    def unique(self, block: Block, name: str, known: Mapping[str, Any]) -> bool:
        if name not in known:
            return True
        first = known[name].place.line
        self.findings.error(block.place, f"{block.kind} {name!r} stands in line {first} already; names are unique")
        return False

    def text(self, value: Any, block: Block, name: str) -> str:
        """A value that must be known before anything starts, its variables looked up now."""
        if not isinstance(value, Reference):
            return value or ""
        place = block.attributes[name].value_place
        if value.secret:
            self.findings.error(place, f"{name} is no secret; write it down or use env()")
            return ""
        try:
            return value.resolve(self.environ)
        except ConfigurationError as error:
            self.findings.error(place, f"{name}: {str(error).partition(': ')[2]}")
            return ""

    def endpoint(self, block: Block) -> None:
        names = self.labels(block, "KIND", "NAME")
        if names is None:
            return
        kind, name = names
        if kind not in KINDS:
            self.findings.error(block.labels[0].place, f"unknown kind of endpoint {kind!r}{allowed(kind, KINDS)}")
            return
        if not self.unique(block, name, self.endpoints):
            return
        options = read_options(block, KINDS[kind], self.findings)
        region, environment = (self.text(options.pop(option.name), block, option.name) for option in COMMON)
        epoch = self.text(options.pop("epoch", ""), block, "epoch")
        for each, value in (("region", region), ("environment", environment)):
            if not value and each not in block.attributes:
                self.findings.error(block.place, f'endpoint "{kind}" "{name}" needs {each}: instances are chosen by it')
        for each in options.get("properties") or ():
            if each in GUARANTEED:
                place = block.attributes["properties"].value_place
                self.findings.error(place, f"properties: {each} cannot be set: {GUARANTEED[each]}")
        self.endpoints[name] = Endpoint(kind, name, region, environment, options, block.place, epoch)  # type: ignore[arg-type]

    def lookup(self, block: Block) -> None:
        names = self.labels(block, "NAME")
        if names is None or not self.unique(block, names[0], self.lookups):
            return
        kinds_there = [inner for inner in block.blocks if inner.kind in declared.LOOKUP_KINDS]
        common = read_options(block, declared.LOOKUP, self.findings, others=tuple(declared.LOOKUP_KINDS))
        if len(kinds_there) != 1:
            kinds_text = " or ".join(f"{kind} {{ … }}" for kind in declared.LOOKUP_KINDS)
            self.findings.error(block.place, f'lookup "{names[0]}" needs one block {kinds_text}')
            return
        inner = kinds_there[0]
        options = read_options(inner, declared.LOOKUP_KINDS[inner.kind], self.findings)
        refresh = common.pop("refresh")
        if not refresh:
            self.findings.error(block.place, "refresh must be above 0, such as 30s")
        self.lookups[names[0]] = Lookup(names[0], inner.kind, refresh or 30.0, {**options, **common}, block.place)  # type: ignore[arg-type]

    def flow(self, block: Block) -> None:
        """A pipeline, or the pipelines that a mirror or replicate block stands for."""
        names = self.labels(block, "NAME")
        if names is None:
            return
        options_of = {"pipeline": declared.PIPELINE, "mirror": declared.MIRROR, "replicate": declared.REPLICATE}
        own = ("stage", "format") if any(inner.kind == "format" for inner in block.blocks) else ("stage",)
        options = read_options(block, options_of[block.kind], self.findings, others=own)
        for each in ("sinks", "to"):
            if options.get(each) == ():
                # Read and committed, and sent nowhere: all of it would be lost without a word.
                text = f"{each} is empty, so every message would be read and thrown away; name an endpoint"
                self.findings.error(block.attributes[each].value_place, f"{text}, or set enabled = false")
        stages = tuple(spec for inner in block.blocks if inner.kind == "stage" and (spec := self.stage(inner)))
        format, format_options = self.format(block, options.get("format"))
        options |= {"format": format or "json", "format_options": format_options}
        if block.kind == "mirror":
            made: Iterable[Pipeline] = expand_mirror(names[0], options, stages, block, self.findings, self.pipeline)
        elif block.kind == "replicate":
            made = expand_replicate(names[0], options, stages, block, self.pipeline)
        else:
            sinks = options.pop("sinks") or ()
            made = [self.pipeline(names[0], options.pop("source") or "", sinks, stages, options, block)]
        for pipeline in made:
            if self.unique(block, pipeline.name, self.pipelines):
                self.pipelines[pipeline.name] = pipeline

    def pipeline(
        self,
        name: str,
        source: str,
        sinks: tuple[str, ...],
        stages: tuple[StageSpec, ...],
        options: Mapping[str, Any],
        block: Block,
    ) -> Pipeline:
        rest = dict(options)
        criticality = rest.pop("criticality") or self.criticality(sinks)
        for each in ("group", "start"):
            if isinstance(rest.get(each), Reference):
                rest[each] = self.text(rest[each], block, each)
        return Pipeline(
            name=name,
            source=source,
            sinks=tuple(sinks),
            stages=stages,
            format=rest.pop("format"),
            format_options=rest.pop("format_options"),
            dead_letter=rest.pop("dead_letter"),
            criticality=criticality,
            shared=rest.pop("shared") is not False,
            options=rest,
            place=block.place,
        )

    def criticality(self, sinks: Iterable[str]) -> Criticality:
        environments = {self.endpoints[sink].environment.lower() for sink in sinks if sink in self.endpoints}
        return "high" if environments & PRODUCTION else "low"

    def stage(self, block: Block) -> StageSpec | None:
        names = self.labels(block, "KIND")
        if names is None:
            return None
        stage = kinds().get(names[0])
        if stage is None or names[0] == "trail":
            known = [name for name in kinds() if name != "trail"]
            self.findings.error(block.labels[0].place, f"unknown stage {names[0]!r}{allowed(names[0], known)}")
            return None
        return StageSpec(names[0], read_options(block, stage.options, self.findings), block.place)

    def format(self, block: Block, named: Any) -> tuple[str, Mapping[str, Any]]:
        found = [inner for inner in block.blocks if inner.kind == "format"]
        for inner in found[1:]:
            self.findings.error(inner.place, "a second format block; a pipeline has one")
        if found:
            names = self.labels(found[0], "KIND")
            if names is None:
                return "json", {}
            kind, place = names[0], found[0].labels[0].place
            if "format" in block.attributes:
                self.findings.error(place, "format is set twice, as an attribute and as a block")
        else:
            kind = named if isinstance(named, str) else "json"
            place = block.attributes["format"].value_place if "format" in block.attributes else block.place
        if kind not in declared.FORMATS:
            self.findings.error(place, f"unknown format {kind!r}{allowed(kind, declared.FORMATS)}")
            return "json", {}
        if found:
            return kind, read_options(found[0], declared.FORMATS[kind], self.findings)
        needed = [option.name for option in declared.FORMATS[kind] if option.required]
        if needed:
            self.findings.error(place, f'write it as a block: format "{kind}" {{ {", ".join(needed)} }}')
        return kind, {}

    def test(self, block: Block) -> None:
        names = self.labels(block, "NAME")
        if names is None or not self.unique(block, names[0], self.tests):
            return
        options = read_options(block, declared.TEST, self.findings)
        given = [{inner.kind: set(inner.attributes)} for inner in block.blocks if inner.kind == "expect"]
        expected = tuple(
            {name: value for name, value in each.items() if name in there["expect"]}
            for each, there in zip(options["expect"], given, strict=True)
        )
        self.tests[names[0]] = TestBlock(
            names[0], options["pipeline"] or "", options["input"], expected, options["lookups"] or {}, block.place
        )
