"""A worker as a service: settings in, signals, logs, health and metrics around it; several under a supervisor."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator

from loader import __version__
from loader.database.connection import Database
from loader.database.conninfo import parse_conninfo
from loader.logs import configure
from loader.observe.endpoints import Subject, endpoints
from loader.observe.health import Health
from loader.observe.http import HttpServer
from loader.observe.page_source import PageSource
from loader.settings.declaration import Settings
from loader.worker.control import Control
from loader.worker.memory import use_one_heap
from loader.worker.signals import StopSignals, ignore_stop_signals
from loader.worker.supervisor import Supervisor

log = logging.getLogger(__name__)


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises LoaderError on a fatal fault.

    The process must end afterwards: it ignores both signals from then on."""
    control = Control.from_environment(os.environ)
    url = settings.database_url
    info = parse_conninfo(url.get_secret_value() if url else None, os.environ)
    token = settings.http_token.get_secret_value() if settings.http_token else ""
    database = Database(info, iam_auth=settings.iam_auth)
    close_logs = configure(settings.log_level, settings.log_to, secrets=[*info.secrets, token])
    try:
        if control is None and settings.processes != 1:
            return _supervise(settings, database, token)
        _work(settings, database, control, token)
        return 0
    finally:
        ignore_stop_signals()
        close_logs()


def _supervise(settings: Settings, database: Database, token: str) -> int:
    count = settings.processes if isinstance(settings.processes, int) else _cpus()
    supervisor = Supervisor(
        [sys.executable, "-m", "loader", *sys.argv[1:]], count, os.environ, settings.shutdown_seconds
    )
    with _http(settings, supervisor.fleet, token, database):
        return supervisor.run()


def _cpus() -> int:
    """CPUs that this process may use; a container's share where the system tells it."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _work(settings: Settings, database: Database, control: Control | None, token: str) -> None:
    use_one_heap()
    # Imported here: a supervisor does without dlt and gRPC, and so without half of their memory.
    from loader.dead_letter.export import make_export_thread
    from loader.observe.endpoints import Worker as Process
    from loader.observe.metrics import LoaderMetrics
    from loader.pull.channel import open_channel
    from loader.worker.assembly import Parts, build_puller, build_worker
    from loader.worker.telemetry import Telemetry

    puller = build_puller(settings)
    metrics = LoaderMetrics()
    health = Health(metrics)
    export = None
    if settings.dead_letter_topic is not None:
        export = make_export_thread(database, settings.dataset, settings.dead_letter_topic, open_channel)
    telemetry = Telemetry(puller, metrics, health, export)
    parts = Parts(settings, database, telemetry)
    worker = build_worker(parts, puller, telemetry, control)
    telemetry.cleaned = lambda: [decoder.cleaned for decoder in parts.decoders]
    process = Process(metrics, health)
    log.info(
        "loader %s loads %s into %s, dataset %s",
        __version__,
        settings.subscription,
        database.describe(),
        settings.dataset,
    )
    # A worker under a supervisor answers over its link.
    http = _http(settings, process, token, database) if control is None else contextlib.nullcontext()
    with _stop_on_signals(health) as stop, http:
        if control is not None:
            control.start(process)
        if export is not None:
            export.start()
        try:
            worker.run(stop)
        finally:
            if export is not None:
                export.stop(1.0)
    log.info("stopped: what was loaded is acked, the rest was given back")


@contextlib.contextmanager
def _stop_on_signals(health: Health) -> Iterator[threading.Event]:
    stop = threading.Event()

    def ask() -> None:
        health.stopping()
        stop.set()

    StopSignals(ask)
    try:
        yield stop
    finally:
        ignore_stop_signals()


@contextlib.contextmanager
def _http(settings: Settings, subject: Subject, token: str, database: Database) -> Iterator[None]:
    if settings.http_port == 0:
        yield
        return
    page = PageSource(database, settings.dataset, settings.subscription, subject.report).page
    server = HttpServer(settings.http_host, settings.http_port, endpoints(subject, token or None, page))
    server.start()
    try:
        yield
    finally:
        server.close()
