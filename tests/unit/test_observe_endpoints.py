"""Endpoints: who may see what, and what is answered; no sockets."""

from __future__ import annotations

import json
import threading

import pytest

from loader.observe.endpoints import Worker, endpoints
from loader.observe.health import Report
from loader.observe.http import Request, Response
from loader.observe.metrics import LoaderMetrics
from loader.observe.profile import Form, ProfileBusy, Profiler
from loader.observe.store import Snapshot

TOKEN = "a-long-enough-tökén"


class FakeSubject:
    """Answers as it is told."""

    def __init__(self, report: Report | None = None) -> None:
        self.current = report or Report(True, True)
        self.asked: list[tuple[float, Form, int]] = []
        self.busy = False

    def snapshot(self) -> Snapshot:
        return {"loader_messages_held": [[[], 7.0]]}

    def report(self) -> Report:
        return self.current

    def profile(self, seconds: float, form: Form, process: int) -> str:
        if self.busy:
            raise ProfileBusy
        self.asked.append((seconds, form, process))
        return "main;work 5"


def ask(
    subject: FakeSubject, path: str, token: str | None = None, peer: str = "127.0.0.1", auth: str | None = None, **query
) -> Response:
    headers = {} if auth is None else {"authorization": auth}
    return endpoints(subject, token)[path](Request(path, query, headers, peer))


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_needs_no_token(peer: str) -> None:
    assert ask(FakeSubject(), "/debug/profile", TOKEN, peer).status == 200
    assert ask(FakeSubject(), "/debug/profile", None, peer).status == 200


@pytest.mark.parametrize(
    "peer", ["10.0.0.7", "2001:db8::1", "::ffff:10.0.0.7", "fe80::1%eth0", "0.0.0.0", "nonsense", ""]
)
def test_others_get_no_profile_without_a_token_set(peer: str) -> None:
    subject = FakeSubject()
    assert ask(subject, "/debug/profile", None, peer).status == 403
    assert ask(subject, "/debug/profile", None, peer, "Bearer ").status == 403
    assert ask(subject, "/debug/profile", "", peer, "Bearer ").status == 403
    assert subject.asked == []


def test_others_need_exactly_the_token() -> None:
    subject = FakeSubject()
    good = f"Bearer {TOKEN}"
    for wrong in (None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, good[:-1], good + "x", "Bearer \udcff"):
        response = ask(subject, "/debug/profile", TOKEN, "10.0.0.7", wrong)
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert TOKEN.encode() not in response.body
    assert subject.asked == []
    assert ask(subject, "/debug/profile", TOKEN, "10.0.0.7", good).status == 200
    assert ask(subject, "/debug/profile", TOKEN, "10.0.0.7", f"bearer  {TOKEN}").status == 200


def test_headers_do_not_make_a_client_local() -> None:
    request = Request("/debug/profile", {}, {"x-forwarded-for": "127.0.0.1", "host": "localhost"}, "10.0.0.7")
    assert endpoints(FakeSubject(), None)["/debug/profile"](request).status == 403


@pytest.mark.parametrize(
    "query",
    [
        {"seconds": "0"},
        {"seconds": "-1"},
        {"seconds": "30.1"},
        {"seconds": "nan"},
        {"seconds": "inf"},
        {"seconds": "x"},
        {"seconds": ""},
        {"process": "-1"},
        {"process": "x"},
        {"process": "²"},
        {"format": "svg"},
    ],
)
def test_a_profile_that_cannot_be_is_refused_by_name(query: dict[str, str]) -> None:
    subject = FakeSubject()
    response = ask(subject, "/debug/profile", **query)
    assert response.status == 400
    assert next(iter(query)).encode() in response.body
    assert subject.asked == []


def test_a_profile_takes_its_length_form_and_process() -> None:
    subject = FakeSubject()
    assert ask(subject, "/debug/profile").body == b"main;work 5\n"
    ask(subject, "/debug/profile", seconds="30", format="top", process="3")
    assert subject.asked == [(5.0, "collapsed", 0), (30.0, "top", 3)]


def test_a_second_profile_is_told_to_come_later() -> None:
    subject = FakeSubject()
    subject.busy = True
    response = ask(subject, "/debug/profile")
    assert response.status == 429
    assert response.headers["Retry-After"] == "30"


def test_a_worker_takes_one_profile_at_a_time() -> None:
    profiler = Profiler()
    worker = Worker(LoaderMetrics(), None, profiler)  # type: ignore[arg-type]
    answers: list[str] = []
    first = threading.Thread(target=lambda: answers.append(worker.profile(30, "top", 0)))
    first.start()
    while not profiler._busy.locked():
        first.join(0.001)
    with pytest.raises(ProfileBusy):
        worker.profile(1, "top", 0)
    worker.close()
    first.join(10)
    assert not first.is_alive()
    assert answers[0].splitlines()[2].split() == ["OWN", "TOTAL", "FUNCTION"]
    with pytest.raises(ValueError, match="no 1"):
        worker.profile(1, "top", 1)


def test_health_and_readiness_say_why() -> None:
    subject = FakeSubject(Report(True, False, ["stream: not connected", "stopping"]))
    assert ask(subject, "/healthz").status == 200
    ready = ask(subject, "/readyz")
    assert (ready.status, ready.body) == (503, b"not ok\nstream: not connected\nstopping\n")
    subject.current = Report(False, False, ["the main loop has not come round for 61 s"], 61.0)
    assert ask(subject, "/healthz").status == 503
    document = json.loads(ask(subject, "/readyz", format="json").body)
    assert document == {
        "alive": False,
        "ready": False,
        "reasons": ["the main loop has not come round for 61 s"],
        "silent_seconds": 61.0,
    }
    subject.current = Report(True, True)
    assert ask(subject, "/readyz").body == b"ok\n"


def test_metrics_are_in_prometheus_format_and_the_index_names_all() -> None:
    response = ask(FakeSubject(), "/metrics")
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"\nloader_messages_held 7.0\n" in response.body
    index = ask(FakeSubject(), "/").body.decode()
    assert all(path in index for path in endpoints(FakeSubject()))
