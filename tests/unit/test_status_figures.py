from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.status.ages import percentile
from loader.status.monitoring import has_credentials, read_backlog
from loader.status.picture import WorkerStatus
from loader.status.words import count, held, size, span

NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
NAME = "projects/p/subscriptions/s"


@given(st.lists(st.lists(st.floats(0, 1e5), min_size=1, max_size=20), min_size=1, max_size=8), st.floats(0.01, 0.99))
def test_a_percentile_is_off_by_no_more_than_the_spread_of_a_load(loads, share):
    spans = [(min(ages), max(ages), len(ages)) for ages in loads]
    exact = sorted(age for ages in loads for age in ages)
    found = percentile(spans, share)
    spread = max(high - low for low, high, _ in spans)
    # The neighbours in the order, for a share falls between two events.
    position = share * len(exact)
    lower, upper = exact[max(0, int(position) - 1)], exact[min(len(exact) - 1, int(position))]
    assert lower - spread - 1e-3 <= found <= upper + spread + 1e-3
    assert exact[0] - 1e-3 <= found <= exact[-1] + 1e-3


def test_no_events_have_no_percentile():
    assert percentile([], 0.5) is None
    assert percentile([(1.0, 1.0, 3)], 0.99) == pytest.approx(1.0)


def answer(values):
    points = [
        {"interval": {"endTime": f"2026-05-01T11:5{index}:00Z"}, "value": {"int64Value": str(value)}}
        for index, value in enumerate(values)
    ]
    return 200, json.dumps({"timeSeries": [{"points": points}]} if values else {}).encode()


def test_the_newest_figures_of_the_subscription_are_taken():
    asked = []

    def fetch(url):
        asked.append(url)
        return answer([7, 12] if "num_undelivered" in url else [30, 90])

    backlog = read_backlog(NAME, NOW, fetch)
    assert (backlog.messages, backlog.oldest_seconds, backlog.note) == (12, 90.0, "")
    assert all(url.startswith("https://monitoring.googleapis.com/v3/projects/p/timeSeries?") for url in asked)
    assert "subscription_id+%3D+%22s%22" in asked[0]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((403, b""), "needs monitoring.viewer"),
        ((401, b""), "needs monitoring.viewer"),
        ((500, b""), "answers 500"),
        ((200, b"{}"), "no figure"),
        ((200, b"<html>"), "Cloud Monitoring"),
    ],
)
def test_what_cannot_be_known_says_why(reply, said):
    backlog = read_backlog(NAME, NOW, lambda url: reply)
    assert backlog.messages is None
    assert backlog.note.startswith("unknown (")
    assert said in backlog.note


def test_no_host_is_contacted_without_credentials_or_beside_an_emulator(monkeypatch, tmp_path):
    monkeypatch.setattr("loader.status.monitoring.default_fetch", lambda url: pytest.fail("asked a host"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.delenv("CLOUDSDK_CONFIG", raising=False)
    monkeypatch.delenv("GCE_METADATA_HOST", raising=False)
    if not has_credentials({"HOME": str(tmp_path)}):  # on a machine of Google's there are some
        assert "no Google credentials" in read_backlog(NAME, NOW).note
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
    assert "emulator" in read_backlog(NAME, NOW).note
    assert "LOADER_SUBSCRIPTION" in read_backlog(None, NOW).note


@pytest.mark.parametrize("name", ["GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST"])
def test_credentials_are_seen_without_asking_the_network(name, tmp_path):
    assert has_credentials({"HOME": str(tmp_path), name: "set"})
    (tmp_path / "application_default_credentials.json").write_text("{}")
    assert has_credentials({"CLOUDSDK_CONFIG": str(tmp_path)})


def test_figures_in_words():
    assert [span(x) for x in (None, 0.26, 42, 61, 3600, 90_061)] == [
        "–",
        "0.3 s",
        "42 s",
        "1 min 1 s",
        "1 h",
        "1 d 1 h",
    ]
    assert [count(x) for x in (None, 0, 0.4, 12.6, 1234567)] == ["–", "0", "0.4", "13", "1,234,567"]
    assert [size(x) for x in (0, 1023, 1536, 10 * 1024**3)] == ["0 B", "1023 B", "1.5 KiB", "10 GiB"]


def test_what_a_worker_held_says_when_that_was():
    def seen(seconds, messages):
        at = NOW - datetime.timedelta(seconds=seconds)
        return WorkerStatus("host/1", NAME, "0.1.0", at, at, messages, None)

    assert held(seen(12, 3_900), NOW) == "3,900, 12 s ago"
    assert held(seen(12, 0), NOW) == "0"
