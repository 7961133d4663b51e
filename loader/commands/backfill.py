"""`loader backfill`: bring messages back and load them again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.commands.options import Config, Json
from loader.words import counted

if TYPE_CHECKING:
    import psycopg

    from loader.backfill.plan import Plan
    from loader.backfill.replay import Replay, Step
    from loader.backfill.request import Request
    from loader.backfill.store import Backfill
    from loader.settings.declaration import Settings

_LOOK_SECONDS = 1.0
_PLAIN_SECONDS = 5.0  # between two lines of progress where nobody looks at a terminal
_BAR = 20


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("backfill")(backfill)


def backfill(
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Replay from this publish time (2030-01-31T12:00Z, 3h).")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="NAME", help="Replay what a snapshot kept, and all since.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="Pass over what was published from this time on.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="T", help="Only events of this table; may be repeated.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Rewrite the rows of replayed events, in whatever table they are.")
    ] = False,
    aside: Annotated[
        bool, typer.Option("--aside", help="Through a subscription of its own, loaded by this command.")
    ] = False,
    into: Annotated[
        str | None, typer.Option("--into", metavar="DATASET", help="As --aside, into a fresh dataset.")
    ] = None,
    from_raw: Annotated[
        str | None, typer.Option("--from-raw", metavar="TABLE", help="Fill new columns from the table's raw column.")
    ] = None,
    column: Annotated[
        str, typer.Option("--column", metavar="C", help="With --from-raw: the column that holds JSON objects.")
    ] = "_raw",
    allow_duplicates: Annotated[
        bool, typer.Option("--allow-duplicates", help="Even from before the takeover of a dataset.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End the backfill that is on; seek no more.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Seek the live subscription back and follow the replay to its end; workers keep running.

    Says first what will happen, and refuses what would replay nothing or less than was asked for. Rows that are there
    stay, rows that are missing come back; --replace rewrites them all. Interrupted, the same command goes on.
    Without a terminal it wants --yes.

    With --json: {"dry_run", "plan": {…}, "receipt": {"backfill_id", "outcome", "messages", "events_new", "rows_new",
    "events_there", "events_rewritten", "events_skipped", "dead_letters", "seconds"} or null}; with --from-raw the
    receipt is {"backfill_id", "rows_read", "rows_filled", "refused", "seconds"}.

    Examples:

        loader backfill --since 3h --dry-run

        loader backfill --since 2030-01-31T12:00Z --table order --replace --yes

        loader backfill --snapshot before-deploy --into replayed

        loader backfill --from-raw order
    """
    from loader.backfill.request import Request
    from loader.commands.options import read_settings

    ways = [since is not None, snapshot is not None, from_raw is not None, cancel]
    if sum(ways) != 1:
        raise typer.BadParameter("give one of --since T, --snapshot NAME, --from-raw TABLE and --cancel")
    settings = read_settings(config)
    if cancel:
        _cancel(settings, into or settings.dataset, as_json)
        return
    if from_raw is not None:
        if until or table or replace or aside or into:
            raise typer.BadParameter("--from-raw goes with --column, --dry-run and --yes only")
        _refill(settings, from_raw, column, dry_run, yes, as_json)
        return
    if column != "_raw":
        raise typer.BadParameter("--column goes with --from-raw")
    request = Request(
        since, snapshot, until, tuple(table or ()), replace, aside or into is not None, into, allow_duplicates
    )
    _replay(settings, request, dry_run, yes, as_json)


def _replay(settings: Settings, request: Request, dry_run: bool, yes: bool, as_json: bool) -> None:
    from loader.backfill.parent_index import ParentIndexes
    from loader.backfill.plan import make_plan
    from loader.backfill.store import BackfillStore
    from loader.commands.output import note, print_json
    from loader.commands.parts import connected

    dataset = request.into or settings.dataset
    with _service(settings) as service, connected(settings, "backfill") as conn:
        store = BackfillStore(conn, dataset)
        if not store.exists and not request.aside:
            # Workers that load elsewhere would get the replay, and never the order. To give it before the first worker
            # starts is good, though.
            note(
                f"dataset {dataset} is not there yet and is made: workers that load into another one would get the "
                "replay and not follow its order. If that is no new dataset, correct LOADER_DATASET"
            )
        replay = _make_replay(settings, service, store)
        found = replay.unfinished(request) if store.exists else None
        if found is None and request.into is not None:
            _require_fresh(conn, dataset)
        if found is not None and found.sought_at is not None:
            # Its plan was made when it began; by now less may be retained.
            note(f"{found.backfill_id} is on since {found.sought_at.isoformat(timespec='seconds')}: following it")
            plan = None
        else:
            plan = make_plan(conn, service, request, dataset)
            if not as_json:
                for line in plan.lines():
                    note(line)
        if dry_run:
            if as_json:
                print_json({"dry_run": True, "plan": plan.as_dict() if plan else None, "receipt": None})
            return
        if found is None:
            assert plan is not None
            _confirm("Seek", "would seek", yes)
            _prepare(settings, conn, dataset)
            if request.replace:
                _index_parents(conn, dataset)
            found = replay.begin(plan)
        elif plan is not None:
            found = replay.seek(found, plan)
        started = time.monotonic()
        last = _follow(settings, replay, found, dataset)
        if request.replace:
            ParentIndexes(conn, dataset).drop()
    _receipt(last, plan, time.monotonic() - started, as_json)


def _follow(settings: Settings, replay: Replay, found: Backfill, dataset: str) -> Step:
    from loader.backfill.aside import AsideWorker
    from loader.commands.interrupt import Interrupt
    from loader.commands.output import note
    from loader.commands.parts import make_database

    show = Display()
    worker: AsideWorker | None = None
    last: Step | None = None
    with contextlib.ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        if found.aside:
            assert found.subscription is not None
            note(f"{found.subscription} is loaded by this command; other workers may be pointed at it, too")
            worker = stack.enter_context(AsideWorker(settings, make_database(settings), found.subscription, dataset))

        def wait() -> None:
            if worker is not None:
                worker.check()
            interrupt.pause(_LOOK_SECONDS)

        for last in replay.follow(found, wait):
            show(last, worker.trouble if worker is not None else None)
    show.end()
    assert last is not None
    return last


def _receipt(step: Step, plan: Plan | None, seconds: float, as_json: bool) -> None:
    from loader.commands.output import print_json, print_table

    progress, found = step.progress, step.backfill
    receipt = {
        "backfill_id": found.backfill_id,
        "outcome": found.outcome,
        "messages": progress.messages,
        "events_new": progress.events_new,
        "rows_new": progress.rows_new,
        "events_there": progress.events_there,
        "events_rewritten": progress.events_rewritten,
        "events_skipped": progress.events_skipped,
        "dead_letters": progress.dead_letters,
        "seconds": round(seconds, 1),
    }
    if as_json:
        print_json({"dry_run": False, "plan": plan.as_dict() if plan else None, "receipt": receipt})
        return
    print_table(
        ["RECEIPT", found.backfill_id],
        [
            ("messages replayed", f"{progress.messages:,}"),
            ("events new", f"{progress.events_new:,} as {counted(progress.rows_new, 'row')}"),
            ("events already there", f"{progress.events_there:,}"),
            ("events rewritten", f"{progress.events_rewritten:,}"),
            ("events passed over", f"{progress.events_skipped:,}"),
            ("dead letters", f"{progress.dead_letters:,}"),
            ("workers", f"{progress.workers:,}"),
            ("seconds", f"{seconds:,.1f}"),
        ],
    )


def _cancel(settings: Settings, dataset: str, as_json: bool) -> None:
    from loader.backfill.parent_index import ParentIndexes
    from loader.backfill.store import BackfillStore
    from loader.commands.output import note, print_json
    from loader.commands.parts import connected

    with _service(settings) as service, connected(settings, "backfill") as conn:
        store = BackfillStore(conn, dataset)
        ended = _make_replay(settings, service, store).cancel() if store.exists else []
        if any(found.replace for found in ended):
            ParentIndexes(conn, dataset).drop()
    if as_json:
        print_json({"cancelled": [found.backfill_id for found in ended]})
    for found in ended:
        note(f"{found.backfill_id} is ended; what it brought back and is still to come is loaded as any other message")
    if not ended:
        note(f"no backfill of {settings.subscription} is on in dataset {dataset}")


def _refill(settings: Settings, table: str, column: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    from loader.backfill.raw import Refill, Refilled
    from loader.commands.output import note, print_json, print_table
    from loader.commands.parts import connected

    started = time.monotonic()
    with connected(settings, "backfill") as conn:
        refill = Refill(settings, conn, table, column)
        plan = refill.plan()
        if not as_json:
            note(plan.text)
        if dry_run:
            if as_json:
                print_json({"dry_run": True, "plan": plan.as_dict(), "receipt": None})
            return
        _confirm("Fill", "would fill", yes)
        last = Refilled(refill.backfill_id, 0, 0, 0)
        told = time.monotonic()
        for last in refill.run():
            if time.monotonic() - told >= _PLAIN_SECONDS:
                told = time.monotonic()
                note(f"{last.rows_read:,} of about {plan.rows:,} rows read, {last.rows_filled:,} filled")
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        print_json({"dry_run": False, "plan": plan.as_dict(), "receipt": {**last.as_dict(), "seconds": seconds}})
        return
    print_table(
        ["RECEIPT", last.backfill_id],
        [
            ("rows read", f"{last.rows_read:,}"),
            ("rows filled", f"{last.rows_filled:,}"),
            ("refused", f"{last.refused:,}"),
            ("seconds", f"{seconds:,.1f}"),
        ],
    )


@contextlib.contextmanager
def _service(settings: Settings) -> Iterator[Any]:
    from loader.backfill.service import Service
    from loader.pull.channel import Stub, open_channel
    from loader.settings.limits import require_subscription

    subscription = require_subscription(settings)
    with open_channel() as channel:
        yield Service(Stub(channel), subscription)


def _make_replay(settings: Settings, service: Any, store: Any) -> Replay:
    from loader.backfill.pace import Pace
    from loader.backfill.replay import Replay
    from loader.pull.channel import emulator

    on_emulator = emulator() is not None
    pace = Pace.of(settings.window_seconds, settings.lease_seconds, on_emulator)
    return Replay(service, store, pace, on_emulator)


def _prepare(settings: Settings, conn: psycopg.Connection[Any], dataset: str) -> None:
    from loader.learn.learner import Learner
    from loader.worker.assembly import plan_rules, worker_name

    Learner(dataset, plan_rules(settings), settings.schema_contract, worker_name()).prepare(conn)


def _index_parents(conn: psycopg.Connection[Any], dataset: str) -> None:
    from loader.backfill.parent_index import ParentIndexes
    from loader.commands.output import note

    indexes = ParentIndexes(conn, dataset)
    for table in indexes.missing():
        note(f"{table}: an index on _dlt_parent_id is built for the time of the rewriting; nobody is held up")
    indexes.make()


def _require_fresh(conn: psycopg.Connection[Any], dataset: str) -> None:
    from loader.backfill.estimate import known_tables
    from loader.errors import LoaderError

    tables = known_tables(conn, dataset)
    if tables:
        raise LoaderError(
            f"--into {dataset} wants a fresh dataset, and this one has tables ({', '.join(sorted(tables)[:5])} …): "
            f"name another, or load into it by LOADER_DATASET={dataset} and --aside"
        )


def _confirm(question: str, would: str, yes: bool) -> None:
    import sys

    from loader.errors import LoaderError

    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise LoaderError(f"this {would}, and there is no terminal to ask on: give --yes")
    typer.confirm(f"{question}?", abort=True, err=True)


class Display:
    """Progress on stderr: a bar that renews itself on a terminal, a line now and then elsewhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        import sys

        self._stream = sys.stderr
        self._alive = sys.stderr.isatty()
        self._clock = clock
        self._told = clock()
        self._shown = ""

    def __call__(self, step: Step, trouble: str | None) -> None:
        from loader.commands.output import note, printable

        text = printable(progress_line(step, trouble, bar=self._alive))
        if self._alive:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
        elif text != self._shown and (step.done or self._clock() - self._told >= _PLAIN_SECONDS):
            self._told = self._clock()
            self._shown = text
            note(text)

    def end(self) -> None:
        """The bar is left as it is."""
        if self._alive:
            self._stream.write("\n")
            self._stream.flush()


def progress_line(step: Step, trouble: str | None, *, bar: bool) -> str:
    """One line: how far, what was done, how fast, how long yet."""
    progress, expected = step.progress, step.backfill.estimated_events
    if not step.alive and not step.done:
        subscription = step.backfill.subscription
        return trouble or f"no worker was seen on {subscription} lately: start `loader run` (new ones show in 15 s)"
    events = f"{progress.events:,} of about {counted(expected, 'event')}" if expected else ""
    parts = [
        f"{events or counted(progress.events, 'event')} in {counted(progress.messages, 'message')}",
        f"{counted(progress.rows_new, 'row')} new",
        f"{counted(progress.events_there, 'event')} there",
    ]
    if step.backfill.replace:
        parts.append(f"{progress.events_rewritten:,} rewritten")
    if progress.events_skipped:
        parts.append(f"{progress.events_skipped:,} passed over")
    if progress.waiting:
        parts.append(f"{progress.waiting:,} wait in workers")
    rate = progress.events / step.seconds if step.seconds > 0 else 0.0
    parts.append(f"{rate:,.0f}/s")
    if step.done:
        parts.append("done")
    elif expected and rate and progress.events < expected:
        parts.append(f"{(expected - progress.events) / rate:,.0f} s left")
    elif progress.quiet is not None:
        parts.append(f"quiet for {progress.quiet:.0f} s")
    if trouble:
        parts.append(trouble)
    text = ", ".join(parts)
    if not bar:
        return text
    share = 1.0 if step.done else min(1.0, progress.events / expected) if expected else 0.0
    return f"[{'#' * int(share * _BAR):.<{_BAR}}] {text}"
