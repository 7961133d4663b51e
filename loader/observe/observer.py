"""What a worker tells its observer, as metrics and health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loader.observe.health import Health
from loader.observe.metrics import LoaderMetrics

if TYPE_CHECKING:
    from loader.bundle.window import Bundle
    from loader.learn.learner import Snapshot
    from loader.learn.lesson import Lesson
    from loader.worker.lane import Loaded
    from loader.worker.worker import Worker


class MetricsObserver:
    """Implements loader.worker.worker.Observer. Called from the worker's threads."""

    def __init__(self, metrics: LoaderMetrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._counted: Bundle | None = None

    def bundle_loaded(self, bundle: Bundle | None, loaded: Loaded, committed_at: float) -> None:
        """Counts what a transaction stored, and its bundle once, however many transactions it took."""
        if bundle is not None and bundle is not self._counted:
            self._metrics.bundle_closed(bundle.closed_by, len(bundle.messages))
        self._counted = bundle
        self._metrics.bundle_steps({"fit": loaded.fit_seconds, "copy": loaded.copy_seconds})
        self._metrics.load_committed(loaded.load, committed_at)

    def learned(self, snapshot: Snapshot, lesson: Lesson) -> None:
        """Counts the columns that were really added: another worker may have been first."""
        self._metrics.learned(sum(not addition.exists for addition in lesson.additions))

    def tick(self, worker: Worker) -> None:
        """The main loop lives."""
        self._health.tick()
        self._health.alert("held events", worker.alert)
        self._metrics.waiting("learning", worker.learning.waiting)
