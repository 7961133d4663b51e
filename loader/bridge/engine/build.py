"""Makes the running parts from the configuration: sources, sinks, pipelines, readers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.bridge.config.model import Configuration, Endpoint, Pipeline
from loader.bridge.config.plan import Consumer
from loader.bridge.config.reference import beside, resolve
from loader.bridge.engine.flow import CountedFormat, Flow, Limits
from loader.bridge.engine.reader import Pace, Reader
from loader.bridge.engine.timer import Timer
from loader.bridge.formats.registry import make_format
from loader.bridge.frame import Format
from loader.bridge.identity import shared_targets, target
from loader.bridge.metrics import Watched
from loader.bridge.outage import Outage
from loader.bridge.sinks.sink import Delivery, Sink
from loader.bridge.sources.source import Source
from loader.bridge.stages.registry import build as build_stage
from loader.errors import ConfigurationError

log = logging.getLogger(__name__)

Lookup = Callable[[str], Mapping[str, Any]]


@dataclass(slots=True)
class Running:
    """One consumer and its pipelines."""

    consumer: Consumer
    reader: Reader
    flows: list[Flow] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)

    def start(self) -> None:
        """Begin to read."""
        self.reader.start()


class _Context:
    """What stages of a pipeline may use."""

    def __init__(self, pipeline: Pipeline, lookup: Lookup) -> None:
        self.pipeline = pipeline.name
        self.sinks: Sequence[str] = pipeline.sinks
        self.lookup = lookup
        self.flow: Flow | None = None

    def wait(self, seconds: float) -> None:
        if self.flow is not None:
            self.flow.wait(seconds)


def build(configuration: Configuration, consumer: Consumer, lookup: Lookup, timer: Timer) -> Running:
    """Everything for one consumer, connected and not yet reading. Raises ConfigurationError."""
    formats: dict[Any, CountedFormat] = {}
    flows: list[Flow] = []
    for pipeline in consumer.pipelines:
        context = _Context(pipeline, lookup)
        stages = [build_stage(spec, context) for spec in pipeline.stages]
        flow = Flow(pipeline.name, _format(pipeline, formats), stages, _limits(pipeline), _on_refusal(pipeline))
        context.flow = flow
        flows.append(flow)
    reader = _reader(consumer, flows)
    running = Running(consumer, reader, flows)
    shared = shared_targets(configuration.pipelines.values(), configuration.endpoints)
    # All sinks before the first pipeline begins: one that cannot be made leaves no thread and no connection behind.
    made: list[Sink] = []
    ends: list[tuple[dict[str, Sink], Sink | None]] = []
    try:
        for pipeline, flow in zip(consumer.pipelines, flows, strict=True):
            sinks: dict[str, Sink] = {}
            for name in pipeline.sinks:
                endpoint = configuration.endpoints[name]
                own = pipeline.name if target(endpoint) in shared else None
                sinks[name] = make_sink(endpoint, flow.delivery(name), timer, pipeline, own)
                made.append(sinks[name])
            dead = None
            if pipeline.dead_letter is not None:
                endpoint = configuration.endpoints[pipeline.dead_letter]
                # Several pipelines bury in one place: each refusal is to be seen.
                dead = make_sink(endpoint, flow.dead_delivery(), timer, pipeline, pipeline.name, dead=True)
                made.append(dead)
            ends.append((sinks, dead))
    except BaseException:
        for sink in made:
            sink.close(time.monotonic())
        raise
    for pipeline, flow, (sinks, dead) in zip(consumer.pipelines, flows, ends, strict=True):
        flow.start(sinks, dead)
        source = consumer.source
        running.watched.append(Watched(pipeline, source.region, source.environment, flow, reader))
    return running


def _format(pipeline: Pipeline, formats: dict[Any, CountedFormat]) -> Format:
    # Pipelines with the same format share it, and with it what was decoded.
    key = (pipeline.format, repr(sorted(pipeline.format_options.items(), key=lambda item: item[0])))
    if key not in formats:
        format = make_format(pipeline.format, pipeline.format_options)
        if hasattr(format, "start"):
            format.start()
        formats[key] = CountedFormat(format)
    return formats[key]


def _limits(pipeline: Pipeline) -> Limits:
    options = pipeline.options
    return Limits(
        int(options.get("max_in_flight", 20_000)),
        int(options.get("max_in_flight_bytes", 64 << 20)),
        _linger(pipeline) / 3,
    )


def _linger(pipeline: Pipeline) -> float:
    """Seconds, of which a reader that collects takes two thirds and a sink that does the third."""
    return float(pipeline.options.get("linger", 0.03))


def _on_refusal(pipeline: Pipeline) -> Any:
    wanted = pipeline.options.get("on_refusal", "dead_letter")
    return "stop" if wanted == "dead_letter" and pipeline.dead_letter is None else wanted


def _tombstones(consumer: Consumer) -> bool:
    """A source passes them on if one of its pipelines wants them; the others leave them out."""
    return any(pipeline.options.get("tombstones") == "forward" for pipeline in consumer.pipelines)


def _reader(consumer: Consumer, flows: list[Flow]) -> Reader:
    endpoint, format = consumer.source, flows[0].format
    options = resolve(endpoint.options)
    commit = min(float(pipeline.options.get("commit_interval", 5.0)) for pipeline in consumer.pipelines)
    for pipeline, flow in zip(consumer.pipelines, flows, strict=True):
        flow.tombstones = pipeline.options.get("tombstones") == "forward"
    linger = min(_linger(pipeline) for pipeline in consumer.pipelines) * 2 / 3
    if endpoint.kind == "kafka":
        return _kafka_reader(consumer, flows, options, Pace(commit, linger))
    open_source: Callable[[], Source]
    if endpoint.kind == "pubsub":
        from loader.bridge.sources.pubsub import PubsubSource
        from loader.pull.puller import Puller

        most = sum(_limits(pipeline).messages for pipeline in consumer.pipelines)

        def open_source() -> Source:
            puller = Puller(
                None,
                options["subscription"],
                streams=int(options.get("streams", 1)),
                max_outstanding_messages=max(most, 1_000),
            )
            return PubsubSource(endpoint.name, lambda: puller, format, epoch=endpoint.epoch)

        # An ack waits for its bucket, and the lease goes on meanwhile: short buckets keep few messages leased.
        commit = min(commit, 1.0)
    elif endpoint.kind == "file":
        from loader.bridge.sources.file import FileSource

        def open_source() -> Source:
            return FileSource(
                endpoint.name,
                options["path"],
                format,
                compressed=_compressed(options),
                lines=options.get("lines", "values"),
                epoch=endpoint.epoch,
                tombstones=_tombstones(consumer),
                at=beside(options["path"], endpoint.place),
            )
    else:
        raise ConfigurationError(f"{endpoint.place}: an endpoint of kind {endpoint.kind} is no source")
    return Reader(consumer.group, open_source, flows, Pace(commit, linger))


def _kafka_reader(consumer: Consumer, flows: list[Flow], options: Mapping[str, Any], pace: Pace) -> Reader:
    from loader.bridge.engine.marks import Marks
    from loader.bridge.sources.kafka import KafkaSource
    from loader.bridge.sources.kafka_options import check_settings, connection, consumer_settings

    endpoint, format = consumer.source, flows[0].format
    settings = consumer_settings(_brokers(options), consumer.group, connection(options))
    settings["auto.offset.reset"] = consumer.start
    check_settings(settings, endpoint.name)
    aside = {**settings, "group.id": f"{consumer.group}.apart"}
    tombstones = _tombstones(consumer)
    outage = Outage(f"Kafka, {endpoint.name}", log)

    def open_source(member: bool = True) -> KafkaSource:
        return KafkaSource(
            endpoint.name,
            options["topic"],
            settings if member else aside,
            format,
            epoch=endpoint.epoch,
            tombstones=tombstones,
            member=member,
            outage=outage,
        )

    return Reader(
        consumer.group,
        open_source,
        flows,
        pace,
        lambda: Marks(aside, consumer.group),
        lambda: open_source(False),
        outage,
    )


def _brokers(options: Mapping[str, Any]) -> str:
    brokers = options["brokers"]
    return brokers if isinstance(brokers, str) else ",".join(brokers)


def _compressed(options: Mapping[str, Any]) -> bool:
    wanted = options.get("compression", "auto")
    return wanted == "gzip" or (wanted == "auto" and str(options["path"]).endswith(".gz"))


def make_sink(
    endpoint: Endpoint, delivery: Delivery, timer: Timer, pipeline: Pipeline, own: str | None, dead: bool = False
) -> Sink:
    """A sink of one pipeline. `own` is the pipeline's name if it is part of identities."""
    options = resolve(endpoint.options)
    if endpoint.kind == "pubsub":
        from loader.bridge.sinks.pubsub import PubsubSink
        from loader.pull.channel import open_channel
        from loader.pull.subscription import parse_topic

        return PubsubSink(
            endpoint.name,
            parse_topic(options.get("topic") or "", f"{endpoint.place}: topic").path,
            open_channel,
            delivery,
            timer,
            pipeline=own,
            ordering=not dead and pipeline.options.get("ordering_key", "none") == "key",
            drop_long_headers=options.get("long_headers") == "drop",
            most_messages=int(options.get("batch_messages", 1_000)),
            most_bytes=int(options.get("batch_bytes", 9_500_000)),
            most_requests=int(options.get("requests", 8)),
        )
    if endpoint.kind == "kafka":
        from loader.bridge.sinks.kafka import KafkaSink
        from loader.bridge.sources.kafka_options import connection, producer_settings

        settings = producer_settings(_brokers(options), connection(options))
        return KafkaSink(endpoint.name, options["topic"], settings, delivery, timer, pipeline=own)
    if endpoint.kind == "http":
        from loader.bridge.sinks.http import HttpSink

        return HttpSink(
            endpoint.name,
            options["url"],
            delivery,
            timer,
            method=options.get("method", "POST"),
            headers=options.get("headers"),
            content_type=options.get("content_type", ""),
            batch=options.get("batch", "single"),
            most_messages=int(options.get("batch_messages", 100)),
            most_bytes=int(options.get("batch_bytes", 1_000_000)),
            concurrency=int(options.get("concurrency", 8)),
            timeout=float(options.get("timeout", 10.0)),
            ca_file=options.get("ca_file"),
            pipeline=own,
        )
    from loader.bridge.sinks.file import FileSink

    return FileSink(
        endpoint.name,
        options["path"],
        delivery,
        # A dead letter is any bytes with a reason beside them: only whole messages hold that.
        lines="messages" if dead else options.get("lines", "values"),
        compress=_compressed(options),
        pipeline=own,
    )
