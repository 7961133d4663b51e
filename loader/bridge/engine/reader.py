"""Reads a source once for all its pipelines, commits what they have delivered, and lets none of them hold the others.

A pipeline at its bound pauses the reading. If others could go on and it stays there, it parts: it goes on by a reader
of its own from exactly where it stands (apart.py), its position is marked in Kafka (marks.py), and the shared group
commits without it. When it has caught up it comes back: the shared reader steps back over the small gap, which only the
pipeline sees that has to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from loader.bridge.columns import Columns
from loader.bridge.engine.apart import Apart
from loader.bridge.engine.bucket import Bucket, Ledger
from loader.bridge.engine.flow import Flow
from loader.bridge.engine.give_out import give_out
from loader.bridge.engine.marks import Marks
from loader.bridge.engine.pace import Pace
from loader.bridge.frame import Frame
from loader.bridge.outage import Outage
from loader.bridge.sinks.dispatch import Backoff
from loader.bridge.sources.source import Batch, Source
from loader.errors import LoaderError

log = logging.getLogger(__name__)

__all__ = ["Pace", "Reader"]

READ_MESSAGES = 1_000
_GRACE_SECONDS = 0.25
"""For a pipeline at its bound to have room again; then reading is paused."""
_MOST_LINGERS = 7
REJOIN_MESSAGES = 5_000
"""A pipeline that is no further behind comes back."""


@dataclass(slots=True)
class _Return:
    """A pipeline that came back, until Kafka knows."""

    pipeline: str
    passed: dict[Any, int]
    """Positions that the shared reader has to reach again."""
    bucket: Bucket | None = None
    """The one that has to be committed first."""


class Reader:
    """`open_source` makes a fresh source. `marks` and `open_apart` are for sources that pipelines can part from."""

    def __init__(
        self,
        name: str,
        open_source: Callable[[], Source],
        flows: Sequence[Flow],
        pace: Pace,
        marks: Callable[[], Marks] | None = None,
        open_apart: Callable[[], Any] | None = None,
        outage: Outage | None = None,
    ) -> None:
        self.name = name
        self.flows = list(flows)
        self.beat = time.monotonic()
        self.messages = 0
        """Read from the source."""
        self.committed_at = time.monotonic()
        self.commit_failures = 0
        self.repeats = 0
        """Messages of partitions that were given up before they were confirmed."""
        self.fault: str | None = "not open yet"
        """Why nothing is read, None while all is well."""
        self.ended = threading.Event()
        self._open_source = open_source
        self._open_apart = open_apart
        self._make_marks = marks
        self._outage = outage or Outage(f"the reader {name}", log)
        self._pace = pace
        self._stop = threading.Event()
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._run, name=f"reader {name}", daemon=True)
        self._reset()

    def _reset(self) -> None:
        self._source: Any = None
        self._marks: Marks | None = None
        self._ledger = Ledger()
        self._attached = list(self.flows)
        self._aparts: dict[str, Apart] = {}
        self._returns: list[_Return] = []
        self._skips: dict[str, dict[Any, int]] = {}
        self._floors: dict[Any, int] = {}
        self._delivered: dict[Any, int] = {}
        self._blocked_since: float | None = None
        self._looked = 0.0
        self._leaving = False

    # Of other threads

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self, deadline: float) -> None:
        """Read no more, finish and commit until about `deadline` (time.monotonic); returns at once."""
        self._deadline = deadline
        self._stop.set()

    def join(self, deadline: float) -> bool:
        """Wait for the end; False when it is not there by `deadline`."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    @property
    def partitions(self) -> int | None:
        """How many are assigned, None for a source that has none to be assigned."""
        source = self._source
        return None if self._make_marks is None else len(source.assigned) if source is not None else 0

    @property
    def apart(self) -> list[str]:
        """Pipelines on their own way."""
        return sorted(self._aparts)

    def lag(self, pipeline: str) -> int | None:
        """Messages that the pipeline is behind the source's end, None when unknown."""
        apart = self._aparts.get(pipeline)
        return self._lag if apart is None else apart.lag()

    _lag: int | None = None

    # The reader's thread

    def _run(self) -> None:
        backoff = Backoff(first=0.5)
        try:
            while not self._stop.is_set():
                try:
                    self._session(backoff)
                    break
                except (LoaderError, OSError) as error:
                    self.fault = str(error)
                    self._outage.trouble(f"the reader {self.name} begins again: {error}")
                except Exception as error:
                    self.fault = repr(error)
                    log.exception("the reader %s begins again", self.name)
                finally:
                    self._let_go()
                self.beat = time.monotonic()
                self._stop.wait(backoff.fail(time.monotonic(), None))
        finally:
            self.ended.set()

    def _session(self, backoff: Backoff) -> None:
        self._reset()
        self._marks = self._make_marks() if self._make_marks is not None else None
        self._source = self._open_source()
        self._source.open(self)
        self.fault = None
        self._outage.over()
        due = self.committed_at = time.monotonic()
        ended = False
        while not self._stop.is_set() and not ended:
            now = self.beat = time.monotonic()
            if now >= due:
                due = now + self._settle(now)
                backoff.succeed()
            batch = self._read(now)
            ended = batch.ended
            self._dispatch(batch)
        self._finish(self._deadline if self._stop.is_set() else float("inf"))

    def _read(self, now: float) -> Batch:
        blocked = [flow for flow in self._attached if not flow.room]
        if blocked and self._blocked_since is None:
            # What was fetched is thrown away by a pause and fetched again, which takes up to a second where producers
            # send small batches to many partitions: not for a moment's sake.
            patience = time.monotonic() + _GRACE_SECONDS
            blocked = [flow for flow in blocked if not flow.until_room(patience)]
        self._source.pause(bool(blocked) or not self._attached)
        if not blocked:
            self._blocked_since = None
            return self._source.read(READ_MESSAGES, self._linger() if self._attached else 0.1)
        if self._blocked_since is None:
            self._blocked_since = now
        elif now - self._blocked_since > self._pace.part and len(blocked) < len(self._attached):
            self._part_all(blocked)
            self._blocked_since = None
        return self._source.read(READ_MESSAGES, 0.01)

    def _linger(self) -> float:
        """Longer where all pipelines have batches waiting: nobody would get to this one sooner, and larger batches
        take less of a processor that is short."""
        return self._pace.linger * (1 + min(_MOST_LINGERS, min(flow.queued for flow in self._attached)))

    def _dispatch(self, batch: Batch) -> None:
        if not batch.positions and not batch.tokens:
            return
        self.messages += len(batch.frames) + batch.skipped
        for flow, mine in give_out(batch.frames, self._attached):
            size = batch.size
            if skip := self._skips.get(flow.name):
                every = len(mine) or 1
                mine = self._unskipped(mine, skip)
                size = size * len(mine) // every
            flow.take(mine, self._ledger.share(flow.name), size, batch.skipped, batch.tombstones)
        positions = batch.positions
        if self._floors:
            # After a step back: what was committed once is not taken back.
            positions = {key: max(at, self._floors.get(key, 0)) for key, at in positions.items()}
        self._ledger.read(positions, batch.tokens)

    def _unskipped(self, frames: Sequence[Frame], skip: dict[Any, int]) -> Sequence[Frame]:
        wanted = [frame.offset >= skip.get((frame.topic, frame.partition), 0) for frame in frames]
        kept = frames.only(wanted) if isinstance(frames, Columns) else list(compress(frames, wanted))
        for key, position in self._source.positions().items():
            if key in skip and position >= skip[key]:
                del skip[key]
        return kept

    def _settle(self, now: float) -> float:
        """Commit what is confirmed; seconds until the next look."""
        if now - self._looked > 1.0:
            self._looked = now
            self._look_after()
        bucket = self._ledger.rotate()
        if bucket is not None:
            self._source.commit(bucket)
            self._delivered.update(bucket.positions)
            self.committed_at = now
            self._passed(bucket)
        elif self._ledger.empty:
            self.committed_at = now
        self.commit_failures = getattr(self._source, "failures", 0)
        self._lag = self._source.lag()
        self.fault = getattr(self._source, "fault", None)
        return self._pace.commit if bucket is not None else min(self._pace.commit, 0.1)

    def _finish(self, deadline: float) -> None:
        """Wait for what is in flight, commit it and leave."""
        for apart in self._aparts.values():
            apart.stop()
        self._source.pause(True)
        wait_until = deadline - 2.0
        while not self._all_done() and time.monotonic() < wait_until:
            self.beat = time.monotonic()
            # Serves rebalances and answers. What was fetched before the pause is dropped and read again by others.
            self._source.read(1, 0.02)
        for apart in self._aparts.values():
            try:
                apart.save()
            except LoaderError as error:
                log.warning("what %s delivered last will be delivered again: %s", apart.flow.name, error)
        bucket = self._ledger.drain()
        self._leaving = True
        self._source.close(bucket, min(deadline, time.monotonic() + 10.0))
        self._source = None

    def _all_done(self) -> bool:
        return self._ledger.done and all(
            apart.ledger.done or apart.flow.trouble is not None for apart in self._aparts.values()
        )

    def _let_go(self) -> None:
        for apart in self._aparts.values():
            apart.stop()
            apart.close()
        self._aparts = {}
        if self._source is not None:
            try:
                self._source.close(None, time.monotonic() + 2.0)
            except Exception:
                log.warning("a source of %s did not close in order", self.name, exc_info=True)
            self._source = None
        self._lag = None
        if self._marks is not None:
            self._marks.close()
            self._marks = None

    # Handover (see source.py)

    def assigned(self, partitions: Sequence[Any]) -> Mapping[Any, int]:
        """See Handover. Raises LoaderError: then the reader begins again rather than pass over a mark."""
        if self._marks is None:
            return {}
        marks = self._marks.read(partitions)
        marks = {name: at for name, at in marks.items() if any(flow.name == name for flow in self.flows)}
        if not marks and not self._aparts:
            return {}
        shared = self._committed(partitions)
        starts = dict(shared)
        for flow in list(self._attached):
            mine = marks.get(flow.name)
            if not mine:
                continue
            if sum(max(0, shared[key] - at) for key, at in mine.items()) <= REJOIN_MESSAGES or len(self.flows) == 1:
                self._step_back(flow, mine, shared)
                for key, at in mine.items():
                    starts[key] = min(starts[key], at)
            else:
                self._part(flow)
        for name, apart in self._aparts.items():
            fresh = {key: shared[key] for key in partitions if key not in marks.get(name, {})}
            self._marks.set(name, fresh)
            apart.take({**fresh, **marks.get(name, {})})
        return starts

    def _committed(self, partitions: Sequence[Any]) -> dict[Any, int]:
        """The shared group's positions, or where it starts."""
        if not partitions:
            return {}
        found = self._source.committed(partitions)
        return {key: found[key] if key in found else self._source.start_of(key) for key in partitions}

    def revoked(self, partitions: Sequence[Any]) -> Mapping[Any, int]:
        """See Handover. A pipeline in trouble is not waited for: what it has not delivered, the next owner does."""
        # Who leaves has waited already. A process that ended while this waits once more would never tell the group,
        # and nobody would get its partitions until its session is over.
        deadline = time.monotonic() + (0.0 if self._leaving else self._pace.revoke)
        while not self._ledger.done and time.monotonic() < deadline:
            if any(flow.trouble is not None for flow in self._attached):
                break
            time.sleep(0.005)  # confirmations come from threads of their own, thousands at a time
        read = {**self._ledger.closed.positions, **self._ledger.open.positions}
        found = self._ledger.take(partitions)
        for key in partitions:
            if key in read:
                self.repeats += read[key] - found.get(key, self._delivered.get(key, read[key]))
        self._forget(partitions)
        return found

    def lost(self, partitions: Sequence[Any]) -> None:
        """See Handover."""
        self._ledger.take(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[Any]) -> None:
        if self._marks is not None:
            self._marks.forget(partitions)
        for apart in self._aparts.values():
            apart.give_up(partitions)
        for key in partitions:
            self._floors.pop(key, None)
            self._delivered.pop(key, None)
            for skip in self._skips.values():
                skip.pop(key, None)
            for each in self._returns:
                each.passed.pop(key, None)

    # Parting and coming back

    def _part_all(self, blocked: Sequence[Flow]) -> None:
        if self._marks is None:
            return
        for flow in blocked:
            try:
                self._part(flow)
            except LoaderError as error:
                log.warning("the pipeline %s cannot go its own way yet: %s", flow.name, error)
                return

    def _part(self, flow: Flow) -> None:
        """Raises LoaderError when Kafka does not answer: then it stays."""
        assert self._marks is not None
        floors = self._committed(sorted(self._source.assigned))
        self._source.know(floors)
        # Kafka knows before the shared group commits a position that this pipeline has not delivered.
        self._marks.set(flow.name, {key: at for key, at in floors.items() if not self._marked(flow, key)})
        self._leave(flow, self._source.positions())

    def _marked(self, flow: Flow, key: Any) -> bool:
        return any(each.pipeline == flow.name and key in each.passed for each in self._returns)

    def _leave(self, flow: Flow, positions: Mapping[Any, int]) -> None:
        assert self._open_apart is not None
        assert self._marks is not None
        source = self._open_apart()
        source.open(self)
        skip = self._skips.pop(flow.name, {})
        positions = {key: max(at, skip.get(key, 0)) for key, at in positions.items()}
        self._returns = [each for each in self._returns if each.pipeline != flow.name]
        self._attached.remove(flow)
        apart = Apart(flow, source, self._ledger.split(flow.name), self._marks, self._pace.commit)
        self._aparts[flow.name] = apart
        apart.start(positions)
        log.warning("the pipeline %s goes its own way: %s", flow.name, flow.trouble or "it is slower than the others")

    def _look_after(self) -> None:
        """Take pipelines back that have caught up."""
        now = time.monotonic()
        for name, apart in list(self._aparts.items()):
            if apart.fault is not None:
                raise LoaderError(f"the pipeline {name} failed on its own way: {apart.fault!r}")
            if now - apart.since < self._pace.rejoin or not apart.flow.room or apart.flow.trouble is not None:
                continue
            mine, shared = apart.positions, self._source.positions()
            if set(mine) != set(shared) or set(shared) != self._source.assigned:
                continue
            if sum(abs(shared[key] - mine[key]) for key in shared) <= REJOIN_MESSAGES:
                self._take_back(apart)

    def _take_back(self, apart: Apart) -> None:
        if not apart.stop():
            return
        mine, shared = apart.positions, self._source.positions()
        del self._aparts[apart.flow.name]
        apart.close()
        self._attached.append(apart.flow)
        self._ledger.adopt(apart.ledger)
        self._step_back(apart.flow, mine, shared)
        self._source.seek({key: at for key, at in mine.items() if at < shared[key]})
        log.info("the pipeline %s has caught up and goes with the others again", apart.flow.name)

    def _step_back(self, flow: Flow, mine: Mapping[Any, int], shared: Mapping[Any, int]) -> None:
        """Let only `flow` see what is read again from `mine` up to `shared`."""
        ahead = {key: at for key, at in mine.items() if at > shared[key]}
        if ahead:
            self._skips.setdefault(flow.name, {}).update(ahead)
        for key, at in mine.items():
            if at < shared[key]:
                self._floors[key] = shared[key]
                for other in self._attached:
                    if other is not flow:
                        skip = self._skips.setdefault(other.name, {})
                        skip[key] = max(skip.get(key, 0), shared[key])
        self._returns.append(_Return(flow.name, {key: max(at, shared[key]) for key, at in mine.items()}))

    def _passed(self, committed: Bucket) -> None:
        """Tell Kafka of pipelines that are back, once everything up to there is delivered."""
        positions = self._source.positions()
        for each in list(self._returns):
            if each.bucket is committed:
                assert self._marks is not None
                try:
                    self._marks.clear(each.pipeline)
                except LoaderError as error:
                    log.warning("the return of %s is told later: %s", each.pipeline, error)
                    each.bucket = None
                    continue
                self._returns.remove(each)
            elif each.bucket is None and all(positions.get(key, 0) >= at for key, at in each.passed.items()):
                each.bucket = self._ledger.open
