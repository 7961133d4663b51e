"""A worker within this process, which loads a replay's own subscription while the command follows it."""

from __future__ import annotations

import threading
from types import TracebackType

import psycopg

from loader.bundle.window import Bundle
from loader.errors import LoaderError
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts, build_puller, build_worker
from loader.worker.lane import Connector, Loaded
from loader.worker.worker import Worker


class AsideWorker:
    """A context manager: it pulls and loads until it is left, then drains as every worker does.

    `trouble` says what it waits for; None when all is well."""

    def __init__(self, settings: Settings, connector: Connector, subscription: str, dataset: str) -> None:
        chosen = settings.model_copy(update={"subscription": subscription, "dataset": dataset})
        self._puller = build_puller(chosen)
        self._worker = build_worker(Parts(chosen, connector, self), self._puller, self)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aside", daemon=True)
        self._failure: BaseException | None = None
        self._database: str | None = None

    @property
    def trouble(self) -> str | None:
        """What it cannot get over by itself."""
        return self._database or self._puller.state.alert or self._worker.alert

    def check(self) -> None:
        """Raise LoaderError if it ended."""
        if self._failure is not None:
            raise LoaderError(f"the replay's worker ended: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            self._worker.run(self._stop)
        except BaseException as error:
            self._failure = error

    def __enter__(self) -> AsideWorker:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    # --- Health, as lanes see it; Observer of the worker --------------------------------------------------------

    def database_failed(self, error: BaseException) -> None:
        self._puller.tick()
        text = str(error) if isinstance(error, psycopg.Error) else repr(error)
        self._database = f"database: {' '.join(text.split())}"

    def database_works(self) -> None:
        self._database = None

    def bundle_closed(self, bundle: Bundle) -> None:
        pass

    def bundle_loaded(self, bundle: Bundle | None, loaded: Loaded, committed_at: float) -> None:
        pass

    def learned(self, snapshot: Snapshot, lesson: Lesson) -> None:
        pass

    def tick(self, worker: Worker) -> None:
        pass
