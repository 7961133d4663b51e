"""`loader publish`: the lines of a file as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.commands.options import Config, Json
from loader.words import counted

if TYPE_CHECKING:
    from loader.pull.channel import Stub


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("publish")(publish)


def publish(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Newline-delimited messages; - reads stdin.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="projects/P/topics/T; default: that of LOADER_SUBSCRIPTION."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.001, help="Messages a second; default: all at once.")
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", metavar="K=V", help="Attribute of every message; repeatable.")
    ] = None,
    compress: Annotated[bool, typer.Option("--gzip", help="Compress each body and set content-encoding=gzip.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Publish each line as a message, byte for byte.

    Empty lines are skipped. A request whose answer is lost is sent again: its messages may then be there twice.

    With --json: {"topic", "messages", "skipped", "bytes", "requests", "seconds", "first_message_id",
    "last_message_id"}.

    Examples:

        loader publish events.jsonl

        loader publish - --rate 100 --attribute source=test < events.jsonl
    """
    import dataclasses
    import os
    import sys
    from contextlib import nullcontext

    from loader.commands.output import note, print_json
    from loader.errors import LoaderError
    from loader.publish import MAX_LINE_BYTES, MAX_MESSAGE_BYTES, Publisher, publish_stream
    from loader.pull.channel import Stub, open_channel
    from loader.pull.subscription import parse_topic

    attributes = _attributes(attribute or [])
    subscription = None if topic else _subscription(config)
    name = parse_topic(topic, "--topic").path if topic else ""
    if file != "-" and not os.access(file, os.R_OK):
        raise LoaderError(f"Cannot read {file}: it is not there or may not be read.")
    channel = open_channel()
    try:
        stub = Stub(channel)
        if subscription:
            name = _topic_of(stub, subscription)
        with _Progress(sys.stderr.isatty() and not os.environ.get("NO_PROGRESS")) as progress:
            publisher = Publisher(
                stub, name, attributes=attributes, compress=compress, rate=rate, progress=progress.show
            )
            source: Any = nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb")  # noqa: SIM115
            with source as stream:
                receipt = publish_stream(publisher, stream, MAX_LINE_BYTES if compress else MAX_MESSAGE_BYTES)
    except OSError as error:
        raise LoaderError(f"Cannot read {file}: {error.strerror}.") from error
    finally:
        channel.close()
    if as_json:
        print_json(dataclasses.asdict(receipt))
        return
    skipped = f", {counted(receipt.skipped, 'empty line')} skipped" if receipt.skipped else ""
    note(
        f"published {counted(receipt.messages, 'message')} ({counted(receipt.bytes, 'byte')}) to {receipt.topic} "
        f"in {receipt.seconds:.1f} s{skipped}"
    )


def _attributes(texts: list[str]) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        # https://cloud.google.com/pubsub/quotas#resource_limits: keys of 256 bytes, values of 1,024, 100 of them.
        if not equals or not key or len(key.encode()) > 256 or len(value.encode()) > 1024:
            raise typer.BadParameter(
                f"{text!r} is no KEY=VALUE with a key of 1 to 256 and a value of at most 1,024 bytes",
                param_hint="--attribute",
            )
        attributes[key] = value
    if len(attributes) > 100:
        raise typer.BadParameter(f"{len(attributes)} attributes; a message has at most 100", param_hint="--attribute")
    return attributes


def _subscription(config: Config) -> str:
    from loader.commands.options import read_settings
    from loader.errors import ConfigurationError

    subscription = read_settings(config).subscription
    if subscription is None:
        raise ConfigurationError("Where to publish to: give --topic projects/P/topics/T or set LOADER_SUBSCRIPTION.")
    return subscription


def _topic_of(stub: Stub, subscription: str) -> str:
    import grpc

    from loader.errors import LoaderError
    from loader.pull.channel import fault
    from loader.pull.subscription import describe

    try:
        found = describe(stub, subscription).topic
    except grpc.RpcError as error:
        code, detail = fault(error)
        advice = "Give --topic."
        if code is grpc.StatusCode.UNAVAILABLE:  # nor would publishing work
            advice = "Is the emulator up (PUBSUB_EMULATOR_HOST, `loader local up`), or Pub/Sub within reach?"
        raise LoaderError(f"Cannot ask {subscription} for its topic: {code.name} {detail}. {advice}") from error
    if found == "_deleted-topic_":
        raise LoaderError(f"The topic of {subscription} was deleted: give --topic.")
    return found


class _Progress:
    """One line on a terminal that is written over; nothing elsewhere."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._shown = 0.0

    def __enter__(self) -> _Progress:
        return self

    def show(self, receipt: object) -> None:
        """Shows the count, at most ten times a second."""
        import sys
        import time

        if self._on and time.monotonic() - self._shown >= 0.1:
            self._shown = time.monotonic()
            sys.stderr.write(f"\r{getattr(receipt, 'messages', 0):,} published ")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        import sys

        if self._on and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
