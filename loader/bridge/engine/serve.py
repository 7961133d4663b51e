"""The bridge's HTTP endpoints: /metrics, /healthz, /readyz and /debug/profile, under the loader's rules."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from loader.bridge.metrics import CONTENT_TYPE, render
from loader.observe.endpoints import endpoints
from loader.observe.health import SILENT_SECONDS, Report
from loader.observe.http import HttpServer, Request, Response
from loader.observe.profile import Form, Profiler
from loader.observe.store import Snapshot

if TYPE_CHECKING:
    from loader.bridge.engine.run import Engine


class _Subject:
    """The engine, as the endpoints ask."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.beat = time.monotonic()
        self.profiler = Profiler()

    def snapshot(self) -> Snapshot:
        return {}

    def report(self) -> Report:
        """Alive: every loop ticks. Ready: every source is read and every sink delivers. An outage is no death."""
        now = time.monotonic()
        reasons: list[str] = []
        silent = now - self.beat
        ready = True
        for group, running in list(self.engine.running.items()):
            if not running.reader.ended.is_set():
                silent = max(silent, now - running.reader.beat)
            if running.reader.fault is not None:
                ready = False
                reasons.append(f"{group}: {running.reader.fault}"[:300])
            for flow in running.flows:
                if flow.trouble is not None:
                    ready = False
                    reasons.append(f"{flow.name}: {flow.trouble}"[:300])
        alive = silent < SILENT_SECONDS
        if not alive:
            reasons.insert(0, f"a loop has not ticked for {silent:.0f} s")
        return Report(alive, ready and alive, reasons, silent)

    def profile(self, seconds: float, form: Form, process: int) -> str:
        if process != 0:
            raise ValueError(f"there is one process, number 0, and no {process}")
        return self.profiler.take(seconds).text(form)


class Server:
    """Port 0 is off. Raises ConfigurationError when the address cannot be had."""

    def __init__(self, engine: Engine, host: str, port: int, token: str | None) -> None:
        self._subject = _Subject(engine)

        def metrics(request: Request) -> Response:
            running = list(engine.running.values())
            watched = [each for one in running for each in one.watched]
            reads = {one.reader.name: one.reader.messages for one in running}
            return Response(render(watched, engine.lookup_ages, reads), CONTENT_TYPE)

        table = {**endpoints(self._subject, token), "/metrics": metrics}
        self._http = HttpServer(host, port, table) if port else None

    def start(self) -> None:
        if self._http is not None:
            self._http.start()

    def beat(self) -> None:
        """The main loop lives."""
        self._subject.beat = time.monotonic()

    def close(self) -> None:
        self._subject.profiler.stop()
        if self._http is not None:
            self._http.close()
