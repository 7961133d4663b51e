"""The log-based metrics read lines that the loader writes, whether the agent has parsed them or not."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from loader.logs import JsonFormatter
from loader.worker.report import LoadReport, log_load

TEXT = (Path(__file__).resolve().parents[2] / "terraform/modules/monitoring/metrics.tf").read_text()
PATTERNS = dict(re.findall(r'(\w+) = \{\n      description = .*\n.*\n +value +=.*?message, \\"(.*?)\\"\)"', TEXT))


@pytest.fixture(params=["parsed", "one text"])
def messages(request, caplog):
    """What stands in jsonPayload.message for a load with dead letters."""
    report = LoadReport(
        load_id="1.5",
        closed_by="time",
        messages=12,
        events=10,
        rows=37,
        tables={"orders": 10, "orders__items": 27},
        oldest_by_table={"orders": 6.25},
        dead_letters=2,
        letters_by_reason={("orders", "value out of range"): 2},
    )
    with caplog.at_level(logging.INFO, logger="loader.load"):
        log_load(report)
    if request.param == "parsed":
        return [record.getMessage() for record in caplog.records]
    formatter = JsonFormatter()
    lines = [formatter.format(record) for record in caplog.records]
    assert all(json.loads(line)["severity"] for line in lines)
    return lines


def test_every_metric_has_a_pattern():
    assert set(PATTERNS) == {"rows", "events", "age_seconds", "dead_letters"}


@pytest.mark.parametrize(
    ("metric", "value"), [("rows", "37"), ("events", "10"), ("age_seconds", "6.2"), ("dead_letters", "2")]
)
def test_a_metric_finds_its_number_in_one_line_only(messages, metric, value):
    found = [match[1] for message in messages if (match := re.search(PATTERNS[metric], message))]
    assert found == [value]


def test_the_filter_of_loads_matches_loads_alone(messages):
    [pattern] = re.findall(r'^  loaded +=? "(.*)"$', TEXT, re.MULTILINE)
    assert [bool(re.search(pattern, message)) for message in messages] == [True, False]
