"""Dashboards and alert rules name metrics that exist, with labels that they have; promtool agrees where it is found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from loader.bridge.metrics import render as render_bridge
from loader.observability import reference
from loader.observability.dashboard import FOLDER, files
from loader.observe.declaration import METRICS
from loader.observe.exposition import render
from loader.observe.store import Store

RULES = sorted(FOLDER.glob("*.rules.yml"))
README = FOLDER.parents[1] / "README.md"
_NAME = re.compile(r"\b(?:loader|bridge|process)_[a-z0-9_]+\b")


def exposed() -> set[str]:
    """Names of series in what loader and bridge really serve."""
    served = render(Store().snapshot()).decode() + render_bridge([], {}, {}).decode()
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", served, re.M):
        names |= {f"{name}{tail}" for tail in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


def expressions() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, content in files().items():
        document = json.loads(content)
        found[name] = [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]
        found[name] += [v["query"]["query"] for v in document["templating"]["list"] if isinstance(v["query"], dict)]
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        found[path.name] = re.findall(r"expr: (?:>-\n)?((?:.+\n(?= {10}))*.+)", text)
    return found


@pytest.mark.parametrize(
    "name", ["overview.json", "loader.json", "bridge.json", "loader.rules.yml", "bridge.rules.yml"]
)
def test_every_metric_that_is_named_exists(name: str) -> None:
    named = {metric for text in expressions()[name] for metric in _NAME.findall(text)}
    assert len(named) >= 6
    assert named - exposed() == set()


def test_every_label_that_is_named_is_one_of_the_metric_or_of_the_target() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    labels |= {"pipeline", "region", "environment", "criticality", "group", "lookup"}
    labels |= {"le", "dataset", "instance"}
    for texts in expressions().values():
        for text in texts:
            for group in re.findall(r"\bby \(([^)]*)\)", text):
                assert set(re.split(r",\s*", group)) <= labels, text
            for group in re.findall(r"\{([^}]*)\}", text):
                assert {part.split("=")[0].strip() for part in group.split(",")} <= labels, text


def test_every_metric_of_the_loader_is_on_a_dashboard() -> None:
    texts = [text for name in files() for text in expressions()[name]]
    left = {metric.name for metric in METRICS if not any(metric.name in text for text in texts)}
    assert left == {"process_open_fds", "process_threads", "process_start_time_seconds"}


def test_the_dashboards_are_what_their_module_makes() -> None:
    for name, content in files().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == content, "run python -m loader.observability.dashboard"


def test_the_readme_has_the_bridges_metrics_as_they_are() -> None:
    text = README.read_text(encoding="utf-8")
    assert reference.renew(text) == text, "run python -m loader.observability.reference README.md"
    assert "`bridge_commit_age_seconds` | gauge" in text


def test_panels_lie_beside_each_other_and_have_ids_of_their_own() -> None:
    for content in files().values():
        panels = json.loads(content)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            taken |= cells


def test_every_alert_leads_to_a_section_of_the_readme() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", README.read_text(encoding="utf-8"), re.M)
    }
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        led = re.findall(r"runbook: README\.md#(\S+)", text)
        assert len(led) == text.count("- alert:")
        assert set(led) <= anchors


def test_promtool_accepts_the_rules() -> None:
    promtool = os.environ.get("LOADER_TEST_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool in the PATH; LOADER_TEST_PROMTOOL can name one")
    done = subprocess.run(
        [promtool, "check", "rules", *map(str, RULES)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
