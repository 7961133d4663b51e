"""What a worker tells about itself: the log, the metrics, its health, the export of its dead letters."""

from __future__ import annotations

from collections.abc import Callable

from loader.bundle.window import Bundle
from loader.dead_letter.export import ExportThread
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.message.text import Cleaned
from loader.observe.health import Health
from loader.observe.metrics import LoaderMetrics
from loader.pull.puller import Puller
from loader.worker.lane import Loaded
from loader.worker.report import log_lesson, log_load, report_of
from loader.worker.worker import Worker


class Telemetry:
    """Observer of a worker, and the `Health` that its lanes report to. Called from the worker's threads."""

    def __init__(
        self, puller: Puller, metrics: LoaderMetrics, health: Health, export: ExportThread | None = None
    ) -> None:
        self.metrics = metrics
        self.health = health
        self.cleaned: Callable[[], list[Cleaned]] = list
        """The counters of the decoders; set once there are any."""
        self._puller = puller
        self._export = export
        self._lock_waits = 0
        self._nul = 0
        self._surrogates = 0
        metrics.pull_state = health.pull_state = lambda: puller.state

    # --- Health, as lanes see it --------------------------------------------------------------------------------

    def database_failed(self, error: BaseException) -> None:
        """A try failed. In an outage this is the loop's sign of life, by which leases go on being extended."""
        self._puller.tick()
        self.health.database_failed(error)

    def database_works(self) -> None:
        """A try worked."""
        self.health.database_works()

    # --- Observer -----------------------------------------------------------------------------------------------

    def bundle_closed(self, bundle: Bundle) -> None:
        self.metrics.bundle_closed(bundle.closed_by, len(bundle.messages))

    def bundle_loaded(self, bundle: Bundle | None, loaded: Loaded, committed_at: float) -> None:
        load = loaded.load
        if load.live or load.letters or load.duplicates or load.discard_count:
            log_load(report_of(bundle, loaded, committed_at))
            self.metrics.load_committed(load, committed_at)
            self.metrics.bundle_steps({"fit": loaded.fit_seconds, "copy": loaded.copy_seconds})
        if load.isolated:
            self.metrics.isolation()
        if load.letters and self._export is not None:
            self._export.notify()

    def learned(self, snapshot: Snapshot, lesson: Lesson) -> None:
        log_lesson(snapshot, lesson)
        if lesson.additions:
            self.metrics.learned(sum(not addition.exists for addition in lesson.additions), lesson.seconds)

    def tick(self, worker: Worker) -> None:
        self.health.tick()
        self.health.alert("refused", worker.held.alert)
        self.health.alert("learning", worker.learning.alert)
        if self._export is not None:
            self.health.alert("dead-letter export", self._export.alert)
        metrics, learning = self.metrics, worker.learning
        metrics.waiting("learning", learning.waiting)
        metrics.waiting("refused", len(worker.held))
        metrics.oldest("loading", worker.loading_since)
        metrics.oldest("learning", learning.oldest)
        for _ in range(learning.lock_waits - self._lock_waits):
            self._lock_waits += 1
            metrics.lock_waited()
        nul = sum(counts.nul for counts in self.cleaned())
        surrogates = sum(counts.surrogates for counts in self.cleaned())
        metrics.texts_cleaned(nul - self._nul, surrogates - self._surrogates)
        self._nul, self._surrogates = nul, surrogates
