"""The worker: two lanes between a subscription and a dataset, and the order in which they stop."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from loader.bundle.bundler import Bundler
from loader.bundle.window import Bundle, Window
from loader.errors import LoaderError
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.message.message import Event, Message, Refused
from loader.pull.puller import Puller
from loader.worker.batch import EventBatch, MessageBatch
from loader.worker.control import Control
from loader.worker.heartbeat import Heartbeat
from loader.worker.held import HeldEvents
from loader.worker.intake import Intake
from loader.worker.lane import Abandoned, Lane, Loaded
from loader.worker.learning import Learning
from loader.worker.memory import make_trim
from loader.worker.orders import Orders
from loader.worker.settlement import Settlement

log = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_IDLE_LOG_SECONDS = 120.0
_COLLECT_SECONDS = 60.0
_LEARNED_PIECES = 8
"""Pieces of a bundle in which misfits are loaded once they are learned."""
_LESSON_SECONDS = 1.0
"""Longest wait for a lesson before the next bundle: behind a reader's lock the next one must not wait too."""
# Of the shutdown budget: what is loading may go on until the first, the acks are sent until the second.
_LOAD_SHARE = 0.7
_CLOSE_SECONDS = 3.0
_SUSPECT_ATTEMPT = 3
"""Delivered so often, a message may have killed workers: it is loaded alone."""
_MAX_ALONE = 50
_CONDEMNED = 2
"""Workers killed while they loaded nothing but this message: then it is a dead letter, unread."""
BUNDLES, LEARNING = 0, 1
"""Slots of the flight record, one for each thread that loads."""


class Observer(Protocol):
    """Who is told what the worker does: metrics, health, the demo's live view. All methods must return at once."""

    def bundle_closed(self, bundle: Bundle) -> None:
        """A bundle is about to be loaded."""

    def bundle_loaded(self, bundle: Bundle | None, loaded: Loaded, committed_at: float) -> None:
        """One transaction was committed; `bundle` is None for learned, held and replayed events."""

    def learned(self, snapshot: Snapshot, lesson: Lesson) -> None:
        """Misfits were learned."""

    def tick(self, worker: Worker) -> None:
        """About once a second, while the worker's threads live."""


class _Beating:
    """The stop event, as a bundler asks for it; a window may be longer than a heart may stand still."""

    def __init__(self, stop: threading.Event, beat: Callable[[], None]) -> None:
        self._stop = stop
        self._beat = beat

    def is_set(self) -> bool:
        if self._stop.is_set():
            return True
        self._beat()
        return False


class Worker:
    """Runs until `stop` is set. `lane` and `learning_lane` must share `abort` (a lane gives up when it is set)."""

    def __init__(
        self,
        puller: Puller,
        window: Window,
        lane: Lane,
        intake: Intake,
        learning_lane: Lane,
        learning_intake: Intake,
        abort: threading.Event,
        settlement: Settlement,
        observer: Observer,
        shutdown_seconds: float,
        control: Control | None = None,
        heartbeat: Heartbeat | None = None,
        orders: Orders | None = None,
    ) -> None:
        """`control` is the link to a supervisor, which remembers what was in flight when a worker died."""
        self.puller = puller
        self.held = HeldEvents()
        self.learning = Learning(
            learning_lane,
            self._learned_load,
            self._lesson,
            self._give_back,
            self._note_learning,
            most=max(1, window.max_messages // _LEARNED_PIECES),
            most_bytes=max(1, window.max_bytes // _LEARNED_PIECES),
        )
        self.loading_since: int | None = None
        """Oldest publish time (microseconds) of what is being loaded; None when nothing is."""
        self._control = control
        self._heartbeat = heartbeat
        self._orders = orders
        self._bundler = Bundler(puller, window)
        self._lane = lane
        self._intake = intake
        self._learning_lane = learning_lane
        self._learning_intake = learning_intake
        self._abort = abort
        self._settlement = settlement
        self._observer = observer
        self._shutdown_seconds = shutdown_seconds
        self._stop = threading.Event()
        self._fatal: BaseException | None = None
        self._last_log = time.monotonic()
        self._last_collect = time.monotonic()
        self._trim = make_trim()
        self._untrimmed = False
        self._all_misfits = False
        """Of what was loaded last."""

    @property
    def alert(self) -> str | None:
        """What keeps some events from being loaded until somebody acts."""
        return self.held.alert or self.learning.alert

    def run(self, stop: threading.Event) -> None:
        """Pull and load until `stop` is set, then drain within the shutdown budget.

        Raises LoaderError when a thread failed; whatever was not committed has been nacked then, too.
        """
        self._lane.learner.warm_up()
        gc.collect()
        gc.freeze()
        # A bundle makes many objects and no cycles: looking for them costs up to 40 % of the CPU.
        gc.disable()
        self.puller.start()
        # Daemons: one that waits for a database that hangs must not keep the process from ending after the drain.
        loading = threading.Thread(target=self._guard, args=(self._load_bundles,), name="load", daemon=True)
        learning = threading.Thread(target=self._guard, args=(self.learning.run,), name="learn", daemon=True)
        loading.start()
        learning.start()
        try:
            while not stop.wait(_TICK_SECONDS) and self._fatal is None:
                self._observer.tick(self)
        finally:
            self._drain(loading, learning)
            gc.enable()
            gc.unfreeze()
        if self._fatal is not None:
            if isinstance(self._fatal, LoaderError):
                raise self._fatal
            raise LoaderError(f"the worker stopped: {self._fatal!r}") from self._fatal

    # --- the loading thread -------------------------------------------------------------------------------------

    def _load_bundles(self) -> None:
        retried = False
        while True:
            self._beat()
            # One at a time: each may take as long as the database lets it, and the bundles must not wait for them all.
            waiting = None if retried else self.held.due()
            retried = waiting is not None
            if waiting is not None:
                batch = EventBatch(waiting.held.events, attempt=waiting.attempt, minority=not waiting.held.majority)
                self._store(batch, None, waiting.held.events)
                del batch
                continue
            bundle = self._bundler.next(_Beating(self._stop, self._beat))
            if bundle is None:
                if self._stop.is_set():
                    if self._heartbeat is not None:
                        self._heartbeat.leave(self._lane)
                    return
                self._idle()
                continue
            self._load_bundle(bundle)
            # What was loaded must not stay in memory while the next bundle gathers.
            del bundle
            self._untrimmed = True
            if self._all_misfits:
                # So would be the next one, by all appearances: read twice, and held beside this one.
                self.learning.await_lesson(_LESSON_SECONDS)

    def _beat(self) -> None:
        if self._heartbeat is not None and not self._stop.is_set():
            self._heartbeat.beat(self._lane, lambda: self.puller.state.held, self.alert)
        if self._orders is not None and not self._stop.is_set():
            healthy = self.puller.state.healthy
            self._orders.report(self._lane, len(self.held) + self.learning.waiting + (not healthy))

    def _load_bundle(self, bundle: Bundle) -> None:
        self._observer.bundle_closed(bundle)
        messages = bundle.messages
        suspects: list[Message] = []
        known = self._control.suspects if self._control is not None else {}
        if known or max([message.attempt for message in messages]) >= _SUSPECT_ATTEMPT:
            suspects = [m for m in messages if m.attempt >= _SUSPECT_ATTEMPT or m.message_id in known]
            messages = [m for m in messages if not (m.attempt >= _SUSPECT_ATTEMPT or m.message_id in known)]
        if messages:
            self._store_messages(messages, bundle)
        condemned = [message for message in suspects if known.get(message.message_id, 0) >= _CONDEMNED]
        for message in condemned:
            self._condemn(message, known[message.message_id])
        alone = [message for message in suspects if message.message_id in known and message not in condemned]
        for message in alone:
            self._store_messages([message], bundle)
        often = [message for message in suspects if message.message_id not in known]
        size = -(-len(often) // _MAX_ALONE) or 1
        for start in range(0, len(often), size):
            self._store_messages(often[start : start + size], bundle)

    def _condemn(self, message: Message, deaths: int) -> None:
        fault = Refused("ends the worker", f"{deaths} workers were killed while they loaded nothing but this message")
        try:
            stored = self._lane.store(EventBatch([], [self._intake.letter(message, fault)]))
        except Abandoned:
            self._settlement.give_back([message])
            return
        self._settlement.settle_messages([message])
        for loaded in stored:
            self._settle(loaded, None, 0)

    def _store_messages(self, messages: Sequence[Message], bundle: Bundle) -> None:
        self._note(BUNDLES, messages)
        self.loading_since = min([message.published for message in messages])
        try:
            stored = self._lane.store(MessageBatch(self._intake, messages))
        except Abandoned:
            self._settlement.give_back(messages)
            self._intake.forget()
            return
        finally:
            self.loading_since = None
            self._note(BUNDLES, ())
        self._settlement.settle_messages(list(self._intake.refused.values()))
        for loaded in stored:
            self._settle(loaded, bundle, 0)
        self._all_misfits = all(loaded.misfits and not loaded.load.fitted.events for loaded in stored)
        self._intake.forget()

    def _store(self, batch: EventBatch, bundle: Bundle | None, events: list[Event]) -> None:
        try:
            stored = self._lane.store(batch)
        except Abandoned:
            self._give_back(events)
            return
        for loaded in stored:
            self._settle(loaded, bundle, batch.attempt)
        self._intake.forget()

    def _settle(self, loaded: Loaded, bundle: Bundle | None, attempt: int) -> None:
        """After the commit, never before: ack what is settled, pass on the rest."""
        load = loaded.load
        self._settlement.settle(load.loaded())
        for events in (load.duplicates, load.dead, loaded.skipped):
            self._settlement.settle(events)
        for held in load.held:
            log.warning(
                "%d events are refused with SQLSTATE %s and held: %s", len(held.events), held.sqlstate, held.detail
            )
            self.held.add(held, attempt + 1)
        if loaded.misfits:
            self.learning.add(loaded.misfits)
        self._observer.bundle_loaded(bundle, loaded, time.time())
        self._last_log = time.monotonic()
        self._collect()

    def _idle(self) -> None:
        self._collect()
        if self._untrimmed:
            # Only once it is quiet: under load the memory is used again at once, and to fault it in costs more CPU.
            self._untrimmed = False
            self._trim()
        now = time.monotonic()
        if now - self._last_log > _IDLE_LOG_SECONDS:
            self._last_log = now
            state = self.puller.state
            log.info("idle: %d messages held, streams %s", state.held, "fine" if state.healthy else "reconnecting")

    def _collect(self) -> None:
        now = time.monotonic()
        if now - self._last_collect > _COLLECT_SECONDS:
            self._last_collect = now
            gc.collect()

    # --- the learning thread ------------------------------------------------------------------------------------

    def _learned_load(self, loaded: Loaded) -> None:
        load = loaded.load
        self._settlement.settle(load.loaded())
        for events in (load.duplicates, load.dead, loaded.skipped):
            self._settlement.settle(events)
        for held in load.held:
            self.held.add(held, 1)
        self._observer.bundle_loaded(None, loaded, time.time())
        self._learning_intake.forget()

    def _lesson(self, snapshot: Snapshot, lesson: Lesson) -> None:
        self._lane.offer(snapshot)
        self._observer.learned(snapshot, lesson)

    def _give_back(self, events: list[Event]) -> None:
        self._settlement.give_back([event.message for event in events])

    def _note_learning(self, events: Sequence[Event]) -> None:
        self._note(LEARNING, [event.message for event in events])

    def _note(self, slot: int, messages: Sequence[Message]) -> None:
        """For the supervisor, should this process be killed."""
        if self._control is None:
            return
        if messages:
            self._control.flight.write(slot, [message.message_id for message in messages])
        else:
            self._control.flight.clear(slot)

    # --- stopping -----------------------------------------------------------------------------------------------

    def _guard(self, work) -> None:  # type: ignore[no-untyped-def]
        try:
            work()
        except BaseException as error:
            self._fatal = error
            if not isinstance(error, LoaderError):  # that is the one line that the command ends with
                log.exception("thread %s failed", threading.current_thread().name)

    def _drain(self, loading: threading.Thread, learning: threading.Thread) -> None:
        """Stop pulling; load what was bundled and learned already; ack that; nack the rest so that others take over."""
        started = time.monotonic()
        load_until = started + self._shutdown_seconds * _LOAD_SHARE
        close_until = started + max(self._shutdown_seconds - 1.0, self._shutdown_seconds * 0.9)
        self.puller.pause(min(1.0, self._shutdown_seconds / 10))
        self.puller.nack_unread()
        self._stop.set()
        loading.join(max(0.0, load_until - time.monotonic()))
        self.learning.finish()
        learning.join(max(0.0, load_until - time.monotonic()))
        self._abort.set()
        self.learning.wake()
        for thread, lane in ((loading, self._lane), (learning, self._learning_lane)):
            if thread.is_alive():
                lane.interrupt()
        for thread in (loading, learning):
            thread.join(max(0.1, close_until - _CLOSE_SECONDS / 2 - time.monotonic()))
        left = self._bundler.rest() if not loading.is_alive() else []
        self._settlement.give_back(left)
        self._give_back(self.held.give_up())
        if not self.puller.close(max(0.5, min(_CLOSE_SECONDS, close_until - time.monotonic()))):
            log.warning("some acks were not confirmed before the stop; their messages will be recognised as duplicates")
        for thread, lane in ((loading, self._lane), (learning, self._learning_lane)):
            if not thread.is_alive():
                lane.close()
