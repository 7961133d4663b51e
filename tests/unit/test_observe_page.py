"""The status page, as text and in a real browser."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys

import psycopg
import pytest
from browser import NAMES, Browser, find_chromium

from loader.observe.health import Report
from loader.observe.http import HttpServer, Request, Response
from loader.observe.page import HEADERS, render
from loader.observe.page_plot import plot
from loader.observe.page_source import FRESH_SECONDS, PageSource
from loader.status.picture import (
    Backlog,
    ColumnAdded,
    LetterStatus,
    LoadStatus,
    Minute,
    Picture,
    TableStatus,
    WorkerStatus,
)

NOW = datetime.datetime(2026, 5, 1, 12, 30, 20, tzinfo=datetime.UTC)
EVIL = "<script>document.title='hit'</script><img src=x onerror=\"document.title='hit'\">'\"&"
LONG = "x" * 63


def picture(word: str = "orders") -> Picture:
    return Picture(
        word,
        NOW,
        "loader",
        7,
        NOW - datetime.timedelta(hours=2),
        [TableStatus(word, 1234567, 10**9, 512.5, 3.1, 9.9, "1.2", NOW), TableStatus(LONG, 1, 10)],
        [LoadStatus("1777638600.1", NOW, 2, 500, 400, 3, 1, 9.9, word)],
        [LetterStatus(word, word, 4, NOW)],
        [WorkerStatus(word, "projects/p/subscriptions/s", "1.0", NOW, NOW, 12, word)],
        [ColumnAdded(NOW, word, word, "bigint", True, False, word, word, 7)],
        [
            Minute(NOW.replace(second=0) - datetime.timedelta(minutes=index), index * 10, 5.0 + index)
            for index in range(60)
        ],
        Backlog(note=f"unknown ({word})"),
    )


def test_everything_from_outside_is_escaped() -> None:
    html = render(EVIL, picture(EVIL), EVIL, Report(True, False, [EVIL])).decode()
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("&lt;script&gt;") >= 12


def test_controls_and_direction_marks_are_shown_as_escapes() -> None:
    html = render("a\u202eb\0c\ud800", None, None).decode()
    assert "a\\u202eb\\u0000c\\ud800" in html


def test_the_page_names_figures_reasons_and_health() -> None:
    html = render("events", picture(), None, Report(True, False, ["stream: not connected"])).decode()
    text = re.sub(r"<[^>]+>", " ", html)
    for words in ("1,234,567", "954 MiB", "512", "3.1 s", "is not ready", "stream: not connected", "bigint (variant)"):
        assert words in text


def test_a_bar_stands_in_its_minute() -> None:
    values = [(NOW.replace(second=0), 10.0), (NOW.replace(second=0) - datetime.timedelta(minutes=59), 5.0)]
    drawn = re.findall(
        r'<rect x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"', plot("t", values, NOW, 60, "10")
    )
    assert drawn == [("590.0", "74.0"), ("0.0", "37.0")]
    assert "<rect" not in plot("t", [(NOW - datetime.timedelta(hours=2), 5.0)], NOW, 60, "–")


class Down:
    looks = 0

    def connect(self, application_name: str, *, autocommit: bool = False) -> psycopg.Connection:
        self.looks += 1
        raise psycopg.OperationalError("connection refused: password=hunter2 <b>")


def test_an_outage_is_said_and_not_asked_for_again_and_again() -> None:
    down, now = Down(), [0.0]
    source = PageSource(down, "events", None, lambda: Report(True, True), lambda: now[0])
    request = Request("/", {}, {}, "127.0.0.1")
    body = source.page(request).body.decode()
    assert "the database does not answer" in body
    assert "hunter2" not in body
    assert "<b>" not in body
    source.page(request)
    assert down.looks == 1
    now[0] += FRESH_SECONDS
    source.page(request)
    assert down.looks == 2


def test_the_page_costs_a_supervisor_neither_dlt_nor_grpc() -> None:
    code = (
        "import sys\nimport loader.observe.page_source\n"
        "heavy = {'dlt', 'grpc', 'google.auth'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def browser():
    program = find_chromium()
    if program is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is in the PATH; LOADER_TEST_CHROMIUM can name one")
    found = Browser(program)
    yield found
    found.close()


def serve(body: bytes) -> HttpServer:
    server = HttpServer(
        "127.0.0.1", 0, {"/": lambda request: Response(body, "text/html; charset=utf-8", headers=HEADERS)}
    )
    server.start()
    return server


def test_a_browser_runs_nothing_that_data_holds_and_asks_for_nothing_else(browser) -> None:
    server = serve(render(EVIL, picture(EVIL), EVIL, Report(True, False, [EVIL])))
    try:
        url = f"http://127.0.0.1:{server.port}/"
        browser.open(url)
        assert browser.evaluate("document.title") == f"loader: {EVIL}"
        assert browser.evaluate("document.querySelectorAll('script,img,iframe,object,form').length") == 0
        assert browser.evaluate("document.querySelector('td').textContent") == EVIL
        assert [found for found in browser.requested() if found not in (url, f"{url}favicon.ico")] == []
        errors = [e["params"]["entry"]["text"] for e in browser.events if e["method"] == "Log.entryAdded"]
        assert [text for text in errors if "favicon" not in text and "404" not in text] == []
    finally:
        server.close()


def test_a_phone_shows_it_without_scrolling_sideways_and_the_plots_are_drawn(browser) -> None:
    server = serve(render("events", picture("o" * 60), None, Report(True, True)))
    try:
        browser.resize(375, 800)
        browser.open(f"http://127.0.0.1:{server.port}/")
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.evaluate("window.innerWidth") == 375
        assert browser.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 14
        # The style sheet was applied, and a bar is as tall as it was made.
        assert browser.evaluate("document.querySelectorAll('svg rect').length") == 59 + 60
        assert browser.evaluate("document.querySelector('svg').getBoundingClientRect().height") == 90
        assert browser.evaluate("getComputedStyle(document.querySelector('dl')).display") == "grid"
    finally:
        server.close()
