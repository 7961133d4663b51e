"""What a load says of itself, also when nothing of it was new."""

from __future__ import annotations

import pytest

from loader.copy.bundle_load import BundleLoad
from loader.message.message import Event, Message
from loader.observe.metrics import LoaderMetrics
from loader.plan.fitting import Fitted
from loader.worker.lane import Loaded
from loader.worker.report import report_of


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
