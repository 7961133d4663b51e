"""`loader bridge generate KIND`: made-up feeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Event
from typing import Annotated, TypeVar

import typer

from loader.commands.options import Json

T = TypeVar("T")


def register(bridge: typer.Typer) -> None:
    """Add the verb to `loader bridge`."""
    app = typer.Typer(
        name="generate",
        help="Make up a feed, for demo, tests and benchmarks.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.callback()(_generate)
    app.command("gps")(gps)
    bridge.add_typer(app)


def _generate() -> None:
    """Make up a feed, for demo, tests and benchmarks."""


def gps(
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="HOST:PORT", help="Kafka; unset: JSON lines to stdout.")
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="Schema registry, needed with --brokers.")
    ] = None,
    topic: Annotated[str, typer.Option("--topic", help="Topic; the schema's subject is TOPIC-value.")] = "gps",
    rate: Annotated[
        float, typer.Option("--rate", min=0, metavar="N", help="Records a second; 0: as fast as it goes.")
    ] = 100.0,
    records: Annotated[int | None, typer.Option("--records", min=1, metavar="N", help="Records in all.")] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, metavar="N", help="Time of the feed; default: without end.")
    ] = None,
    vehicles: Annotated[int, typer.Option("--vehicles", min=1, metavar="N", help="Vehicles in the town.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed makes the same feed.")] = 1,
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="ISO 8601 time of the first record; default: now.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Vehicles that drive through a town and report the road links that they took, about five links a record.

    With --brokers the records go to Kafka as Avro with the schema's id, and the schema to the registry; without it
    they are printed, one JSON line each.

    With --json, after the feed has ended: {"records", "rows", "seconds"}.

    Examples:

        loader bridge generate gps --records 3

        loader bridge generate gps --brokers 127.0.0.1:9092 --registry http://127.0.0.1:8081 --rate 1000
    """
    import signal
    import sys
    import threading
    from itertools import islice

    import orjson

    from loader.bridge.generate.feed import Encoder, Sent, messages, produce, schema
    from loader.bridge.generate.feed import register as register_schema
    from loader.bridge.generate.vehicles import records as feed
    from loader.commands.output import note, print_json

    made = feed(seed, vehicles, rate or 1_000.0, _milliseconds(start))
    count = records if records is not None else int(seconds * (rate or 1_000.0)) if seconds is not None else None
    chosen = islice(made, count)
    if brokers is None:
        for record in chosen:
            sys.stdout.write(orjson.dumps(record).decode() + "\n")
        return
    if registry is None:
        raise typer.BadParameter("--brokers needs --registry", param_hint="--registry")
    written = schema()
    encode = Encoder(written, register_schema(registry, f"{topic}-value", written))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sent = Sent()
    produce(brokers, topic, _until(stop, messages(chosen, encode)), rate, sent, stop.wait)
    if as_json:
        print_json({"records": sent.records, "rows": sent.rows, "seconds": round(sent.seconds, 3)})
    else:
        note(f"{sent.records} records, {sent.rows} links in {sent.seconds:.1f} s")


def _until(stop: Event, items: Iterable[T]) -> Iterator[T]:
    for item in items:
        if stop.is_set():
            return
        yield item


def _milliseconds(text: str | None) -> int:
    import datetime
    import time

    if text is None:
        return int(time.time() * 1_000)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time", param_hint="--start") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1_000)
