"""The demo from its servers to its receipt. What happens is told to a View; what came of it is the Outcome."""

from __future__ import annotations

import datetime
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import psycopg

from loader.demo import parts as servers
from loader.demo.events import samples
from loader.demo.kafka import Feeds, feeds
from loader.demo.parts import Parts
from loader.demo.progress import Progress, Watcher
from loader.demo.publisher import Published, Publishing
from loader.demo.receipt import Receipt
from loader.demo.survey import Survey, survey
from loader.demo.worker import WorkerProcess
from loader.errors import LoaderError
from loader.pull.channel import Stub, open_channel

READY_SECONDS = 60.0
DRAIN_SECONDS = 30.0
"""How long the demo waits for the worker to load what was published, once publishing has ended."""
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants."""

    seconds: float
    rate: float
    keep: bool = False

    @property
    def messages(self) -> int:
        """To publish in all."""
        return int(self.seconds * self.rate)


class View(Protocol):
    """Who is told what happens. All methods must return soon."""

    def say(self, text: str) -> None:
        """One step, in words."""

    def begin(self, wish: Wish) -> None:
        """Publishing begins."""

    def show(self, published: Published, progress: Progress, seconds: float, publishing: bool) -> None:
        """What there is to see now, `seconds` after publishing began; whether it still goes on."""

    def end(self) -> None:
        """All is loaded, or waited for long enough."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    wish: Wish
    parts: Parts
    published: Published
    progress: Progress
    survey: Survey
    receipt: Receipt
    drain_seconds: float
    """From the last publish until everything was settled."""
    stop_seconds: float
    """From SIGTERM until the worker had ended."""
    interrupted: bool


def run(wish: Wish, view: View, stop: threading.Event, hurry: threading.Event) -> Outcome:
    """Runs it all. `stop` ends the publishing early, `hurry` the waiting as well; the receipt comes in any case.

    Raises LoaderError when a part does not start, fails or ends by itself; KeyboardInterrupt when `stop` was set
    before anything was published."""
    view.say("Starting Postgres and Pub/Sub …")
    opened: AbstractContextManager[Parts] = servers.kept() if wish.keep else servers.temporary()
    with opened as parts:
        view.say(f"  Postgres   {parts.postgres}")
        view.say(f"  Pub/Sub    {parts.pubsub}")
        _leave_if(stop)
        view.say("Starting a worker: `loader run`, as in production, with bundles of one second …")
        with WorkerProcess(parts.environment) as worker, feeds(parts, wish.rate) as kafka:
            if kafka is not None:
                view.say(
                    "  Kafka      a broker, a schema registry, a bridge: `loader bridge` with a router and a GPS feed"
                )
            _await_ready(worker, stop)
            try:
                with (
                    psycopg.connect(parts.database_url, autocommit=True, application_name="loader demo") as conn,
                    open_channel(parts.endpoint) as channel,
                ):
                    return _load(
                        wish,
                        parts,
                        worker,
                        Watcher(conn, parts.dataset, worker.committed),
                        Stub(channel),
                        conn,
                        view,
                        stop,
                        hurry,
                        kafka,
                    )
            except psycopg.Error as error:
                raise LoaderError(f"the demo's Postgres failed: {error}") from error


def _load(
    wish: Wish,
    parts: Parts,
    worker: WorkerProcess,
    watcher: Watcher,
    stub: Stub,
    conn: psycopg.Connection,
    view: View,
    stop: threading.Event,
    hurry: threading.Event,
    kafka: Feeds | None = None,
) -> Outcome:
    start = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    publishing = Publishing(
        stub,
        parts.topic,
        samples(wish.messages, wish.rate, start),
        wish.rate,
        route=None if kafka is None else kafka.route,
    )
    published = publishing.published
    view.begin(wish)
    began = time.monotonic()
    try:
        publishing.start()
        if kafka is not None:
            kafka.start()
        while publishing.is_alive():
            if stop.wait(LOOK_SECONDS):
                view.say("Stopping: what is on the way is still loaded (Ctrl-C again: do not wait) …")
                publishing.stop()
                publishing.join()
            worker.check()
            progress = watcher.look()
            if kafka is not None:
                kafka.check()
                published.links = kafka.links  # after the look: what was loaded had been published
            view.show(published, progress, time.monotonic() - began, publishing.is_alive())
        if publishing.fault is not None:
            raise publishing.fault
        if kafka is not None:
            kafka.stop()
            published.links = kafka.links
        ended = time.monotonic()
        while watcher.look(force=True).waiting(published) and time.monotonic() - ended < DRAIN_SECONDS:
            worker.check()
            view.show(published, watcher.progress, time.monotonic() - began, False)
            if hurry.wait(LOOK_SECONDS):
                break
        drain_seconds = time.monotonic() - ended
        view.show(published, watcher.progress, time.monotonic() - began, False)
    finally:
        publishing.stop()
        view.end()
    left = watcher.progress.waiting(published)
    if left > 0:
        view.say(f"{left:,} messages were not loaded after {drain_seconds:.0f} s: the receipt will miss them.")
    # The worker has ended before anything is counted: nobody can add to what is counted then.
    stop_seconds = worker.stop()
    progress = watcher.look(force=True)
    found = survey(conn, parts.dataset, progress.changes)
    return Outcome(
        wish, parts, published, progress, found, found.receipt(published), drain_seconds, stop_seconds, stop.is_set()
    )


def _await_ready(worker: WorkerProcess, stop: threading.Event) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not worker.ready.wait(0.1):
        _leave_if(stop)
        if time.monotonic() > deadline:
            raise LoaderError(f"the worker said nothing within {READY_SECONDS:g} s of its start")
    _leave_if(stop)
    worker.check()


def _leave_if(stop: threading.Event) -> None:
    if stop.is_set():
        raise KeyboardInterrupt
