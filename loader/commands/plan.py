"""`loader plan`: the DDL that messages would cause, before they cause it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.commands.options import Config, Json
from loader.words import counted

if TYPE_CHECKING:
    from loader.learn.preview import Change, Ground, Preview, Stopped
    from loader.message.message import Message
    from loader.settings.declaration import Settings

WOULD_CHANGE = 2
_SHOWN = 1_000  # stopped messages that are listed; all are counted


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("plan")(plan)


def plan(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE…|-", help="Newline-delimited JSON, each line a message body; - reads stdin."),
    ] = None,
    peek: Annotated[
        int, typer.Option("--peek", metavar="N", min=0, max=100_000, help="Sample N messages of LOADER_SUBSCRIPTION.")
    ] = 0,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=600, help="How long --peek waits for new messages.")
    ] = 10.0,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", metavar="K=V", help="Attribute of every line; repeatable.")
    ] = None,
    from_empty: Annotated[
        bool, typer.Option("--from-empty", help="Plan for a dataset that does not exist; needs no database.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Print the DDL of the loader's own tables too, where they are missing.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the exact DDL that messages would cause, and which message first asks for each column.

    Changes nothing: the database is read in a read-only transaction. What is printed is SQL, remarks are comments. The
    loader's own tables, where they are missing, take one line unless --internal is given; --json has them always.
    Messages that would be dead letters or be discarded are listed with their reasons. Exit code 0 when nothing would
    change, 2 when something would, 1 on a fault.

    --peek reads through a temporary subscription on the same topic, which sees what is published from then on, and what
    the topic retains. Where none may be made it pulls from the subscription itself and gives the messages back at once,
    which counts as a delivery attempt.

    With --json: {"dataset", "messages", "events", "skipped", "changes": [{"kind", "name", "statements", "lock",
    "first", "columns": [{"column", "data_type", "variant", "first"}]}], "dead_letters": [{"origin", "table", "code",
    "reason"}], "dead_letter_count", "discards": [...], "discard_count"}.

    Examples:

        loader plan events.jsonl

        loader plan --peek 500

        kafkacat -C -t orders -c 100 | loader plan - --from-empty
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json

    if not files and not peek:
        raise typer.BadParameter("name a FILE, - for stdin, or --peek N")
    settings = read_settings(config)
    attributes = dict(_pair(text) for text in attribute or [])
    outcome = Outcome()
    # Read before the messages: a wrong address is told at once, and stdin is not waited for in vain.
    preview = _preview(settings, from_empty)
    _study(settings, preview, _messages(settings, files or [], peek, seconds, attributes, outcome), outcome)
    changes = preview.changes()
    if as_json:
        print_json(_document(settings.dataset, changes, outcome))
    else:
        _print(changes, outcome, internal)
        note(
            f"{counted(outcome.messages, 'message')}, {counted(outcome.events, 'event')}, "
            f"{counted(outcome.skipped, 'empty line')} skipped, {outcome.dead} would be "
            f"{'a dead letter' if outcome.dead == 1 else 'dead letters'}, {outcome.discarded} discarded; "
            f"{counted(len(changes), 'change')} to "
            f"{settings.dataset}"
        )
    raise typer.Exit(WOULD_CHANGE if changes else 0)


@dataclass(slots=True)
class Outcome:
    """Counts, and the first of what would not be loaded."""

    messages: int = 0
    events: int = 0
    skipped: int = 0
    dead: int = 0
    discarded: int = 0
    dead_letters: list[Stopped] = field(default_factory=list)
    discards: list[Stopped] = field(default_factory=list)

    def stop(self, stopped: Stopped) -> None:
        """Count and perhaps keep one event or message that would not be loaded."""
        if stopped.code == "discarded":
            self.discarded += 1
            kept = self.discards
        else:
            self.dead += 1
            kept = self.dead_letters
        if len(kept) < _SHOWN:
            kept.append(stopped)


def _preview(settings: Settings, from_empty: bool) -> Preview:
    from loader.learn.preview import Preview, empty_ground
    from loader.worker.assembly import plan_rules

    ground = empty_ground() if from_empty else _read_ground(settings)
    return Preview(ground, settings.dataset, plan_rules(settings), settings.schema_contract)


def _read_ground(settings: Settings) -> Ground:
    from loader.commands.parts import connected
    from loader.errors import LoaderError
    from loader.learn.learner import Learner
    from loader.learn.preview import read_ground
    from loader.worker.assembly import plan_rules

    learner = Learner(settings.dataset, plan_rules(settings), settings.schema_contract, "plan")
    try:
        with connected(settings, "plan", read_only=True) as conn, conn.transaction():
            return read_ground(conn, settings.dataset, learner.read)
    except LoaderError as error:
        raise LoaderError(f"{error}; --from-empty plans for an empty dataset without a database") from error


def _messages(
    settings: Settings,
    files: list[str],
    peek: int,
    seconds: float,
    attributes: dict[str, str],
    outcome: Outcome,
) -> Iterator[tuple[str, Message]]:
    from loader.learn.lines import read_lines

    for name in files:
        for line in read_lines(name, settings.max_message_bytes, attributes):
            if line is None:
                outcome.skipped += 1
            else:
                yield line
    if peek:
        for message in _peek(settings, peek, seconds):
            yield f"message {message.message_id}", message


def _peek(settings: Settings, count: int, seconds: float) -> list[Message]:
    import signal

    from loader.commands.output import note
    from loader.peek import peek
    from loader.pull.channel import Stub, open_channel
    from loader.settings.limits import require_subscription

    name = require_subscription(settings)
    # A terminated command must delete its temporary subscription as an interrupted one does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with open_channel() as channel:
            found = peek(Stub(channel), name, count, seconds, note)
    finally:
        signal.signal(signal.SIGTERM, before)
    if len(found) < count:
        note(f"{len(found)} of {count} messages came within the time; --seconds waits longer for new ones")
    return found


def _study(settings: Settings, preview: Preview, messages: Iterator[tuple[str, Message]], outcome: Outcome) -> None:
    """Study in bundles of the settings' size, as a worker does, so that memory stays bounded."""
    from loader.learn.preview import Stopped
    from loader.message.decode import Decoder
    from loader.message.message import Event, Refused
    from loader.worker.assembly import decode_rules
    from loader.worker.intake import Intake

    decoder = Decoder(decode_rules(settings))
    source = Intake(decoder, lambda message, events: None).source
    events: list[Event] = []
    origins: dict[str, str] = {}
    size = 0

    def study() -> None:
        for stopped in preview.study(events, source, origins):
            outcome.stop(stopped)
        events.clear()
        origins.clear()

    for origin, message in messages:
        outcome.messages += 1
        try:
            decoded = decoder.decode(message)
        except Refused as error:
            outcome.stop(Stopped(origin, "", error.reason, error.detail))
            continue
        outcome.events += len(decoded)
        for event in decoded:
            origins.setdefault(event.identity, origin)
        events += decoded
        size += len(message.data)
        if len(events) >= settings.max_bundle_messages or size >= settings.max_bundle_bytes:
            study()
            size = 0
    study()


def _document(dataset: str, changes: list[Change], outcome: Outcome) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "dataset": dataset,
        "messages": outcome.messages,
        "events": outcome.events,
        "skipped": outcome.skipped,
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "statements": list(change.statements),
                "lock": change.lock,
                "first": change.first,
                "columns": [asdict(asked) for asked in change.asked],
            }
            for change in changes
        ],
        "dead_letters": [asdict(stopped) for stopped in outcome.dead_letters],
        "dead_letter_count": outcome.dead,
        "discards": [asdict(stopped) for stopped in outcome.discards],
        "discard_count": outcome.discarded,
    }


def _print(changes: list[Change], outcome: Outcome, internal: bool) -> None:
    from loader.commands.output import printable

    def remark(text: str) -> None:
        print(f"-- {printable(text)}")

    own = [change for change in changes if change.kind == "internal"]
    # What the messages ask for comes first: that is what one looks for.
    for change in [change for change in changes if change.kind != "internal"] + (own if internal else []):
        first = f"; first asked for by {change.first}" if change.first else ""
        remark(f"{change.kind} {change.name}{first}; lock: {change.lock}")
        for asked in change.asked:
            variant = ", variant" if asked.variant else ""
            remark(f"  {asked.column} ({asked.data_type}{variant}): {asked.first or 'every table of events'}")
        for statement in change.statements:
            print(f"{printable(statement, keep=chr(10))};")
        print()
    if own and not internal:
        names = ", ".join(change.name for change in own)
        remark(f"and {counted(len(own), 'internal part')}, tables and indexes ({names}): --internal prints their DDL")
    if not changes:
        remark("nothing would change")
    for title, kept, count in (
        ("would be dead letters", outcome.dead_letters, outcome.dead),
        ("would be discarded", outcome.discards, outcome.discarded),
    ):
        if count:
            remark(f"{count} {title}:")
        for stopped in kept:
            table = f" for {stopped.table}" if stopped.table else ""
            remark(f"  {stopped.origin}{table}: {stopped.code}: {stopped.reason}")
        if count > len(kept):
            remark(f"  and {count - len(kept)} more")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"--attribute {text!r} is not of the form KEY=VALUE")
    return key, value
