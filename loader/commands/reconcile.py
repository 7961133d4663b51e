"""`loader reconcile`: do the tables hold what the loads wrote, what Kafka numbered, what was expected."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.commands.options import Config, Json
from loader.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from loader.reconcile.gap import Checked
    from loader.settings.declaration import Settings


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("reconcile")(reconcile)


def reconcile(
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Loads since a time (2030-01-31) or span (24h).")
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option("--expect", metavar="FILE", exists=True, dir_okay=False, help="Event ids, one a line."),
    ] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets/--no-offsets", help="Whether a gap in Kafka offsets counts.")
    ] = True,
    settle: Annotated[
        str, typer.Option("--settle", metavar="SPAN", help="Gaps below younger messages may still fill.")
    ] = "10m",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Compare independent sources and name each gap. Exit code 1 if there is one. Changes nothing.

    Receipts: rows in each table, child tables too, by load id, against what that load's transaction noted. A row that
    was deleted behind the loader's back is a gap; so is one that was deleted on purpose: give --since where old rows
    are. Offsets (with LOADER_EVENT_ID_ATTRIBUTE): gaps in Kafka offsets by partition, dead letters and discards
    counted as there; filters of the bridge and compacted topics leave gaps of their own, hence --no-offsets. Expected:
    each id of FILE must be stored or have left a dead letter or discard. Topic (on Google Cloud, with --since): the
    topic's count of messages.

    All from one snapshot of the database. Each table is read once, minutes for a large one; a child table that falls
    short is read again, to tell rows that are missing from rows whose parent is.

    With --json: {"ok": bool, "checks": [{"source", "compared", "gaps": [{"source", "subject", "expected", "found",
    "detail"}]}]}, at most 1,000 gaps a source.

    Examples:

        loader reconcile --since 24h

        loader reconcile --expect ids.txt --json | jq -r '.checks[].gaps[].subject'
    """
    from loader.commands.options import read_settings
    from loader.commands.output import note, print_json, print_table
    from loader.commands.parts import connected

    settings = read_settings(config)
    now = datetime.datetime.now(datetime.UTC)
    moment = _moment(since, now) if since else None
    if moment is not None and moment >= now:
        raise typer.BadParameter(f"--since {moment.isoformat()} is not in the past: nothing would be compared")
    settled = _moment(settle, now)
    with connected(settings, "reconcile") as conn:
        checks = list(_compare(settings, conn, moment, settled, expect, offsets))
    gaps = [gap for check in checks for gap in check.gaps]
    if as_json:
        print_json({"ok": not gaps, "checks": [check.as_dict() for check in checks]})
    else:
        for check in checks:
            note(f"{check.source}: {check.compared}: {counted(len(check.gaps), 'gap') if check.gaps else 'no gaps'}")
        if gaps:
            print_table(
                ["SOURCE", "GAP", "EXPECTED", "FOUND", "DETAIL"],
                [(gap.source, gap.subject, gap.expected, gap.found, gap.detail) for gap in gaps],
            )
    raise typer.Exit(1 if gaps else 0)


def _compare(
    settings: Settings,
    conn: psycopg.Connection,
    since: datetime.datetime | None,
    settled: datetime.datetime,
    expect: Path | None,
    offsets: bool,
) -> Iterator[Checked]:
    from loader.reconcile.expected import compare_expected, read_ids
    from loader.reconcile.layout import read_layout
    from loader.reconcile.offsets import find_gaps
    from loader.reconcile.receipts import compare_receipts
    from loader.status.read import load_id_at

    with conn.transaction():
        # One snapshot, so that a load is seen in receipts and tables alike or in neither.
        conn.execute("set transaction isolation level repeatable read, read only")
        layout = read_layout(conn, settings.dataset)
        yield compare_receipts(conn, layout, load_id_at(since) if since else "")
        if offsets and settings.event_id_attribute:
            yield find_gaps(conn, layout, since, settled)
        if expect is not None:
            with expect.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
                yield compare_expected(conn, layout, read_ids(lines))
        if since is not None and settings.subscription is not None:
            yield from _topic(settings, conn, since)


def _topic(settings: Settings, conn: psycopg.Connection, since: datetime.datetime) -> Iterator[Checked]:
    """Only on Google Cloud: an emulator counts nothing, and without credentials nobody is asked."""
    import grpc

    from loader.pull.channel import Stub, emulator, fault, open_channel
    from loader.pull.subscription import describe
    from loader.reconcile.gap import Checked
    from loader.reconcile.topic import compare_topic
    from loader.status.monitoring import default_fetch, has_credentials, read_backlog
    from loader.status.read import load_id_at

    if emulator() is not None or not has_credentials() or settings.subscription is None:
        return
    now = datetime.datetime.now(datetime.UTC)
    backlog = read_backlog(settings.subscription, now)
    if backlog.messages is None:
        yield Checked("topic", f"not compared: the backlog is {backlog.note}")
        return
    try:
        topic = describe(Stub(open_channel()), settings.subscription).topic
        yield compare_topic(
            conn, settings.dataset, topic, since, now, load_id_at(since), backlog.messages, default_fetch
        )
    except grpc.RpcError as error:
        yield Checked("topic", f"not compared: {': '.join(map(str, fault(error)))}")
    except OSError as error:
        yield Checked("topic", f"not compared: {error}")


def _moment(text: str, now: datetime.datetime) -> datetime.datetime:
    from loader.dead_letter.period import parse_moment

    try:
        return parse_moment(text, now)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
