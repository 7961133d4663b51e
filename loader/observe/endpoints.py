"""The endpoints of a worker, the same whether one process answers for itself or a supervisor for several."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

from loader.observe import exposition
from loader.observe.health import Health, Report
from loader.observe.http import Endpoint, Request, Response, text
from loader.observe.metrics import LoaderMetrics
from loader.observe.profile import LONGEST_SECONDS, Form, ProfileBusy, Profiler
from loader.observe.store import Snapshot

_PROFILE_SECONDS = 5.0
_INDEX = """loader
/               this list, or the status page
/metrics        Prometheus metrics
/healthz        200 while the main loop lives
/readyz         200 while stream and database work
/debug/profile  where the CPU goes, from this machine or by token: ?seconds=5&format=top|collapsed&process=0
"""


class Subject(Protocol):
    """What the endpoints show."""

    def snapshot(self) -> Snapshot: ...

    def report(self) -> Report: ...

    def profile(self, seconds: float, form: Form, process: int) -> str:
        """Raises ProfileBusy, ValueError."""


class Worker:
    """One process that answers for itself."""

    def __init__(self, metrics: LoaderMetrics, health: Health, profiler: Profiler | None = None) -> None:
        self._metrics = metrics
        self._health = health
        self._profiler = profiler or Profiler()

    def snapshot(self) -> Snapshot:
        """All metrics as of now."""
        self._health.report()  # says whether it is ready, which is a metric too
        return self._metrics.snapshot()

    def report(self) -> Report:
        """Life and readiness as of now."""
        return self._health.report()

    def profile(self, seconds: float, form: Form, process: int) -> str:
        """A profile of this process, the only one."""
        if process != 0:
            raise ValueError(f"there is one process, number 0, and no {process}")
        return self._profiler.take(seconds).text(form)

    def close(self) -> None:
        """End a profile that is being taken."""
        self._profiler.stop()


def endpoints(subject: Subject, token: str | None = None, page: Endpoint | None = None) -> dict[str, Endpoint]:
    """Endpoints by path. `token` opens the profile to clients elsewhere; without one it is for loopback only.
    `page` is what is shown at `/`, a list of the others without one."""

    def metrics(request: Request) -> Response:
        return Response(exposition.render(subject.snapshot()), exposition.CONTENT_TYPE)

    def healthz(request: Request) -> Response:
        report = subject.report()
        return _report(request, report, report.alive)

    def readyz(request: Request) -> Response:
        report = subject.report()
        return _report(request, report, report.ready)

    def profile(request: Request) -> Response:
        refused = _refuse(request, token)
        if refused is not None:
            return refused
        try:
            seconds, form, process = _wanted(request.query)
            body = subject.profile(seconds, form, process)
        except ValueError as error:
            return text(HTTPStatus.BAD_REQUEST, str(error))
        except ProfileBusy:
            return text(
                HTTPStatus.TOO_MANY_REQUESTS,
                "a profile is being taken; there is one at a time",
                {"Retry-After": f"{LONGEST_SECONDS:.0f}"},
            )
        return text(HTTPStatus.OK, body)

    def index(request: Request) -> Response:
        return text(HTTPStatus.OK, _INDEX)

    return {"/": page or index, "/metrics": metrics, "/healthz": healthz, "/readyz": readyz, "/debug/profile": profile}


def _report(request: Request, report: Report, good: bool) -> Response:
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    if request.query.get("format") == "json":
        return Response(json.dumps(report.as_dict()).encode() + b"\n", "application/json", status)
    return text(status, "\n".join(["ok" if good else "not ok", *report.reasons]))


def _refuse(request: Request, token: str | None) -> Response | None:
    """None when the client may see a profile."""
    if request.from_loopback:
        return None
    if not token:
        return text(HTTPStatus.FORBIDDEN, "from this machine only; set LOADER_HTTP_TOKEN to open it to others")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Compared in constant time: how long a wrong token takes must not tell how much of it was right.
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    if scheme.lower() == "bearer" and same:
        return None
    return text(
        HTTPStatus.UNAUTHORIZED, "send Authorization: Bearer with LOADER_HTTP_TOKEN", {"WWW-Authenticate": "Bearer"}
    )


def _wanted(query: Mapping[str, str]) -> tuple[float, Form, int]:
    seconds = query.get("seconds", f"{_PROFILE_SECONDS:g}")
    try:
        number = float(seconds)
    except ValueError:
        number = 0.0
    if not 0 < number <= LONGEST_SECONDS:
        raise ValueError(f"seconds must be above 0 and at most {LONGEST_SECONDS:g}, not {seconds!r}")
    process = query.get("process", "0")
    if not (process.isascii() and process.isdigit()):
        raise ValueError(f"process must be a number from 0, not {process!r}")
    form = query.get("format", "collapsed")
    if form == "collapsed":
        return number, "collapsed", int(process)
    if form == "top":
        return number, "top", int(process)
    raise ValueError(f"format must be collapsed or top, not {form!r}")
