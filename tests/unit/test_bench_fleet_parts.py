"""Faults, parameters, ages, rates and the chart of `bench fleet`."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest

from loader.bench.fleet.ceiling import rate
from loader.bench.fleet.chart import chart
from loader.bench.fleet.controller import Controller
from loader.bench.fleet.course import Ages, Course
from loader.bench.fleet.faults import FIRST, LAST, Fault, Pending, schedule
from loader.bench.fleet.fleet import ideal, parameters
from loader.bench.fleet.group import Group
from loader.bench.fleet.interrupt import Interrupt
from loader.bench.fleet.outage import Outages
from loader.bench.fleet.plan import FleetPlan
from loader.bench.fleet.preemption import Preemptions
from loader.bench.fleet.worker import age_of
from loader.errors import LoaderError

PLAN = FleetPlan(messages=10_000, kills=3, restarts=4, cuts=5, redeliveries=55)


def test_every_fault_has_its_share_of_the_backlog_and_the_same_for_the_same_seed() -> None:
    faults = schedule(PLAN, restarts=True, breaks=True)
    counts = Counter(fault.kind for fault in faults)
    assert counts == {"kill": 3, "restart": 2, "crash": 2, "cut": 5, "redeliver": 10}
    assert sum(fault.count for fault in faults if fault.kind == "redeliver") == 55
    assert faults == sorted(faults) == schedule(PLAN, restarts=True, breaks=True)
    assert all(FIRST <= fault.share <= LAST for fault in faults)


def test_what_cannot_be_broken_is_left_alone() -> None:
    assert {fault.kind for fault in schedule(PLAN, restarts=False, breaks=False)} == {"kill"}
    assert schedule(FleetPlan(redeliveries=0, kills=0, restarts=0, cuts=0), restarts=True, breaks=True) == []


def test_a_fault_waits_for_its_share_and_happens_once() -> None:
    pending = Pending([Fault(0.5, "cut"), Fault(0.2, "redeliver", 7)])
    assert pending.due(0.1) is None
    first = pending.due(0.6)
    assert first == Fault(0.2, "redeliver", 7)
    assert pending.due(0.6) is first
    pending.done(first)
    assert pending.due(0.6) == Fault(0.5, "cut")
    assert pending.happened == {"redeliver": 7}
    assert len(pending) == 1


def test_the_autoscaler_wants_all_workers_until_a_third_of_the_backlog_is_left() -> None:
    policy = FleetPlan(messages=120_000, workers_max=4).policy()
    assert policy.assignment == 10_000
    assert FleetPlan(messages=120_000, assignment=5).policy().assignment == 5


@pytest.mark.parametrize(
    "wrong",
    [{"messages": 5}, {"twice": 0.5}, {"poison": -0.1}, {"compress": 0}, {"outright": 2}, {"workers_min": 5}],
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        FleetPlan(**wrong)


def test_parameters_say_what_was_derived() -> None:
    found = parameters(FleetPlan(messages=60_000))
    assert (found["bundle"], found["calibrate"], found["redeliveries"], found["assignment"]) == (1200, 20000, 600, 5000)


def test_the_ideal_is_the_slower_of_the_workers_and_the_machine() -> None:
    shared = ideal(1_000_000, 4, {1: 10_000.0, 4: 20_000.0}, 100.0)
    assert shared is not None
    assert (shared["bound_by"], shared["seconds"], shared["times_ideal"]) == ("machine", 50.0, 2.0)
    assert shared["seconds_if_workers_had_machines"] == 25.0
    alone = ideal(1_000_000, 4, {1: 10_000.0, 4: 45_000.0}, 100.0)
    assert alone is not None
    assert (alone["bound_by"], alone["seconds"]) == ("workers", 25.0)
    assert ideal(1, 4, {}, 1.0) is None


def test_a_rate_is_of_the_first_nine_tenths_and_of_what_came_after_the_start() -> None:
    commits = [(90.0, 500), (102.0, 400), (104.0, 500), (119.0, 100)]
    assert rate(commits, 100.0, 1_000) == pytest.approx(900 / 4)
    with pytest.raises(LoaderError, match="600 events of 1,000"):
        rate(commits[2:], 100.0, 1_000)


def test_the_age_is_that_of_a_load_and_no_other_line() -> None:
    line = {"message": "loaded 5 events", "load_id": "1.5", "events": 5, "age_seconds": 2.5}
    assert age_of(json.dumps(line)) == 2.5
    assert age_of(json.dumps(line | {"events": 0})) is None
    assert age_of(json.dumps({"age_seconds": 1})) is None
    assert age_of('not JSON "age_seconds"') is None


def test_ages_keep_the_greatest_until_they_are_asked() -> None:
    ages = Ages()
    ages.hear(0.0, 3.0)
    ages.hear(0.0, 2.0)
    assert ages.take(9.0) == 3.0
    assert ages.take(9.0) == 9.0


def test_a_course_keeps_a_sample_at_each_interval_and_sums_serving_workers() -> None:
    course = Course(1.0)
    ages = Ages()
    for tenth in range(31):
        course.note(tenth / 10, 100 - tenth, 4, 2, ages)
    assert [sample.backlog for sample in course.samples] == [100, 90, 80, 70]
    assert course.serving_seconds == pytest.approx(6.0)
    assert course.as_dict()["workers"] == [2, 2, 2, 2]


def test_the_chart_shows_backlog_workers_and_age_over_one_axis() -> None:
    over_time = {"seconds": [0, 30, 60], "backlog": [1000, 500, 0], "workers": [1, 4, 4], "age": [0, 30, 61]}
    lines = chart(over_time, 30.0).splitlines()
    assert [line for line in lines if "at most" in line] == [
        "backlog, unacked messages, at most 1,000",
        "workers that serve, at most 4",
        "age at the commit, s, at most 61",
    ]
    assert lines[4] == "██ "
    assert lines[-1].endswith("60 s = 30 min of the fleet")
    assert chart({}, 30.0).count("at most 0") == 3


class Broker:
    endpoint, version, breaks = "127.0.0.1:1", "none", True

    def __init__(self) -> None:
        self.done: list[str] = []

    def unacked(self, subscription: str) -> int | None:
        return None

    def cut_streams(self) -> None:
        self.done.append("cut")

    def duplicate(self, messages: int) -> None:
        self.done.append(f"duplicate {messages}")

    def silence(self, on: bool) -> None:
        self.done.append("silence")


class Stuck:
    """A worker that never loads."""

    ready = True
    code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.code = 0

    def kill(self) -> None:
        self.code = -9

    def said(self) -> str:
        return ""


def controller(plan: FleetPlan, backlog: Any, broker: Broker, faults: list[Fault]) -> Controller:
    group = Group(lambda number: Stuck(), Preemptions(0, 0, 1), 0.0, 30.0)
    return Controller(plan, group, broker, backlog, Pending(faults), Outages(None), Ages(), lambda text: None)


def test_a_fleet_that_gets_nowhere_is_a_failure() -> None:
    plan = FleetPlan(messages=1_000, patience_seconds=0.3)
    with pytest.raises(LoaderError, match="the fleet hangs: 1,000 messages"):
        controller(plan, lambda: 1_000, Broker(), []).drain()


def test_the_controller_grows_the_group_breaks_things_and_ends_with_the_backlog() -> None:
    plan = FleetPlan(messages=1_000, compress=600.0, boot_seconds=0.0, workers_max=3)
    broker = Broker()
    started = time.monotonic()
    # Once the metric, up to two minutes late, has been seen: a fifth of a second.
    backlogs = iter([1_000] * 6 + [800, 600, 500, 0])
    faults = [Fault(0.19, "cut"), Fault(0.39, "redeliver", 9), Fault(0.49, "kill")]
    playing = controller(plan, lambda: next(backlogs), broker, faults)
    playing.drain()
    assert broker.done == ["cut", "duplicate 9"]
    assert playing.happened == {"cut": 1, "redeliver": 9, "kill": 1}
    assert max(sample.workers for sample in playing.course.samples) == 3
    assert 0 < playing.drain_seconds <= time.monotonic() - started
    assert playing.hours[0] > playing.hours[1] * 500
    playing.stop()


def test_an_outage_that_fails_is_told_to_the_controller() -> None:
    class Broken:
        def stop(self) -> None:
            raise LoaderError("the server does not stop")

        def kill(self) -> None:
            self.killed = True

        def start(self) -> None:
            pass

    outages = Outages(Broken())  # type: ignore[arg-type]
    outages.begin("crash")
    outages.wait()
    assert len(outages.seconds) == 1
    outages.begin("restart")
    with pytest.raises(LoaderError, match="does not stop"):
        outages.wait()


def test_an_interrupt_waits_for_the_end_of_what_must_not_be_torn_apart_and_comes_once() -> None:
    reached = []
    former = signal.getsignal(signal.SIGTERM)
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            with interrupt.hold():
                signal.raise_signal(signal.SIGTERM)
                reached.append("end of the block")
            reached.append("behind it")
        signal.raise_signal(signal.SIGINT)
        with interrupt.hold():
            reached.append("cleaning up")
    assert reached == ["end of the block", "cleaning up"]
    assert signal.getsignal(signal.SIGTERM) is former


def test_an_interrupt_comes_at_once_elsewhere() -> None:
    with Interrupt(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it did not come")


def test_an_outage_does_not_stop_the_controller() -> None:
    gate = threading.Event()

    class Slow:
        def stop(self) -> None:
            gate.wait(10)

        def start(self) -> None:
            pass

    outages = Outages(Slow())  # type: ignore[arg-type]
    outages.begin("restart")
    assert outages.busy
    gate.set()
    outages.wait()
    assert not outages.busy
    assert Outages(None).possible is False
