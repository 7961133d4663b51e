"""Health: life apart from readiness, reasons in words, an outage logged once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg
import pytest

from loader.logs import Redaction
from loader.observe.health import FLAPPING_SECONDS, SILENT_SECONDS, Health
from loader.observe.metrics import LoaderMetrics
from loader.pull.puller import State


def state(healthy: bool = True, alert: str | None = None) -> State:
    values = dict.fromkeys(State.__dataclass_fields__, 0)
    return State(**{**values, "healthy": healthy, "alert": alert, "last_message": None, "exactly_once": False})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics() -> LoaderMetrics:
    return LoaderMetrics()


@pytest.fixture
def health(clock: Clock, metrics: LoaderMetrics) -> Health:
    return Health(metrics, state, clock=clock)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_worker_that_works_is_alive_and_ready(health: Health, metrics: LoaderMetrics) -> None:
    report = health.report()
    assert (report.alive, report.ready, report.reasons) == (True, True, [])
    assert metrics.store.value("loader_ready") == 1


def test_it_is_not_ready_before_it_pulls(clock: Clock) -> None:
    report = Health(clock=clock).report()
    assert (report.alive, report.ready, report.reasons) == (True, False, ["starting"])


def test_a_main_loop_that_does_not_come_round_is_dead(health: Health, clock: Clock) -> None:
    health.tick()
    clock.now += SILENT_SECONDS
    assert health.report().alive
    clock.now += 1
    assert not health.report().alive
    assert "has not come round for 61 s" in health.report().reasons[0]
    health.tick()
    assert health.report().alive


def test_an_outage_of_the_database_never_kills(health: Health, clock: Clock) -> None:
    health.database_failed(psycopg.OperationalError("connection refused"))
    for _ in range(100):
        clock.now += 30
        health.tick()
    report = health.report()
    assert report.alive
    assert not report.ready
    assert report.reasons == ["database (MainThread), for 3000 s: OperationalError: connection refused"]


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(
    health: Health, clock: Clock, metrics: LoaderMetrics, lines: Callable[[], list[str]]
) -> None:
    for _ in range(50):
        health.database_failed(psycopg.OperationalError("no route"))
        clock.now += 1
    health.database_works()
    health.database_works()
    assert len(lines()) == 2
    assert "no route" in lines()[0]
    assert lines()[1].endswith("after 50.0 s")
    assert health.report().ready
    assert metrics.store.value("loader_database_errors_total", "none") == 50
    assert metrics.store.value("loader_database_outages_total") == 1
    assert metrics.store.value("loader_database_up") == 1


def test_an_outage_that_comes_and_goes_is_one(
    health: Health, clock: Clock, metrics: LoaderMetrics, lines: Callable[[], list[str]]
) -> None:
    for _ in range(30):
        health.database_failed(psycopg.errors.InsufficientPrivilege("permission denied"))
        assert not health.report().ready
        clock.now += 5
        health.database_works()
        assert health.report().ready
        clock.now += 5
        health.tick()
    assert len(lines()) == 2
    clock.now += FLAPPING_SECONDS
    health.tick()
    assert lines()[2:] == ["The database works again (MainThread), after 295.0 s"]
    assert metrics.store.value("loader_database_outages_total") == 1


def test_an_outage_that_comes_back_to_stay_is_logged_again(
    health: Health, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    health.database_failed(psycopg.OperationalError("first"))
    health.database_works()
    clock.now += 10
    health.database_failed(psycopg.OperationalError("second"))
    assert len(lines()) == 2
    for _ in range(10):
        clock.now += FLAPPING_SECONDS
        health.tick()
    assert len(lines()) == 3
    assert "again (MainThread): OperationalError: second" in lines()[2]
    health.database_works()
    assert "works again" in lines()[3]


def test_one_threads_success_does_not_hide_anothers_outage(health: Health) -> None:
    learning = threading.Thread(
        target=health.database_failed, args=(psycopg.errors.InsufficientPrivilege("no CREATE"),), name="learn"
    )
    learning.start()
    learning.join()
    health.database_works()
    assert health.report().reasons == ["database (learn), for 0 s: InsufficientPrivilege: no CREATE"]


def test_a_stream_that_is_down_or_refused_is_told(clock: Clock) -> None:
    now = [state(healthy=False)]
    health = Health(pull_state=lambda: now[0], clock=clock)
    assert health.report().reasons == ["stream: not connected"]
    now[0] = state(healthy=False, alert="grant roles/pubsub.subscriber")
    assert health.report().reasons == ["stream: grant roles/pubsub.subscriber"]
    assert health.report().alive


def test_an_alert_is_logged_once_and_taken_back(health: Health, lines: Callable[[], list[str]]) -> None:
    for number in range(5):
        health.alert("held events", f"{number} events are refused")
    assert health.report().reasons == ["held events: 4 events are refused"]
    assert not health.report().ready
    health.alert("held events", None)
    health.alert("held events", None)
    assert health.report().ready
    assert len(lines()) == 2


def test_a_worker_that_drains_is_alive_and_not_ready(health: Health) -> None:
    health.stopping()
    assert health.report().reasons == ["stopping"]
    assert health.report().alive


def test_no_secret_and_no_second_line_gets_into_a_reason(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    health = Health(pull_state=state, redact=Redaction(["hunter2-secret"]).text, clock=clock)
    health.database_failed(
        psycopg.OperationalError("postgresql://u:p%40ss@h/d\nfailed with hunter2-secret " + "x" * 999)
    )
    health.alert("a", "password=hunter2-secret")
    text = " | ".join(health.report().reasons) + caplog.text
    assert "hunter2" not in text
    assert "p%40ss" not in text
    assert all("\n" not in reason and len(reason) < 400 for reason in health.report().reasons)


def test_a_refused_login_says_what_to_check(caplog: pytest.LogCaptureFixture) -> None:
    health = Health()
    with caplog.at_level(logging.ERROR):
        health.database_failed(psycopg.OperationalError('password authentication failed for user "u"'))
    assert "check user and password (LOADER_DATABASE_URL" in caplog.text
