"""The managed instance group of `bench fleet`: boots, preemptions, scale-in, and workers that end by themselves."""

from __future__ import annotations

import math

import pytest

from loader.bench.fleet.group import Group
from loader.bench.fleet.preemption import SPARED, Fate, Preemptions


class Process:
    def __init__(self) -> None:
        self.ready = True
        self.code: int | None = None
        self.signals: list[str] = []

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.signals.append("TERM")

    def kill(self) -> None:
        self.signals.append("KILL")
        self.code = -9

    def said(self) -> str:
        return "last words"


class Fates:
    """In order; then spared."""

    def __init__(self, *fates: Fate) -> None:
        self._fates = list(fates)

    def draw(self) -> Fate:
        return self._fates.pop(0) if self._fates else SPARED


class Cloud:
    def __init__(self, *fates: Fate, boot: float = 120.0) -> None:
        self.started: list[Process] = []
        self.group = Group(self._launch, Fates(*fates), boot, 30.0)  # type: ignore[arg-type]

    def _launch(self, number: int) -> Process:
        self.started.append(Process())
        return self.started[-1]


def test_a_vm_starts_its_worker_when_it_has_booted() -> None:
    cloud = Cloud()
    cloud.group.resize(0, 0, 2)
    cloud.group.tick(119, 4)
    assert (len(cloud.group), len(cloud.started)) == (2, 0)
    cloud.group.tick(120, 4)
    assert len(cloud.group.serving) == len(cloud.started) == 2


def test_a_worker_serves_once_it_says_that_it_pulls() -> None:
    cloud = Cloud(boot=0)
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(0, 0)
    cloud.started[0].ready = False
    assert cloud.group.serving == []
    cloud.started[0].ready = True
    assert len(cloud.group.serving) == 1


def test_a_preemption_warns_first_and_kills_after_the_grace_period_in_real_seconds() -> None:
    cloud = Cloud(Fate(300, outright=False), boot=0)
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(0, 0)
    cloud.group.tick(299, 9.9)
    assert cloud.started[0].signals == []
    cloud.group.tick(300, 10)
    assert cloud.started[0].signals == ["TERM"]
    assert len(cloud.group) == 0
    cloud.group.tick(1_190, 39.9)
    assert cloud.started[0].signals == ["TERM"]
    cloud.group.tick(1_200, 40.1)
    assert cloud.started[0].signals == ["TERM", "KILL"]
    assert cloud.group.counts["killed_after_grace"] == 1
    assert cloud.group.running == 0


def test_a_preempted_worker_that_drains_is_replaced_and_no_fault() -> None:
    cloud = Cloud(Fate(300, outright=False), boot=0)
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(0, 0)
    cloud.group.tick(300, 10)
    cloud.started[0].code = 0
    cloud.group.tick(310, 11)
    cloud.group.resize(310, 11, 1)
    cloud.group.tick(310, 11)
    assert cloud.group.counts == {"created": 2, "preempted": 1, "drained": 1}
    assert cloud.group.unasked == []
    assert cloud.group.serving[0].process is cloud.started[1]


def test_an_outright_preemption_kills_without_a_warning() -> None:
    cloud = Cloud(Fate(300, outright=True), boot=0)
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(0, 0)
    cloud.group.tick(300, 10)
    assert cloud.started[0].signals == ["KILL"]
    assert cloud.group.counts == {"created": 1, "killed": 1}
    assert cloud.group.unasked == []


def test_a_vm_that_is_preempted_while_it_boots_never_starts_a_worker() -> None:
    cloud = Cloud(Fate(60, outright=False))
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(60, 2)
    cloud.group.tick(200, 7)
    assert cloud.started == []
    assert len(cloud.group) == 0


@pytest.mark.parametrize("code", [1, 0, -6])
def test_a_worker_that_ends_by_itself_is_reported(code: int) -> None:
    cloud = Cloud(boot=0)
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(0, 0)
    cloud.started[0].code = code
    cloud.group.tick(30, 1)
    assert cloud.group.unasked == [f"worker 0 ended with exit code {code}: last words"]
    assert len(cloud.group) == 0


def test_a_worker_that_drains_with_an_error_is_reported() -> None:
    cloud = Cloud(boot=0)
    cloud.group.resize(0, 0, 1)
    cloud.group.tick(0, 0)
    cloud.group.resize(30, 1, 0)
    cloud.started[0].code = 1
    cloud.group.tick(60, 2)
    assert len(cloud.group.unasked) == 1


def test_scale_in_takes_those_that_do_not_serve_yet_and_then_the_youngest() -> None:
    cloud = Cloud()
    cloud.group.resize(0, 0, 2, booted=True)
    cloud.group.tick(0, 0)
    cloud.group.resize(60, 2, 3)
    cloud.group.resize(90, 3, 1)
    assert [vm.number for vm in cloud.group.serving] == [0]
    assert cloud.started[1].signals == ["TERM"]
    assert cloud.started[0].signals == []
    assert cloud.group.counts["scaled_in"] == 2


def test_hours_count_vms_from_their_creation_and_processes_from_their_start() -> None:
    cloud = Cloud()
    cloud.group.resize(0, 0, 1, booted=True)
    cloud.group.tick(0, 0)
    cloud.group.resize(1_800, 60, 2)
    cloud.group.kill(cloud.group.serving[0], 3_600, 120)
    cloud.group.tick(3_600, 120)
    fleet, processes = cloud.group.hours(7_200, 240)
    assert fleet == pytest.approx(1.0 + 1.5)
    assert processes == pytest.approx((120 + 120) / 3600)


def test_the_end_asks_all_and_counts_who_is_left() -> None:
    cloud = Cloud(boot=0)
    cloud.group.resize(0, 0, 3)
    cloud.group.tick(0, 0)
    cloud.group.stop_all(30, 1)
    assert [process.signals for process in cloud.started] == [["TERM"]] * 3
    for process in cloud.started[:2]:
        process.code = 0
    cloud.group.tick(60, 2)
    assert cloud.group.running == 1


def test_preemptions_come_at_their_rate_and_share_and_the_same_for_the_same_seed() -> None:
    one, same, other = (Preemptions(6.0, 0.25, seed) for seed in (1, 1, 2))
    fates = [one.draw() for _ in range(4_000)]
    assert fates == [same.draw() for _ in range(4_000)]
    assert fates != [other.draw() for _ in range(4_000)]
    assert sum(fate.life_seconds for fate in fates) / 4_000 == pytest.approx(600, rel=0.1)
    assert sum(fate.outright for fate in fates) / 4_000 == pytest.approx(0.25, abs=0.03)


def test_without_preemptions_vms_live_for_ever() -> None:
    assert Preemptions(0.0, 0.5, 1).draw().life_seconds == math.inf
