"""An outage of Kafka is told in few lines: its beginning, a count each minute, its end."""

from __future__ import annotations

import logging

import pytest

from loader.bridge.outage import Outage

log = logging.getLogger("outage-test")


@pytest.fixture
def clock():
    class Clock:
        now = 1_000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [(each.levelname, each.getMessage()) for each in caplog.records]


def test_the_beginning_a_count_each_minute_and_the_end_are_told(clock, told):
    outage = Outage("Kafka, clicks", log, clock)
    assert not outage.lasting
    for second in range(130):
        clock.now = 1_000.0 + second
        for _ in range(100):
            outage.log(logging.ERROR, "%s [%s] %s", "FAIL", "rdkafka#consumer-2", "Connection refused")
    assert outage.lasting
    outage.over()
    outage.over()
    assert not outage.lasting
    line = "FAIL [rdkafka#consumer-2] Connection refused"
    assert told() == [
        ("WARNING", f"Kafka, clicks: {line}"),
        ("WARNING", f"Kafka, clicks: still, after 60 s: {line} (5,999 lines like it left out)"),
        ("WARNING", f"Kafka, clicks: still, after 120 s: {line} (5,999 lines like it left out)"),
        ("INFO", "Kafka, clicks: works again after 129 s"),
    ]


def test_what_fails_and_works_by_turns_is_told_twice_a_minute_at_most(clock, told):
    outage = Outage("Kafka, clicks", log, clock)
    for second in range(120):
        clock.now = 1_000.0 + second
        outage.trouble("no")
        outage.over()
    assert [message for _, message in told()] == [
        "Kafka, clicks: no",
        "Kafka, clicks: works again after 0 s",
        "Kafka, clicks: no (59 lines like it left out)",
        "Kafka, clicks: works again after 0 s",
    ]


def test_what_is_no_outage_is_told_as_it_comes(clock, told):
    outage = Outage("Kafka, clicks", log, clock)
    for _ in range(2):
        outage.log(logging.WARNING, "%s [%s] %s", "MAXPOLL", "rdkafka#consumer-2", "100% too slow")
    assert told() == [("WARNING", "Kafka, clicks: MAXPOLL [rdkafka#consumer-2] 100% too slow")] * 2
    assert not outage.lasting
