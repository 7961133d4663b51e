"""The price and capacity page of terraform/README.md, worked out again from the autoscaler's own numbers."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path

import pytest

from loader.settings.declaration import MESSAGES_OUTSTANDING, Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "terraform/README.md").read_text()


@pytest.fixture(scope="module")
def prices():
    specification = importlib.util.spec_from_file_location("terraform_prices", ROOT / "terraform/prices.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    import sys

    sys.modules[specification.name] = module  # dataclasses with slots look their module up
    specification.loader.exec_module(module)
    return module


def test_the_fleet_is_the_one_of_the_variables(prices):
    text = (ROOT / "terraform/variables.tf").read_text()
    for name, value in (("min", "2"), ("max", "10"), ("messages_per_second", "3000"), ("drain_seconds", "60")):
        assert re.search(rf"^    {name} += optional\(number, {value}\)$", text, re.MULTILINE)
    assert prices.default_fleet() == prices.Fleet(2, 10, 3000, 60)


def test_the_fleet_uses_the_autoscalers_formula(prices):
    text = (ROOT / "terraform/modules/fleet/autoscaler.tf").read_text()
    assert "var.backlog.messages_per_second * var.backlog.drain_seconds" in text
    assert prices.default_fleet().assignment == 180_000


def test_the_default_assignment_exceeds_what_a_worker_may_hold(prices):
    held = Settings().outstanding_messages
    assert held == MESSAGES_OUTSTANDING * prices.workers()["max_bundle_messages"]
    assert prices.default_fleet().assignment > held
    assert f"{MESSAGES_OUTSTANDING} * var.workers.max_bundle_messages" in (ROOT / "terraform/loader.tf").read_text()


@pytest.mark.parametrize(("backlog", "size"), [(0, 2), (360_000, 2), (360_001, 3), (1_800_000, 10), (100_000_000, 10)])
def test_one_vm_more_for_each_assignment(prices, backlog, size):
    assert prices.default_fleet().size(backlog) == size


def test_a_backlog_drains_by_what_is_spare(prices):
    fleet = prices.Fleet(1, 4, 1000, 100)
    assert fleet.drain(200_000, 500) == pytest.approx(200_000 / 1500)
    assert fleet.drain(10, 1000) == math.inf


def test_the_reference_workload_costs_what_the_page_says(prices):
    # By hand, for 200 events of 1,024 bytes a second and 730 hours: 538 GB.
    low = prices.monthly(200)
    assert low["VMs"] == pytest.approx(2 * (730 * 0.0051 + 1.00))
    assert low["Pub/Sub throughput"] == pytest.approx(538_214_400_000 * 2 / 2**40 * 40)
    assert low["Pub/Sub retention"] == pytest.approx(200 * 1024 * 7 * 86400 / 2**30 * 0.27)
    assert low["Cloud SQL machine"] == pytest.approx(730 * (2 * 0.0413 + 8 * 0.0070))
    assert low["Cloud SQL growth"] == pytest.approx(538_214_400_000 * 1.2 / 2**30 * 0.25)
    assert f"| **first month** | **{sum(low.values()):,.0f}** |" in README


def test_more_events_cost_more_vms_only_beyond_what_the_minimum_loads(prices):
    assert prices.monthly(6000)["VMs"] == prices.monthly(200)["VMs"]
    assert prices.monthly(6001)["VMs"] == pytest.approx(prices.monthly(200)["VMs"] * 3 / 2)


def test_the_retention_priced_is_the_retention_made(prices):
    days = prices.assumptions()["pubsub"]["retention_days"]
    text = (ROOT / "terraform/modules/subscription/variables.tf").read_text()
    block = text[text.index('variable "retention_days"') :]
    assert re.search(r"default +=? +(\d+)", block)[1] == str(days)


def test_the_database_priced_is_the_database_made(prices):
    sql = prices.assumptions()["cloud_sql"]
    tier = f'"db-custom-{sql["vcpus"]}-{sql["memory_gib"] * 1024}"'
    assert tier in (ROOT / "terraform/variables.tf").read_text()
    assert tier in (ROOT / "terraform/modules/database/variables.tf").read_text()


def test_the_page_is_in_the_readme(prices):
    assert prices.page() in README
