"""A worker as a service: settings in, signals, logs, health and metrics around it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType

from loader import __version__
from loader.database.connection import Database
from loader.database.conninfo import parse_conninfo
from loader.logs import configure
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts, build_puller, build_worker
from loader.worker.observers import Observers

log = logging.getLogger(__name__)


def serve(settings: Settings) -> None:
    """Run one worker in this process until SIGTERM or SIGINT. Raises LoaderError on a fatal fault."""
    url = settings.database_url
    info = parse_conninfo(url.get_secret_value() if url else None, os.environ)
    token = settings.http_token.get_secret_value() if settings.http_token else ""
    database = Database(info, iam_auth=settings.iam_auth)
    close_logs = configure(settings.log_level, settings.log_to, secrets=[*info.secrets, token])
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        health = LogHealth()
        parts = Parts(settings, database, health)
        puller = build_puller(settings)
        worker = build_worker(parts, puller, Observers())
        log.info(
            "loader %s loads %s into %s, dataset %s",
            __version__,
            settings.subscription,
            database.describe(),
            settings.dataset,
        )
        worker.run(stop)
        log.info("stopped: everything loaded is acked, the rest was given back")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        close_logs()


class LogHealth:
    """Says once when the database fails and once when it works again."""

    def __init__(self) -> None:
        self._failing = False

    def database_failed(self, error: BaseException) -> None:
        if not self._failing:
            self._failing = True
            log.error("the database does not take the load; it is tried again until it does: %s", error)

    def database_works(self) -> None:
        if self._failing:
            self._failing = False
            log.info("the database takes loads again")
