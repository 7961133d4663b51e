"""Observers of a worker: the log, and any others beside it."""

from __future__ import annotations

from collections.abc import Callable

from loader.bundle.window import Bundle
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.worker.lane import Loaded
from loader.worker.report import LoadReport, log_lesson, log_load, report_of
from loader.worker.worker import Worker


class Observers:
    """Logs each load and lesson and tells the others: `on_load(report)`, `on_lesson(snapshot, lesson)`,
    `on_tick(worker)`. Called from the worker's threads."""

    def __init__(
        self,
        on_load: Callable[[LoadReport], None] = lambda report: None,
        on_lesson: Callable[[Snapshot, Lesson], None] = lambda snapshot, lesson: None,
        on_tick: Callable[[Worker], None] = lambda worker: None,
    ) -> None:
        self._on_load = on_load
        self._on_lesson = on_lesson
        self._on_tick = on_tick

    def bundle_loaded(self, bundle: Bundle | None, loaded: Loaded, committed_at: float) -> None:
        report = report_of(bundle, loaded, committed_at)
        if report.rows or report.dead_letters or report.duplicates or report.discarded:
            log_load(report)
        self._on_load(report)

    def learned(self, snapshot: Snapshot, lesson: Lesson) -> None:
        log_lesson(snapshot, lesson)
        self._on_lesson(snapshot, lesson)

    def tick(self, worker: Worker) -> None:
        self._on_tick(worker)
