"""`loader bridge`: a file or a verb, what it prints, and how it exits."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from loader import bridge as package
from loader.bridge.config.load import load_configuration
from loader.bridge.metrics import render
from loader.bridge.top import read, table
from loader.commands import bridge
from loader.errors import ConfigurationError, LoaderError

EXAMPLES = sorted((Path(package.__file__).parent / "examples").glob("*.hcl"))
ROUTER = str(next(path for path in EXAMPLES if path.name == "router.hcl"))
HERE = ["--region", "europe-west1", "--environment", "prod"]


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    bridge.register(app)
    return app


def call(app: typer.Typer, *arguments: str):
    result = CliRunner().invoke(app, ["bridge", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_sound_and_passes_its_own_tests(app, path):
    assert call(app, "--check", str(path)).exit_code == 0
    tested = 'test "' in path.read_text()
    assert call(app, "test", str(path)).exit_code == (0 if tested else 1)


def test_a_file_is_taken_before_or_after_its_options_or_after_run(app):
    for arguments in (["--plan", ROUTER, *HERE], [ROUTER, "--plan", *HERE], ["run", ROUTER, "--plan", *HERE]):
        assert "bridge.events.prod" in call(app, *arguments).stdout


def test_check_prints_every_finding_and_exits_with_78(app, tmp_path):
    path = tmp_path / "bad.hcl"
    path.write_text('endpoint "kafka" "a" { topc = "x" }\npipelin "p" {}\n')
    result = call(app, "--check", str(path))
    assert result.exit_code == 78
    assert f"{path}:1:24: error:" in result.stdout
    assert f"{path}:2:1: error: unknown block 'pipelin'; did you mean 'pipeline'" in result.stdout
    found = json.loads(call(app, "--check", "--json", str(path)).stdout)["findings"]
    assert {each["severity"] for each in found} == {"error"}


def test_a_bad_file_is_not_run(app, tmp_path):
    path = tmp_path / "bad.hcl"
    path.write_text("x = 1\n")
    with pytest.raises(ConfigurationError, match="outside of any block"):
        call(app, str(path), *HERE)


def test_plan_says_who_shares_and_what_is_left_to_others(app):
    found = json.loads(call(app, ROUTER, "--plan", "--json", *HERE).stdout)
    assert found["consumers"][0]["pipelines"] == ["events"]
    found = json.loads(call(app, ROUTER, "--plan", "--json", "--region", "x", "--environment", "prod").stdout)
    assert found["consumers"] == []
    assert found["left"] == {"events": "its source events is in europe-west1/prod"}


def explained(app, tmp_path, monkeypatch, message: object) -> dict:
    (tmp_path / "blocked.json").write_text('["17"]')
    (tmp_path / "message.json").write_text(json.dumps(message))
    monkeypatch.setenv("BLOCKED_CUSTOMERS", str(tmp_path / "blocked.json"))
    return json.loads(call(app, ROUTER, "--json", "--explain", str(tmp_path / "message.json")).stdout)


def test_explain_says_which_rule_matched_and_where_the_message_goes(app, tmp_path, monkeypatch):
    found = explained(app, tmp_path, monkeypatch, {"value": {"event": "order", "customer": 5, "amount": 1}})
    (pipeline,) = found["pipelines"]
    assert [(step["stage"], step["did"]) for step in pipeline["steps"]] == [
        ("filter", "kept"),
        ("route", "kept"),
        ("set", "changed"),
    ]
    assert "rule 1 (payload.event ==" in pipeline["steps"][1]["why"]
    assert pipeline["sent"][0]["sink"] == "orders"
    assert pipeline["sent"][0]["untouched"]
    assert pipeline["decodes"] == 1


def test_explain_shows_drops_refusals_tombstones_and_messages_that_nobody_reads(app, tmp_path, monkeypatch):
    dropped = explained(app, tmp_path, monkeypatch, {"value": {"event": "page.view", "customer": 17}})["pipelines"][0]
    assert (dropped["steps"][-1]["did"], dropped["sent"]) == ("dropped", [])
    refused = explained(app, tmp_path, monkeypatch, {"value": "{"})["pipelines"][0]
    assert "not JSON" in refused["refused"][0]["reason"]
    assert explained(app, tmp_path, monkeypatch, {"value": None})["pipelines"][0]["steps"][0]["stage"] == "tombstones"
    early = explained(app, tmp_path, monkeypatch, {"value": "{", "headers": {"test": "1"}})["pipelines"][0]
    assert early["decodes"] == 0
    assert explained(app, tmp_path, monkeypatch, {"topic": "other", "value": {}})["pipelines"] == []


def test_a_message_that_is_none_is_told_with_its_shape(app, tmp_path):
    path = tmp_path / "m.json"
    for text in ("{", "[]", '{"body": 1}', '{"headers": []}', '{"headers": [1]}'):
        path.write_text(text)
        if text == '{"headers": []}':
            continue
        with pytest.raises(LoaderError, match="must be an object such as"):
            call(app, ROUTER, "--explain", str(path))


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ('sink = "views"', "goes to orders, expected views"),
        ('value = { event = "order", amount = 2 }', '-  "amount": 2,'),
        ('value = "x"', "expected 'x'"),
        ('headers = { table = "x" }', "header table is 'orders', expected 'x'"),
        ('headers = { none = "x" }', "header none is missing"),
        ('key = "x"', "key is null, expected 'x'"),
        ('refused = "x"', "but it goes to orders"),
    ],
)
def test_a_test_that_fails_says_what_differs_and_exits_with_1(app, tmp_path, expect, says):
    path = tmp_path / "t.hcl"
    block = 'test "t" {\n pipeline = "events"\n input {\n value = { event = "order", amount = 1 }\n }\n expect {\n'
    path.write_text(Path(ROUTER).read_text() + block + expect + "\n }\n}\n")
    result = call(app, "test", str(path))
    assert result.exit_code == 1
    assert "FAIL t " in result.stdout
    assert says in result.stdout


def test_messages_that_are_missing_or_too_many_fail_a_test(app, tmp_path):
    path = tmp_path / "t.hcl"
    block = 'test "t" {\n pipeline = "events"\n input {\n value = { event = "%s", amount = 1 }\n }\n %s }\n'
    path.write_text(Path(ROUTER).read_text() + block % ("order", ""))
    assert "not expected: it goes to orders" in call(app, "test", str(path)).stdout
    path.write_text(Path(ROUTER).read_text() + block % ("none", 'expect {\n sink = "views"\n }\n'))
    assert "but nothing more came" in call(app, "test", str(path)).stdout


def test_a_bool_is_not_taken_for_a_number_by_a_test(app, tmp_path):
    path = tmp_path / "t.hcl"
    block = 'test "t" {\n pipeline = "events"\n input {\n value = { event = "order", amount = 1 }\n }\n'
    path.write_text(Path(ROUTER).read_text() + block + 'expect {\n value = { event = "order", amount = true }\n }\n}\n')
    assert call(app, "test", str(path)).exit_code == 1


def test_a_file_without_a_test_does_not_pass_for_a_tested_one(app, tmp_path):
    path = tmp_path / "t.hcl"
    path.write_text(Path(ROUTER).read_text().partition('test "')[0])
    result = call(app, "test", str(path))
    assert (result.exit_code, result.stderr) == (1, f"{path} has no test block\n")
    result = call(app, "test", str(path), "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, {"tests": []})


def test_the_options_that_only_print_exclude_each_other(app):
    assert call(app, ROUTER, "--check", "--plan").exit_code == 2


def test_without_the_extra_one_line_says_what_to_install(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "hcl2", None)
    with pytest.raises(ConfigurationError, match=r"pubsub-postgres-loader\[bridge\]") as raised:
        load_configuration(ROUTER)
    assert "\n" not in str(raised.value)


def test_the_reference_beside_the_bridge_is_the_one_that_the_declarations_say(app):
    document = Path(package.__file__).parent / "reference.md"
    assert document.read_text() == call(app, "reference").stdout, "loader bridge reference > loader/bridge/reference.md"


METRICS = """# TYPE bridge_messages_out_total counter
bridge_messages_out_total{pipeline="p",sink="a"} %d
bridge_messages_out_total{pipeline="p",sink="b"} 5
# TYPE bridge_in_flight gauge
bridge_in_flight{pipeline="p"} 7
# TYPE bridge_commit_age_seconds gauge
bridge_commit_age_seconds{pipeline="p",sink="a"} 1.5
bridge_commit_age_seconds{pipeline="p",sink="b"} 0.5
# TYPE loader_other gauge
loader_other{pipeline="p"} 7
"""


def test_top_shows_rates_of_counters_sums_of_series_and_the_greatest_age():
    before, now = read(METRICS % 100, 10.0), read(METRICS % 300, 12.0)
    columns, rows = table(before, now)
    assert dict(zip(columns, rows[0], strict=True)) == {
        "pipeline": "p",
        "commit age seconds": "1.50",
        "in flight": "7",
        "out/s": "100",
    }
    assert dict(zip(*(table(None, now)[0], table(None, now)[1][0]), strict=True))["out"] == "305"
    assert dict(zip(columns, table(now, read(METRICS % 1, 13.0))[1][0], strict=True))["out/s"] == "6"


def test_top_names_the_address_when_nothing_answers(app):
    with pytest.raises(LoaderError, match="no metrics at http://127"):
        call(app, "top", "--once", "--url", "http://127.0.0.1:1/metrics")


@pytest.fixture
def somebody_else() -> Iterator[str]:
    """The address of metrics that are no bridge's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"# TYPE loader_up gauge\nloader_up 1\n")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


def test_top_says_that_what_answers_is_no_bridge(app, somebody_else):
    with pytest.raises(LoaderError, match="no bridge"):
        call(app, "top", "--once", "--url", somebody_else)


def test_top_shows_an_empty_table_for_a_bridge_without_pipelines():
    assert read(render([], {}, {}).decode(), 1.0).values == {}


def test_a_finding_of_a_block_that_makes_several_pipelines_is_told_once(app, tmp_path):
    ends = "".join(
        f'endpoint "file" "{name}" {{\n  path = "{name}"\n  region = "r"\n  environment = "e"\n}}\n' for name in "abc"
    )
    path = tmp_path / "bad.hcl"
    stage = 'stage "filter" { when = "lookup.x[payload.i] == 1" }'
    path.write_text(f'{ends}replicate "r" {{\n  source = "a"\n  to = ["b", "c"]\n  {stage}\n}}\n')
    found = json.loads(call(app, "--check", "--json", str(path)).stdout)["findings"]
    texts = [each["text"] for each in found]
    assert sum("refused for good" in text for text in texts) == 1
    assert sum("lookup 'x' is not there" in text for text in texts) == 1
    with pytest.raises(ConfigurationError) as error:
        call(app, str(path), *HERE)
    assert str(error.value).count("lookup 'x'") == 1


def test_the_message_beside_the_example_is_explained_from_anywhere(app, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLOCKED_CUSTOMERS", raising=False)
    message = str(Path(ROUTER).with_name("order.json"))
    assert "→ orders" in call(app, ROUTER, "--explain", message).stdout
    # What is in the working directory comes first.
    (tmp_path / "blocked.json").write_text('["5"]')
    assert "goes nowhere" in call(app, ROUTER, "--explain", message).stdout
    copy = tmp_path / "elsewhere" / "router.hcl"
    copy.parent.mkdir()
    copy.write_text(Path(ROUTER).read_text())
    (tmp_path / "blocked.json").unlink()
    with pytest.raises(LoaderError, match=r"neither in the working directory .* nor beside the bridge's file"):
        call(app, str(copy), "--explain", message)
