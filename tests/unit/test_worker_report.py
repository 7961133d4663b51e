"""What a load says of itself, also when nothing of it was new."""

from __future__ import annotations

import pytest

from loader.copy.bundle_load import BundleLoad
from loader.learn.draft import Addition
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.learn.stored_schema import Stored
from loader.message.message import Event, Message
from loader.observe.metrics import LoaderMetrics
from loader.plan.fitting import Fitted
from loader.worker.lane import Loaded
from loader.worker.report import log_lesson, log_load, report_of


def a_load(*roots: str) -> BundleLoad:
    events = [
        Event(Message(f"a{number}", str(number), b"{}", {}, (100 + number) * 1_000_000, 0), str(number), 0, root, None)
        for number, root in enumerate(roots)
    ]
    return BundleLoad(Fitted("1.0", events, [str(number) for number in range(len(roots))], list(roots)))


@pytest.mark.parametrize("roots", [("a", "a"), ("a", "b"), ()])
def test_a_load_of_duplicates_only_has_no_ages(roots: tuple[str, ...]) -> None:
    load = a_load(*roots)
    load.duplicates = load.loaded()
    load.drop(load.sequences())
    load.moments = load.published()
    assert load.moments == {}
    report = report_of(None, Loaded(load), committed_at=200.0)
    assert (report.events, report.oldest, report.duplicates) == (0, 0.0, len(roots))
    LoaderMetrics().load_committed(load, 200.0)


def test_ages_are_those_of_the_events_that_are_stored() -> None:
    load = a_load("a", "b", "a", "a")
    load.drop([2])
    load.moments = load.published()
    report = report_of(None, Loaded(load), committed_at=200.0)
    assert report.oldest_by_table["a"] == 100.0
    assert report.oldest_by_table["b"] == 99.0


@pytest.mark.parametrize(("misfits", "said"), [(0, "age 0.0 s"), (35, "age 0.0 s; 35 more are learned first")])
def test_the_line_of_a_load_says_what_is_yet_to_be_learned(
    caplog: pytest.LogCaptureFixture, misfits: int, said: str
) -> None:
    events = a_load(*["a"] * misfits).fitted.events
    with caplog.at_level("INFO"):
        log_load(report_of(None, Loaded(a_load(), events), committed_at=200.0))
    assert caplog.messages[0].endswith(said)


@pytest.mark.parametrize(("count", "last"), [(20, "t19"), (22, "… and 2 more")])
def test_the_line_of_a_lesson_says_when_it_names_only_some(
    caplog: pytest.LogCaptureFixture, count: int, last: str
) -> None:
    additions = [
        Addition(f"t{n:02}", "x", "text", nullable=True, new_table=True, parent=None, variant=False, first_event="")
        for n in range(count)
    ]
    with caplog.at_level("INFO"):
        log_lesson(Snapshot(Stored("loader", 3, None), {}), Lesson(additions))
    assert caplog.records[0].new_tables[-1] == last  # type: ignore[attr-defined]
