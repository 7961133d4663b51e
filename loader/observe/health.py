"""Whether the worker lives (/healthz) and whether it can work (/readyz), with the reasons when it does not.

An outage of Pub/Sub or of the database never touches /healthz: restarting a fleet mends neither."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from loader.logs import Redaction

if TYPE_CHECKING:
    from loader.observe.metrics import LoaderMetrics
    from loader.pull.puller import State

log = logging.getLogger(__name__)

SILENT_SECONDS = 60.0
"""A main loop that has not ticked for so long is dead."""
FLAPPING_SECONDS = 60.0
"""An outage that comes back this soon is the same one, and is not reported again."""
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Report:
    """What /healthz and /readyz answer."""

    alive: bool
    ready: bool
    reasons: list[str] = field(default_factory=list)
    """Why it is not alive or not ready; empty when all is well. Free of secrets."""
    silent_seconds: float = 0.0
    """Since the main loop's last sign of life."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Outage:
    began: float
    error: str
    ended: float | None = None
    told: bool = False
    """Its end was logged; it may come back all the same."""
    came_back: float | None = None
    """When it did."""


class Health:
    """Collects what may be wrong. Thread-safe.

    Each thread that works with the database has outages of its own: one may be refused what another is allowed.
    `pull_state` gives the puller's state, and may be set later; until then the worker is not ready.
    `redact` takes secrets out of the texts of errors. `clock` is monotonic seconds."""

    def __init__(
        self,
        metrics: LoaderMetrics | None = None,
        pull_state: Callable[[], State] | None = None,
        redact: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self.pull_state = pull_state
        self._metrics = metrics
        self._redact = redact or Redaction().text
        self._clock = clock
        self._silent_seconds = silent_seconds
        self._lock = threading.Lock()
        self._ticked = clock()
        self._outages: dict[str, _Outage] = {}
        self._alerts: dict[str, str] = {}
        self._stopping = False

    def tick(self) -> None:
        """The main loop lives. Call it in every loop that goes long without coming round, retries included."""
        self._ticked = now = self._clock()
        if self._outages:
            self._settle(now)

    def database_failed(self, error: BaseException) -> None:
        """The calling thread could not do its work. Logs only the first of an outage."""
        if self._metrics is not None:
            self._metrics.database_error(error)
        who = threading.current_thread().name
        text = self._line(f"{type(error).__name__}: {error}")
        with self._lock:
            outage = self._outages.get(who)
            fresh = outage is None
            if outage is None:
                outage = self._outages[who] = _Outage(self._clock(), text)
            if outage.ended is not None:
                outage.came_back = self._clock()
            outage.error, outage.ended = text, None
        if fresh:
            hint = _hint(error)
            log.error("The database does not do its work (%s); tried again until it does: %s%s", who, text, hint)
        if self._metrics is not None:
            self._metrics.database_outage(True, began=fresh)

    def database_works(self) -> None:
        """The calling thread did its work; an outage of it is over. Cheap when there is none."""
        if not self._outages:
            return
        who = threading.current_thread().name
        with self._lock:
            outage = self._outages.get(who)
            if outage is None or outage.ended is not None:
                return
            outage.ended = now = self._clock()
            tell, outage.told = not outage.told, True
            over = all(other.ended is not None for other in self._outages.values())
        if tell:
            _log_end(who, now - outage.began)
        if over and self._metrics is not None:
            self._metrics.database_outage(False)

    def alert(self, name: str, text: str | None) -> None:
        """Something that needs somebody (`refused`, `learning`, …) and makes /readyz false; None takes it back.

        Logged when it begins and when it ends, whatever its text becomes meanwhile."""
        with self._lock:
            before = self._alerts.get(name)
            if text is None:
                self._alerts.pop(name, None)
            else:
                text = self._alerts[name] = self._line(text)
        if text is not None and before is None:
            log.error("%s: %s", name, text)
        elif text is None and before is not None:
            log.info("%s: mended (it was: %s)", name, before)

    def stopping(self) -> None:
        """The worker drains: alive, but no longer ready."""
        self._stopping = True

    def report(self) -> Report:
        """The answer as of now."""
        now = self._clock()
        silent = max(0.0, now - self._ticked)
        alive = silent <= self._silent_seconds
        reasons = [] if alive else [f"the main loop has not come round for {silent:.0f} s"]
        if self._stopping:
            reasons.append("stopping")
        reasons += self._stream_reasons()
        with self._lock:
            for who, outage in self._outages.items():
                if outage.ended is None:
                    reasons.append(f"database ({who}), for {now - outage.began:.0f} s: {outage.error}")
            reasons += [f"{name}: {text}" for name, text in self._alerts.items()]
        ready = not reasons
        if self._metrics is not None:
            self._metrics.ready(ready)
        return Report(alive, ready, reasons, round(silent, 1))

    def _stream_reasons(self) -> list[str]:
        if self.pull_state is None:
            return ["starting"]
        state = self.pull_state()
        if state.alert is not None:
            return [self._line(f"stream: {state.alert}")]
        return [] if state.healthy else ["stream: not connected"]

    def _settle(self, now: float) -> None:
        """Outages that come and go: forget those that have stayed away, report one that stays after all."""
        over: list[tuple[str, _Outage]] = []
        back: list[tuple[str, _Outage]] = []
        with self._lock:
            for who, outage in list(self._outages.items()):
                if outage.ended is not None and now - outage.ended >= FLAPPING_SECONDS:
                    del self._outages[who]
                    over.append((who, outage))
                elif outage.ended is None and outage.told and now - (outage.came_back or now) >= FLAPPING_SECONDS:
                    outage.told, outage.came_back = False, None
                    back.append((who, outage))
        for who, outage in over:
            if outage.came_back is not None and outage.ended is not None:
                _log_end(who, outage.ended - outage.began)
        for who, outage in back:
            log.error("The database does not do its work again (%s): %s", who, outage.error)

    def _line(self, text: str) -> str:
        text = " ".join(self._redact(text).split())
        return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"


def _hint(error: BaseException) -> str:
    """What to look at, where the error is of a kind that mends itself only by somebody's hand."""
    text = str(error)
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith("28") or "authentication failed" in text:
        return " - check user and password (LOADER_DATABASE_URL, or LOADER_IAM_AUTH)"
    if state == "42501":
        return " - `loader check` prints the missing GRANT"
    return ""


def _log_end(who: str, seconds: float) -> None:
    log.info("The database works again (%s), after %.1f s", who, seconds, extra={"outage_seconds": round(seconds, 1)})
