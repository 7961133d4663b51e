"""`loader dead-letters`: what could not be loaded, why, and another try."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.commands.options import Config, Json
from loader.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from loader.dead_letter.diff import Difference
    from loader.dead_letter.replay import Result
    from loader.dead_letter.store import LetterStore, StoredLetter
    from loader.learn.preview import Change
    from loader.settings.declaration import Settings

_LISTED = 10_000  # results that --json lists; all are counted

app = typer.Typer(
    no_args_is_help=True, help="List, show, compare, replay and purge dead letters.", rich_markup_mode=None
)


def register(parent: typer.Typer) -> None:
    """Add the verb to the command."""
    parent.add_typer(app, name="dead-letters")


@app.command("list")
def list_letters(
    reason: Annotated[str | None, typer.Option("--reason", metavar="R", help="Only letters with this reason.")] = None,
    table: Annotated[str | None, typer.Option("--table", metavar="T", help="Only letters of this table.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Only letters since a time (2030-01-31) or span (24h).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many, the newest.")] = 50,
    resolved: Annotated[bool, typer.Option("--resolved", help="Those that were resolved, not the open ones.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List dead letters, the newest first.

    With --json: {"total": int, "reasons": {REASON: int}, "letters": [{"letter_id", "event_id", "reason", "detail",
    "sqlstate", "table_name", "column_name", "message_id", "published_at", "attempt", "created_at", "resolved_at",
    "resolution", …}]}, without bodies.

    Examples:

        loader dead-letters list --since 24h

        loader dead-letters list --json --limit 1000 | jq -r '.letters[].letter_id'
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, print_table
    from loader.commands.parts import connected
    from loader.dead_letter.store import Criteria, LetterStore

    settings = read_settings(config)
    criteria = Criteria(reason, table, _moment(since) if since else None, resolved=resolved)
    with connected(settings, "dead-letters", read_only=True) as conn:
        store = LetterStore(conn, settings.dataset)
        reasons = store.reasons(criteria)
        letters = store.newest(criteria, limit)
    total = sum(count for _, count in reasons)
    if as_json:
        entries = [letter.as_dict() for letter in letters]
        for entry in entries:
            del entry["body"]
        print_json({"total": total, "reasons": dict(reasons), "letters": entries})
        return
    print_table(
        ["LETTER", "WRITTEN", "REASON", "TABLE", "EVENT", "RESOLUTION" if resolved else "DETAIL"],
        [
            (
                letter.letter_id,
                letter.created_at.strftime("%Y-%m-%d %H:%M:%S"),
                letter.reason,
                letter.table_name,
                letter.event_id,
                _short(letter.resolution if resolved else letter.detail),
            )
            for letter in letters
        ],
    )
    summary = ", ".join(f"{count} {name}" for name, count in reasons) or "none"
    of = counted(total, "resolved letter" if resolved else "open letter")
    note(f"{len(letters)} of {of}: {summary}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Letter id or event id.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show a dead letter whole: body, attributes, reason. An event id that was reused has several letters.

    With --json: {"letters": [{…, "attributes", "body_encoding", "body"}]}; the encoding is text or base64.

    Examples:

        loader dead-letters show 3b1Zl0mcXk2Wd0nnZ1fV

        loader dead-letters show 12345678 --json | jq -r '.letters[0].body'
    """
    from loader.commands.options import read_settings
    from loader.commands.output import print_json, print_table
    from loader.commands.parts import connected
    from loader.dead_letter.store import LetterStore
    from loader.errors import LoaderError

    settings = read_settings(config)
    with connected(settings, "dead-letters", read_only=True) as conn:
        letters = LetterStore(conn, settings.dataset).find(name)
    if not letters:
        raise LoaderError(f"no dead letter of {settings.dataset} has the letter id or event id {name!r}")
    if as_json:
        print_json({"letters": [letter.as_dict() for letter in letters]})
        return
    for letter in letters:
        fields = letter.as_dict()
        attributes = fields.pop("attributes")
        rows = [(key, value) for key, value in fields.items() if value is not None and key != "body"]
        rows += [(f"attribute {key}", value) for key, value in attributes.items()]
        print_table(["FIELD", "VALUE"], [*rows, ("body", letter.body)])


@app.command("diff")
def diff(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Letter ids or event ids.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All open letters.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many letters.")] = 100,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show open letters against today's schema: where each value would go, and which letters would load now.

    Each letter for itself, by today's settings. Changes nothing. A value has a column that is there, asks for a new
    one, or for a variant column where its column has another type. What only the database can refuse (a constraint of
    your own) shows when it is replayed.

    With --json: {"counts": {"loaded", "discarded", "refused"}, "letters": [{"letter_id", "event_id", "stored_reason",
    "outcome", "reason", "cells": [{"table", "column", "data_type", "state", "value"}]}]}, state being there, new
    column, new variant or new table.

    Examples:

        loader dead-letters diff 3b1Zl0mcXk2Wd0nnZ1fV

        loader dead-letters diff --all --json | jq -r '.letters[] | select(.outcome == "loaded").letter_id'
    """
    from itertools import islice

    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, print_table, printable
    from loader.commands.parts import connected
    from loader.dead_letter.store import LetterStore

    if bool(ids) == everything:
        raise typer.BadParameter("give IDs, or --all for every open letter")
    settings = read_settings(config)
    counts = {"loaded": 0, "discarded": 0, "refused": 0}
    listed: list[dict[str, Any]] = []
    with connected(settings, "dead-letters", read_only=True) as conn:
        store = LetterStore(conn, settings.dataset)
        batches = store.open_batches(_chosen(store, ids) if ids else None)
        for found in islice(_compare(settings, conn, batches), limit):
            counts[found.outcome] += 1
            if as_json:
                listed.append(found.as_dict())
                continue
            print(printable(f"{found.letter_id}  event {found.event_id}"))
            print(printable(f"  was   {found.stored_reason}"))
            print(printable(f"  now   would be {found.outcome}" + (f": {found.reason}" if found.reason else "")))
            if found.cells:
                columns = ["  TABLE", "COLUMN", "TYPE", "STATE", "VALUE"]
                cells = [(f"  {c.table}", c.column, c.data_type, c.state, _short(c.value)) for c in found.cells]
                print_table(columns, cells)
            print()
    if as_json:
        print_json({"counts": counts, "letters": listed})
    else:
        note(", ".join(f"{count} would be {outcome}" for outcome, count in counts.items()))


@app.command("replay")
def replay(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Letter ids or event ids.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All open letters.")] = False,
    from_subscription: Annotated[
        str | None,
        typer.Option("--from-subscription", metavar="S", help="Letters of a topic, by a subscription of it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen, DDL included; change nothing.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Try open letters again by today's settings and schema, each under the identity that it had.

    The transaction that loads an event resolves its letter. Exit code 1 if any letter is still refused.

    --from-subscription projects/P/subscriptions/S reads a subscription of LOADER_DEAD_LETTER_TOPIC, or of the topic of
    Pub/Sub's own dead-letter policy, to its end. A letter that is in the table is replayed from there; others from the
    topic, those of the policy under a new message id unless the publisher names its events. A message is acknowledged
    when its letter is loaded, or stands open in the table; others stay.

    With --json: {"dry_run", "counts": {"loaded", "discarded", "refused"}, "letters": [{"letter_id", "event_id",
    "outcome", "table", "reason"}], "changes": [DDL]}.

    Examples:

        loader dead-letters replay --all --dry-run

        loader dead-letters replay 3b1Zl0mcXk2Wd0nnZ1fV

        loader dead-letters replay --from-subscription projects/p/subscriptions/dead-letters
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, printable
    from loader.commands.parts import connected
    from loader.dead_letter.store import LetterStore

    if bool(ids) + everything + (from_subscription is not None) != 1:
        raise typer.BadParameter("give IDs, --all for every open letter, or --from-subscription")
    settings = read_settings(config)
    counts = {"loaded": 0, "discarded": 0, "refused": 0}
    listed: list[dict[str, Any]] = []
    changes: list[Change] = []
    with connected(settings, "dead-letters", read_only=dry_run) as conn:
        store = LetterStore(conn, settings.dataset)
        if from_subscription is not None:
            results = _replay_topic(settings, conn, store, from_subscription, changes if dry_run else None)
        else:
            batches = store.open_batches(_chosen(store, ids) if ids else None)
            results = _rehearse(settings, conn, batches, changes) if dry_run else _replay(settings, store, batches)
        for result in results:
            counts[result.outcome] += 1
            if as_json:
                if len(listed) < _LISTED:
                    listed.append(result.as_dict())
                continue
            word = f"would be {result.outcome}" if dry_run else result.outcome
            text = f"{result.letter_id}  {word}" + (f" into {result.table}" if result.outcome == "loaded" else "")
            print(printable(text + (f": {result.reason}" if result.reason else "")))
    # A topic is rehearsed piece by piece, and two pieces may ask for the same.
    statements = list(dict.fromkeys(statement for change in changes for statement in change.statements))
    if as_json:
        print_json({"dry_run": dry_run, "counts": counts, "letters": listed, "changes": statements})
    else:
        for statement in statements:
            print(f"{printable(statement, keep=chr(10))};")
        would = "would be " if dry_run else ""
        note(", ".join(f"{count} {would}{outcome}" for outcome, count in counts.items()))
    raise typer.Exit(1 if counts["refused"] else 0)


@app.command("purge")
def purge(
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="SPAN", help="Letters written longer ago, such as 30d.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Letters of any age.")] = False,
    resolved_only: Annotated[bool, typer.Option("--resolved-only", help="Leave the open ones.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Delete dead letters for good, in small batches. Asks first; without a terminal it wants --yes.

    With --json: {"deleted": int}.

    Examples:

        loader dead-letters purge --older-than 30d --resolved-only --yes
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json
    from loader.commands.parts import connected
    from loader.dead_letter.store import Criteria, LetterStore
    from loader.errors import LoaderError

    if bool(older_than) == everything:
        raise typer.BadParameter("give --older-than SPAN, or --all for letters of any age")
    settings = read_settings(config)
    now = datetime.datetime.now(datetime.UTC)
    until = _moment(older_than) if older_than else now
    if until > now:
        raise typer.BadParameter(f"--older-than {until.isoformat()} is in the future: --all is for letters of any age")
    criteria = Criteria(until=until, resolved=True if resolved_only else None)
    with connected(settings, "dead-letters") as conn:
        store = LetterStore(conn, settings.dataset)
        total = store.count(criteria)
        still_open = 0 if resolved_only else store.count(Criteria(until=until, resolved=False))
        if total and not yes:
            question = f"delete {counted(total, 'letter')} of {settings.dataset} for good, {still_open} of them open"
            if not _can_ask():
                raise LoaderError(f"this would {question}, and there is no terminal to ask on: give --yes")
            typer.confirm(f"{question[0].upper()}{question[1:]}?", abort=True, err=True)
        deleted = sum(store.purge(criteria)) if total else 0
    if as_json:
        print_json({"deleted": deleted})
    else:
        note(f"{counted(deleted, 'letter')} deleted")


def _chosen(store: LetterStore, ids: list[str]) -> list[str]:
    from loader.errors import LoaderError

    found = store.open_ids(ids)
    missing = [name for name, letters in found.items() if not letters]
    if missing:
        raise LoaderError(f"no open dead letter has the letter id or event id {', '.join(missing)}")
    return sorted({letter for letters in found.values() for letter in letters})


def _replay(settings: Settings, store: LetterStore, batches: Iterable[list[StoredLetter]]) -> Iterator[Result]:
    from loader.commands.parts import make_database
    from loader.dead_letter.replay import Impatience, Replay
    from loader.worker.assembly import Parts

    health = Impatience()
    run = Replay(Parts(settings, make_database(settings), health), health, store)
    try:
        yield from run.run(batches)
    finally:
        run.close()


def _replay_topic(
    settings: Settings,
    conn: psycopg.Connection[Any],
    store: LetterStore,
    subscription: str,
    changes: list[Change] | None,
) -> Iterator[Result]:
    """`changes` is where a rehearsal notes the DDL; None replays in earnest."""
    from loader.dead_letter.topic import LetterTopic
    from loader.dead_letter.topic_replay import replay_topic
    from loader.errors import LoaderError
    from loader.pull.channel import Stub, emulator, open_channel
    from loader.pull.subscription import parse_subscription

    parse_subscription(subscription)
    if subscription == settings.subscription:
        raise LoaderError(
            f"{subscription} is LOADER_SUBSCRIPTION itself: give a subscription of the dead letters' topic"
        )
    channel = open_channel()
    try:
        topic = LetterTopic(Stub(channel), subscription, store, emulator() is not None)
        if changes is None:
            yield from replay_topic(topic, store, lambda each: _replay(settings, store, each), dry_run=False)
        else:
            noted = changes
            yield from replay_topic(topic, store, lambda each: _rehearse(settings, conn, each, noted), dry_run=True)
    finally:
        channel.close()


def _rehearse(
    settings: Settings,
    conn: psycopg.Connection[Any],
    batches: Iterable[list[StoredLetter]],
    changes: list[Change],
) -> Iterator[Result]:
    from loader.dead_letter.replay import Rehearsal
    from loader.learn.learner import Learner
    from loader.learn.preview import Preview, read_ground
    from loader.message.decode import Decoder
    from loader.worker.assembly import decode_rules, plan_rules

    rules = plan_rules(settings)
    learner = Learner(settings.dataset, rules, settings.schema_contract, "replay")
    with conn.transaction():  # read-only, as the connection says
        ground = read_ground(conn, settings.dataset, learner.read)
        preview = Preview(ground, settings.dataset, rules, settings.schema_contract)
        yield from Rehearsal(preview, Decoder(decode_rules(settings)), settings.dataset).run(conn, batches)
    changes += preview.changes()


def _compare(
    settings: Settings, conn: psycopg.Connection[Any], batches: Iterable[list[StoredLetter]]
) -> Iterator[Difference]:
    from loader.dead_letter.diff import Comparison
    from loader.learn.learner import Learner
    from loader.learn.preview import read_ground
    from loader.message.decode import Decoder
    from loader.worker.assembly import decode_rules, plan_rules

    rules = plan_rules(settings)
    learner = Learner(settings.dataset, rules, settings.schema_contract, "diff")
    with conn.transaction():  # read-only, as the connection says
        ground = read_ground(conn, settings.dataset, learner.read)
        decoder = Decoder(decode_rules(settings))
        yield from Comparison(ground, settings.dataset, rules, settings.schema_contract, decoder).run(conn, batches)


def _moment(text: str) -> datetime.datetime:
    from loader.dead_letter.period import parse_moment

    try:
        return parse_moment(text, datetime.datetime.now(datetime.UTC))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= 100 else text[:99] + "…"


def _can_ask() -> bool:
    import sys

    return sys.stdin.isatty() and sys.stderr.isatty()
