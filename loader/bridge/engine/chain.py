"""The stages of a pipeline, one after the other, on a batch; again from the beginning while something is missing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from loader.bridge.columns import Columns
from loader.bridge.frame import Frame, Unavailable, Undecodable
from loader.bridge.sinks.dispatch import Backoff
from loader.bridge.stages.stage import Outcome, RefusedFrame, Stage

log = logging.getLogger(__name__)


class Chain:
    """For one thread. `stop` ends its waiting."""

    def __init__(self, name: str, stages: Sequence[Stage], stop: threading.Event) -> None:
        self._name = name
        self._stop = stop
        self.stages = list(stages)
        self.trouble: str | None = None
        """What it waits for, None while it works."""

    def run(self, taken: Sequence[Frame]) -> Outcome | None:
        """What the stages make of a batch, tried until nothing is missing. None when the pipeline stops."""
        if not self.stages:
            return Outcome(taken)
        backoff = Backoff()
        while True:
            # What was taken stays as it came, for a stage that cannot go on may have changed a part of its frames:
            # all stages begin again, with other frames.
            fresh = taken if isinstance(taken, Columns) else [frame.copy() for frame in taken]
            try:
                outcome = self._staged(fresh)
                if isinstance(outcome.frames, list):  # by columns nothing is converted
                    self._write(outcome.frames)
            except Unavailable as error:
                if not self._remedied(error, backoff):
                    return None
                continue
            self.trouble = None
            return outcome

    def _staged(self, frames: Sequence[Frame]) -> Outcome:
        """Raises Unavailable."""
        total = Outcome(frames)
        for stage in self.stages:
            frames = total.frames
            if not frames:
                break
            if isinstance(frames, Columns):
                sift = getattr(stage, "sift", None)
                if sift is not None:
                    # What it decodes is decoded for those behind it, too, if there are any.
                    outcome = sift(frames if stage is self.stages[-1] else frames.shared())
                else:
                    outcome = self._apply(stage, list(frames))
            else:
                outcome = self._apply(stage, frames if isinstance(frames, list) else list(frames))
            total.frames = outcome.frames
            total.filtered += outcome.filtered
            total.refused += outcome.refused
        return total

    def _apply(self, stage: Stage, frames: Sequence[Frame]) -> Outcome:
        """A stage on a batch, and on each frame alone if one of them makes it raise. Raises Unavailable."""
        try:
            return stage.apply(frames)  # type: ignore[arg-type]
        except (Undecodable, RefusedFrame) as error:
            if len(frames) == 1:
                return Outcome(refused=[(frames[0], str(error))])
        outcome = Outcome()
        for frame in frames:
            one = self._apply(stage, [frame])
            outcome.frames += one.frames
            outcome.refused += one.refused
            outcome.filtered += one.filtered
        return outcome

    def _remedied(self, error: Unavailable, backoff: Backoff) -> bool:
        """Get what is missing, or wait before it is tried again. False when the pipeline stops."""
        try:
            error.remedy()
        except Unavailable as fault:
            if self.trouble is None:
                log.warning("the pipeline %s waits, and tries until it works: %s", self._name, fault)
            self.trouble = str(fault)
            return not self._stop.wait(backoff.fail(time.monotonic(), None))
        return not self._stop.is_set()

    def _write(self, frames: Sequence[Frame]) -> None:
        """See that what was converted can be written: a sink cannot wait. Raises Unavailable."""
        for frame in frames:
            if frame.format is not None:
                try:
                    frame.value()
                except Undecodable:
                    pass  # the sink finds the same and refuses the message
