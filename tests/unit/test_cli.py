from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from loader import __version__
from loader.checks import survey
from loader.checks.finding import Finding
from loader.commands import check, output
from loader.commands.output import print_json, print_table, printable
from loader.settings import reference
from loader.settings.environment import load_settings

README = Path(__file__).parents[2] / "README.md"


def loader(*arguments, stdin="", **environ):
    return subprocess.run(
        [sys.executable, "-m", "loader", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        timeout=60,
    )


def test_the_version_is_printed():
    done = loader("--version")
    assert (done.returncode, done.stdout) == (0, f"loader {__version__}\n")


def test_help_imports_none_of_the_heavy_libraries():
    code = (
        "import sys\nsys.argv = ['loader', '--help']\nfrom loader.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'dlt', 'grpc', 'psycopg', 'psycopg2', 'google.pubsub_v1', 'pydantic', 'orjson'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "settings" in done.stdout


@pytest.mark.parametrize("name", ["LOADER_DATSET", "LOADER_MAX_COLUMNS"])
def test_a_wrong_setting_is_one_line_and_exit_78(name):
    done = loader("settings", **{name: "x"})
    assert done.returncode == 78
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert done.stdout == ""


def test_wrong_usage_is_exit_2():
    assert loader("no-such-verb").returncode == 2


def test_settings_shows_that_a_secret_is_set_and_not_what_it_is():
    done = loader("settings", "--json", LOADER_HTTP_TOKEN="hunter2", LOADER_DATABASE_URL="postgresql://u:hunter2@h/d")
    entries = {entry["name"]: entry for entry in json.loads(done.stdout)["settings"]}
    assert entries["LOADER_HTTP_TOKEN"]["value"] == entries["LOADER_DATABASE_URL"]["value"] == "set"
    assert entries["LOADER_MAX_BUNDLE_BYTES"]["value"] == "16MiB"
    assert "hunter2" not in done.stdout + done.stderr


def test_check_reports_a_wrong_setting_as_json_too():
    done = loader("check", "--json", LOADER_WINDOW_SECONDS="60")
    assert done.returncode == 78
    document = json.loads(done.stdout)
    assert document["ok"] is False
    assert {"settings", "subscription", "database"} == {finding["area"] for finding in document["findings"]}
    assert any("LOADER_WINDOW_SECONDS=60" in finding["found"] for finding in document["findings"])


def test_a_reader_that_leaves_early_is_met_with_silence():
    process = subprocess.Popen(
        [sys.executable, "-m", "loader", "settings"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate(timeout=60)
    assert error == ""


def test_the_settings_of_the_readme_are_current():
    text = README.read_text(encoding="utf-8")
    assert reference.renew(text) == text, "run: loader settings --write README.md"


def test_only_what_is_between_the_markers_is_renewed():
    text = f"before\n{reference.BEGIN}\nold\n{reference.END}\nafter\n"
    assert reference.renew(text) == f"before\n{reference.BEGIN}\n{reference.markdown()}{reference.END}\nafter\n"
    with pytest.raises(ValueError, match="no lines"):
        reference.renew("no markers")


def test_a_table_is_plain_where_there_is_no_terminal(capsys):
    print_table(["A", "LONG"], [("x", None), ("\x1b[31mred", 2)], title="T")
    assert capsys.readouterr().out == "T\nA            LONG\nx\n\\x1b[31mred  2\n"


def test_a_narrow_terminal_never_folds_a_letter_id(capsys, monkeypatch):
    monkeypatch.setattr(output, "terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_table(["LETTER", "DETAIL"], [("0X0uAfzCwYHjzlR/yL2R", "word " * 60)])
    assert "0X0uAfzCwYHjzlR/yL2R  word" in capsys.readouterr().out


def test_on_a_terminal_check_gives_what_to_do_on_one_line(capsys, monkeypatch):
    advice = f"GRANT ALL ON {'x' * 200}"
    monkeypatch.setattr(survey, "survey", lambda read: [Finding("database", "rights", "fault", "may not", advice)])
    monkeypatch.setattr(output, "terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(typer.Exit):
        check.check()
    assert f"\nWHAT TO DO about database, rights:\n{advice}\n" in capsys.readouterr().out


def test_publishing_to_an_emulator_that_is_down_does_not_advise_another_topic():
    done = loader(
        "publish",
        "-",
        stdin="{}\n",
        PUBSUB_EMULATOR_HOST="127.0.0.1:1",
        LOADER_SUBSCRIPTION="projects/p/subscriptions/s",
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "loader local up" in done.stderr
    assert "--topic" not in done.stderr


def test_values_cannot_steer_the_terminal():
    assert printable("a\r\x1b]0;x\x07\u202e\x9b\ud800é") == "a\\x0d\\x1b]0;x\\x07\\u202e\\x9b\\ud800é"


def test_a_document_is_printed_whatever_it_holds(capsysbinary):
    print_json({"big": 2**70, "lone": "\ud800", "path": Path("x")})
    document = json.loads(capsysbinary.readouterr().out)
    assert document == {"big": 2**70, "lone": "\ud800", "path": "x"}


def test_the_readme_lists_every_metric() -> None:
    from loader.observe import reference as metrics

    text = README.read_text(encoding="utf-8")
    assert metrics.renew(text) == text, "run: loader settings --write README.md"


@pytest.mark.parametrize("command", [["prune"], ["dead-letters", "purge"]])
def test_what_is_older_than_a_time_to_come_is_not_thrown_away(command):
    done = loader(*command, "--older-than", "2999-01-01", "--yes")
    assert done.returncode == 2
    assert "in the future" in done.stderr


def test_the_settings_file_of_the_readme_is_read_as_it_is_written(tmp_path):
    [text] = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "loader.toml"
    path.write_text(text)
    settings, warnings = load_settings(path, {})
    assert (settings.json_keys, settings.max_message_bytes, warnings) == ("path,order.meta", 10 * 1024 * 1024, [])
    assert settings.subscription == "projects/my-project/subscriptions/events-loader"
