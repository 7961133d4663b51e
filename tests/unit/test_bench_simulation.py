"""The simulated fleet: Google's rule as documented, and a day in which no message is lost."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from loader.bench.simulation.autoscaler import Autoscaler, Metric, Peak, Policy, sizes, wanted
from loader.bench.simulation.backlog import Backlog, quantile
from loader.bench.simulation.chart import bars, chart
from loader.bench.simulation.day import Scenario, simulate
from loader.bench.simulation.group import Group
from loader.bench.simulation.price import Price
from loader.bench.simulation.sweep import sweep
from loader.bench.simulation.traffic import DAY, Traffic
from loader.cli import app

ROOT = Path(__file__).resolve().parents[2]
CALM = Traffic(spike=1.0)
COARSE = Scenario(step=30)


def variables() -> dict[str, str]:
    text = (ROOT / "terraform/variables.tf").read_text()
    return dict(re.findall(r"(\w+) += optional\(number, ([0-9.]+)\)", text[text.index('variable "workers"') :]))


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backlog", "size"), [(0, 2), (1, 2), (2_000, 2), (2_001, 3), (9_999, 10), (10_000, 10), (10_001, 10), (1e9, 10)]
)
def test_the_size_is_the_backlog_by_the_assignment_rounded_up_within_min_and_max(backlog: float, size: int) -> None:
    assert wanted(Policy(2, 10, 100, 10, cpu_target=None), backlog, 0.0) == size


def test_the_greater_of_backlog_and_cpu_wins() -> None:
    policy = Policy(1, 10, 100, 10, cpu_target=0.7)
    assert wanted(policy, 3_500, 0.1) == 4
    assert wanted(policy, 500, 3.0) == 5
    assert wanted(replace(policy, cpu_target=None), 500, 3.0) == 1


def test_a_use_that_is_exactly_the_target_wants_no_vm_more() -> None:
    assert wanted(Policy(1, 10, 100, 10, cpu_target=0.7), 0, 2 * 0.7) == 2


def test_a_group_grows_at_once_and_remembers_the_peak_of_ten_minutes() -> None:
    policy = Policy(1, 10, 100, 10, None, scale_in_replicas=100, scale_in_seconds=60)
    found = sizes(policy, [0, 8_000, 0, 0, 4_000] + [0] * 20)
    assert found[:2] == [1, 8]
    assert found[1:11] == [8] * 10  # nine minutes after it still counts, ten minutes after not any more
    assert found[11:14] == [4] * 3
    assert found[14:] == [1] * 11


def test_a_long_initialization_lengthens_the_memory() -> None:
    policy = Policy(1, 10, 100, 10, None, 100, 60, initialization_seconds=1_200)
    assert sizes(policy, [8_000] + [0] * 20) == [8] * 20 + [1]


def test_scale_in_control_takes_so_many_vms_in_each_window() -> None:
    policy = Policy(1, 10, 100, 10, None, scale_in_replicas=1, scale_in_seconds=300)
    found = sizes(policy, [4_000] + [0] * 30)
    assert found == [4] * 10 + [3] * 5 + [2] * 5 + [1] * 11


def test_scale_in_control_does_not_hold_back_growth() -> None:
    scaler = Autoscaler(Policy(1, 10, 100, 10, None, 1, 300))
    assert [scaler.decide(second, size * 1000, 0) for second, size in ((0, 1), (5, 9), (10, 10))] == [1, 9, 10]


def test_a_peak_forgets_what_is_as_old_as_the_window() -> None:
    peak = Peak(60)
    assert [peak.add(0, 5), peak.add(59, 1), peak.add(60, 1), peak.value(119), peak.value(120)] == [5, 5, 1, 1, 0]


@pytest.mark.parametrize("bad", [{"min": 3, "max": 2}, {"min": -1}, {"min": 0, "max": 0}, {"drain_seconds": 0}])
def test_a_policy_that_google_would_refuse_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be above 0|are needed"):
        Policy(**bad)  # type: ignore[arg-type]


# --- the lateness -----------------------------------------------------------------------------------------------------


class Fixed(Random):
    """Lateness in a given order."""

    def __init__(self, values: list[float]) -> None:
        super().__init__(0)
        self._values = iter(values)

    def uniform(self, a: float, b: float) -> float:
        value = next(self._values)
        assert a <= value <= b
        return value


def test_a_metric_is_sampled_each_minute_and_seen_later() -> None:
    metric = Metric(Fixed([100.0, 10.0]), 120)
    seen = []
    for now in range(0, 180, 10):
        if now < 120:
            metric.put(now, 1000 + now)
        seen.append(metric.see(now))
    assert seen == [0] * 7 + [1060] * 11  # the first sample, seen from 100 on, was overtaken at 70


def test_no_sample_is_seen_later_than_the_latest() -> None:
    metric = Metric(Random(3), 120)
    for now in range(0, 3_600, 5):
        metric.put(now, now)
        assert now - 60 - 120 - 5 < metric.see(now) <= now


# --- the VMs ----------------------------------------------------------------------------------------------------------


def test_a_vm_serves_when_it_has_booted_and_is_paid_from_its_creation() -> None:
    group = Group(1, Random(1), 100, 0)
    group.resize(0, 3)
    assert (len(group), group.serving(99), group.serving(100)) == (3, 1, 3)


def test_a_shrinking_group_gives_up_what_does_not_serve_yet_first() -> None:
    group = Group(1, Random(1), 100, 0)
    group.resize(0, 3)
    group.resize(50, 1)
    assert (len(group), group.serving(50)) == (1, 1)


def test_preempted_vms_are_made_again_after_a_boot() -> None:
    group = Group(100, Random(1), 100, preemptions_per_hour=1.0)
    group.preempt(3_600)
    assert 45 < group.preempted < 80  # 1 - 1/e of them
    assert len(group) == 100 - group.preempted
    group.resize(3_600, 100)
    assert (len(group), group.serving(3_600)) == (100, 100 - group.preempted)


def test_after_a_fleet_wide_preemption_there_is_no_vm_while_there_is_no_capacity() -> None:
    group = Group(4, Random(1), 100, 0)
    assert group.take_all(50, outage_seconds=600) == 4
    group.resize(649, 4)
    assert len(group) == 0
    group.resize(650, 4)
    assert (len(group), group.serving(749), group.serving(750)) == (4, 0, 4)


# --- the messages -----------------------------------------------------------------------------------------------------


def test_the_oldest_messages_are_loaded_first_and_their_ages_kept() -> None:
    backlog = Backlog()
    backlog.arrive(0, 10)
    backlog.arrive(5, 10)
    assert backlog.load(20, 15) == 15
    assert backlog.ages == {20: 10, 15: 5}
    assert (backlog.waiting, backlog.oldest(30)) == (5, 25)


def test_what_a_killed_worker_held_comes_back_in_front_with_its_age() -> None:
    backlog = Backlog()
    backlog.arrive(0, 10)
    backlog.lose(4, until=60)
    backlog.expire(59)
    assert (backlog.waiting, backlog.leased, backlog.load(59, 100), backlog.oldest(59)) == (6, 4, 6, 59)
    backlog.arrive(60, 3)
    backlog.expire(60)
    backlog.load(60, 4)
    assert backlog.ages == {59: 6, 60: 4}
    assert (backlog.waiting, backlog.leased, backlog.redelivered, backlog.loaded) == (3, 0, 4, 10)


def test_quantiles_count_messages() -> None:
    assert [quantile(Counter({1: 98, 7: 1, 50: 1}), share) for share in (0.5, 0.98, 0.99, 1.0)] == [1, 1, 7, 50]
    assert quantile(Counter(), 0.99) == 0


def test_traffic_follows_its_curve_and_its_spikes_and_loses_nothing_to_rounding() -> None:
    traffic = Traffic(200, 500, spike=50, spike_at=18, spike_seconds=600, again_after=1800)
    assert traffic.rate(14 * 3600) == pytest.approx(500)
    assert traffic.rate(2 * 3600) == pytest.approx(200)
    base = replace(traffic, spike=1.0)
    for second, times in ((-1, 1), (0, 50), (599, 50), (600, 1), (1799, 1), (1800, 50), (2399, 50), (2400, 1)):
        assert traffic.rate(18 * 3600 + second) == pytest.approx(times * base.rate(18 * 3600 + second))
    exact = sum(traffic.rate(second) * 7 for second in range(0, DAY, 7))
    assert sum(traffic.arrivals(7)) == pytest.approx(exact, abs=1)


# --- the day ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("floor", [0, 1])
@pytest.mark.parametrize("at", [None, 18.05])
def test_no_message_is_lost_or_made(seed: int, floor: int, at: float | None) -> None:
    scenario = replace(COARSE, seed=seed, floor=floor, fleet_preemption_at=at, preemptions_per_hour=0.5)
    day = simulate(Policy(), scenario)
    assert day.arrived == sum(scenario.traffic.arrivals(30))
    assert day.loaded + day.waiting == day.arrived
    assert (day.redelivered > 0) == (at is not None)


def test_what_too_few_workers_leave_is_still_there_at_midnight() -> None:
    day = simulate(Policy(1, 1), replace(COARSE, worker_rate=100, preemptions_per_hour=0.0))
    assert day.loaded == 100 * DAY
    assert day.waiting == day.arrived - day.loaded > 0
    assert day.age_max > 3_600


def test_the_same_seed_gives_the_same_day_and_another_one_another() -> None:
    assert simulate(Policy(), COARSE) == simulate(Policy(), COARSE)
    assert simulate(Policy(), COARSE) != simulate(Policy(), replace(COARSE, seed=2))


def test_a_calm_day_costs_what_its_workers_cost_by_hand() -> None:
    day = simulate(Policy(), replace(COARSE, traffic=CALM, preemptions_per_hour=0.0, floor=1))
    assert (day.spot_hours, day.standard_hours, day.workers_most, day.age_max) == (48.0, 24.0, 3, 5.0)
    assert day.dollars_a_month == pytest.approx(2 * (730 * 0.0051 + 1) + 730 * 0.0168 + 1, abs=0.01)


def test_a_single_preemption_is_a_pause_with_one_vm_and_none_with_two() -> None:
    scenario = replace(COARSE, traffic=CALM, step=10, preemptions_per_hour=0.1)
    assert simulate(Policy(min=1), scenario).age_max > 100
    assert simulate(Policy(min=2), scenario).age_max == 5.0


def test_a_fleet_wide_preemption_waits_for_capacity_and_boot_unless_a_standard_vm_stays() -> None:
    scenario = replace(COARSE, traffic=CALM, preemptions_per_hour=0.0, fleet_preemption_at=10.0)
    day = simulate(Policy(), scenario)
    assert 720 <= day.age_max <= 760
    assert simulate(Policy(), replace(scenario, floor=1)).age_max < 100


def test_a_later_metric_and_a_longer_boot_make_a_spike_wait_longer() -> None:
    policy = Policy(cpu_target=None)
    ages = [
        simulate(policy, replace(COARSE, metric_late=late, boot_seconds=boot)).age_max
        for late, boot in ((0, 60), (120, 60), (120, 240))
    ]
    assert ages == sorted(set(ages))


def test_the_course_over_time_has_each_five_minutes() -> None:
    day = simulate(Policy(), COARSE)
    assert [len(values) for values in day.over_time.values()] == [288] * 3
    assert max(day.over_time["workers"]) == day.workers_most
    assert max(day.over_time["backlog"]) == day.backlog_most


# --- the defaults -----------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_terraform() -> None:
    found = {key: float(value) for key, value in variables().items()}
    policy = Policy()
    for name in ("min", "max", "messages_per_second", "drain_seconds", "cpu_target"):
        assert found[name] == getattr(policy, name), name
    assert found["scale_in_replicas"] == policy.scale_in_replicas
    assert found["scale_in_seconds"] == policy.scale_in_seconds
    fleet = (ROOT / "terraform/modules/fleet/variables.tf").read_text()
    assert float(re.search(r"initial_delay = optional\(number, (\d+)\)", fleet)[1]) == policy.initialization_seconds  # type: ignore[index]


def test_the_prices_are_those_of_the_price_table() -> None:
    vm = tomllib.loads((ROOT / "terraform/prices.toml").read_text())["vm"]
    disk = vm["disk_gib"] * vm["balanced_disk_gib_month"]
    assert Price() == Price(vm["e2_small_spot_hour"], vm["e2_small_standard_hour"], disk)


def test_the_sweep_puts_the_best_first_and_what_is_out_last() -> None:
    changes = (("as stated", {}), ("min 1", {"min": 1}), ("max 20", {"max": 20}), ("slow", {"drain_seconds": 240.0}))
    tried = sweep(Policy(), replace(COARSE, step=20), changes=(*changes, ("the same", {"min": 2})), seeds=1)
    assert [each.name for each in tried] == ["as stated", "slow", "max 20", "min 1"]
    assert [bool(each.refused) for each in tried] == [False, False, False, True]


def test_a_group_that_could_grow_on_what_its_own_workers_hold_is_out() -> None:
    (only,) = sweep(Policy(drain_seconds=30), COARSE, changes=(("as stated", {}),), seeds=1)
    assert only.refused == "two processes hold as much"


# --- what is printed --------------------------------------------------------------------------------------------------


def test_bars_reach_as_high_as_their_values() -> None:
    assert bars([0, 1, 2, 4], height=1) == [" ▂▄█"]
    assert bars([0, 4, 16, 8], height=2) == ["  █ ", " ▄██"]
    assert bars([0, 0, 100, 0, 0, 0], width=3, height=1) == [" █ "]
    assert bars([1000, 1], height=1) == ["█▁"]
    assert chart("nothing", [0.0, 0.0]).splitlines()[0] == "nothing, at most 0"


def test_the_command_gives_a_record_that_repeats_itself(tmp_path: Path) -> None:
    arguments = ["bench", "simulate", "--rate", "2500", "--json", "--save", "--results", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    (kept,) = tmp_path.glob("simulate-*.json")
    record = json.loads(kept.read_text())
    assert record["parameters"]["scenario"]["worker_rate"] == 2500
    again = CliRunner().invoke(app, [*record["command"].split()[1:], "--json"])
    assert json.loads(again.stdout)["results"] == record["results"]
    for day in record["results"]["days"].values():
        assert day["loaded"] + day["waiting"] == day["arrived"]


def test_a_minimum_above_the_maximum_is_refused_by_the_command() -> None:
    answer = CliRunner().invoke(app, ["bench", "simulate", "--min", "5", "--max", "2"])
    assert answer.exit_code != 0
