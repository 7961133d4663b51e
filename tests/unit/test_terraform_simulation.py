"""The simulation's table in terraform/README.md comes from a record that was made with the defaults of today."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from loader.bench.simulation.autoscaler import Policy
from loader.bench.simulation.day import Scenario, simulate
from loader.bench.simulation.price import Price

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    specification = importlib.util.spec_from_file_location("terraform_simulation", ROOT / "terraform/simulation.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_record_is_of_the_defaults(simulation: ModuleType) -> None:
    parameters = simulation.record()["parameters"]
    assert parameters["policy"] == asdict(Policy())
    assert parameters["price"] == asdict(Price())


def test_the_record_is_what_the_simulation_says_today(simulation: ModuleType) -> None:
    scenario = Scenario()
    record = simulation.record()
    assert {**record["parameters"]["scenario"], "fleet_preemption_at": None} == asdict(scenario)
    # Approximately: the last digit of a cosine is the platform's own.
    assert record["results"]["days"]["with its spike"] == pytest.approx(
        simulate(Policy(), scenario).figures(), rel=1e-3
    )


def test_no_setting_that_is_not_out_is_better_than_the_defaults_by_more_than_a_step(simulation: ModuleType) -> None:
    tried = {each["name"]: each for each in simulation.record()["results"]["sweep"]}
    stated = tried["as stated"]
    assert not stated["refused"]
    for name, each in tried.items():
        assert each["refused"] or each["score"] > stated["score"] - 0.1, name


def test_the_page_is_in_the_readme(simulation: ModuleType) -> None:
    assert simulation.page() in (ROOT / "terraform/README.md").read_text()
