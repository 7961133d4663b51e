"""Secrets of a bridge's file stay out of its log, those that come with a reload as well."""

from __future__ import annotations

import json
import logging

import pytest

from loader.bridge.config.instance import Instance
from loader.bridge.config.load import parse_configuration
from loader.bridge.config.reference import secrets
from loader.bridge.engine import run as engine
from loader.errors import ConfigurationError

FIRST, SECOND, THIRD = "first-" + "passw0rd", "second-" + "passw0rd", "third-" + "passw0rd"
FILE = """
endpoint "file" "in" {
  region = "eu"
  environment = "test"
  path = "/none"
}
endpoint "http" "out" {
  region = "eu"
  environment = "test"
  url = "http://127.0.0.1:1/"
  headers = { %s }
}
pipeline "p" {
  source = "in"
  sinks = ["out"]
  on_refusal = "stop"
}
"""


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]


def test_a_reload_hides_new_secrets_and_new_values_of_old_ones(monkeypatch, capsys, tmp_path):
    kept = tmp_path / "secret"
    kept.write_text(FIRST)
    monkeypatch.setenv("LATER", THIRD)
    before = parse_configuration(FILE % f'A = secret("file:{kept}")')
    after = parse_configuration(FILE % f'A = secret("file:{kept}"), B = "Basic ${{secret("env:LATER")}}"')
    log = logging.getLogger("loader.bridge.test")

    def running(configuration, instance, reload, settings, token):
        log.warning("1 %s", FIRST)
        kept.write_text(SECOND)
        assert reload() is after
        log.warning("2 %s %s %s", FIRST, SECOND, THIRD)
        return 0

    monkeypatch.setattr(engine, "_run", running)
    assert engine.run(before, Instance("eu", "test", "a test"), reload=lambda: after) == 0
    assert said(capsys) == ["1 ***", "2 *** *** ***"]


def test_a_secret_within_a_text_is_one_by_itself_and_one_that_is_not_here_is_none():
    options = parse_configuration(FILE % 'A = "u:${secret("env:P")}@h", B = secret("env:NONE"), C = env("P")').endpoints
    assert secrets(options["out"].options, {"P": FIRST}) == [FIRST, f"u:{FIRST}@h"]


def test_a_reload_restarts_what_uses_a_secret_whose_value_is_another_and_nothing_else(tmp_path):
    kept = tmp_path / "secret"
    kept.write_text(FIRST)
    other = FILE.replace('"in"', '"in2"').replace('"out"', '"out2"').replace('pipeline "p"', 'pipeline "p2"')
    text = (FILE % f'A = "Bearer ${{secret("file:{kept}")}}"') + other % ""
    bridge = engine.Engine(Instance("eu", "test", "a test"))

    def apply():
        bridge.apply(parse_configuration(text), 1.0)
        return {running.flows[0].name: running for running in bridge.running.values()}

    try:
        first = apply()
        assert apply() == first
        kept.write_text(SECOND)
        second = apply()
        assert second["p"] is not first["p"]
        assert second["p2"] is first["p2"]
        kept.unlink()
        with pytest.raises(ConfigurationError, match="cannot be read"):
            apply()
        assert list(bridge.running.values()) == list(second.values()), "the one before goes on"
        kept.write_text(SECOND)
        assert apply() == second
    finally:
        bridge.stop(1.0)
