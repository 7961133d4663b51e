from __future__ import annotations

import pytest
from pydantic import ValidationError

from loader.errors import ConfigurationError
from loader.settings.contract import SchemaContract, parse_contract
from loader.settings.declaration import SECRETS, Settings
from loader.settings.limits import contradictions, require_consistent, require_subscription
from loader.settings.sizes import format_size, parse_size


def test_the_defaults_are_those_of_the_reference():
    settings = Settings()
    assert (settings.dataset, settings.default_table) == ("events", "unknown")
    assert (settings.window_seconds, settings.max_bundle_messages, settings.max_bundle_bytes) == (5.0, 20_000, 16 << 20)
    assert (settings.outstanding_messages, settings.outstanding_bytes) == (60_000, 24 << 20)
    assert (settings.max_columns, settings.max_tables, settings.max_keys) == (400, 500, 5_000)
    assert (settings.max_message_bytes, settings.max_array_elements) == (10 << 20, 10_000)
    assert (settings.shutdown_seconds, settings.http_host, settings.http_port) == (20.0, "127.0.0.1", 8080)
    assert contradictions(settings) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [("16MiB", 16 << 20), (" 10 MB ", 10_000_000), ("1.5k", 1536), ("7", 7), (7, 7), ("2GiB", 2 << 30), ("9b", 9)],
)
def test_a_size_is_read_as_people_write_it(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.0001k", "10 XB", "1e6", True, 1.5, None, "١MB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="must be"):
        parse_size(text)


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 16 << 20, (16 << 20) + 1, 3 << 30])
def test_a_size_survives_being_shown(size):
    assert parse_size(format_size(size)) == size


def test_a_bare_word_is_the_contract_of_all_three():
    assert parse_contract("freeze") == SchemaContract("freeze", "freeze", "freeze")


def test_what_a_contract_does_not_name_evolves():
    contract = parse_contract("columns=freeze, data_type=discard_value")
    assert contract.as_dict() == {"tables": "evolve", "columns": "freeze", "data_type": "discard_value"}
    assert not contract.evolves_all
    assert parse_contract(str(contract)) == contract


@pytest.mark.parametrize(
    "text", ["frozen", "column=freeze", "columns=", "columns=freeze,columns=evolve", "columns=freeze,x"]
)
def test_a_contract_with_an_unknown_word_is_refused(text):
    with pytest.raises(ValidationError, match=r"none of|named twice|not of the form"):
        Settings(schema_contract=text)


@pytest.mark.parametrize(("given", "read"), [("auto", "auto"), (" AUTO", "auto"), ("4", 4), (1, 1)])
def test_processes_is_a_number_or_auto(given, read):
    assert Settings(processes=given).processes == read


@pytest.mark.parametrize(
    "wrong",
    [
        {"processes": "0"},
        {"processes": "many"},
        {"subscription": "events-loader"},
        {"subscription": "projects/p/topics/t"},
        {"dead_letter_topic": "projects/p/subscriptions/s"},
        {"dataset": "pg_mine"},
        {"dataset": "100%"},
        {"dataset": "é" * 32},
        {"dataset": ""},
        {"window_seconds": "nan"},
        {"window_seconds": 0},
        {"max_columns": 1600},
        {"http_port": 65536},
        {"log_to": "syslog"},
        {"no_such_setting": 1},
    ],
)
def test_a_value_out_of_its_range_is_refused(wrong):
    with pytest.raises(ValidationError):
        Settings(**wrong)


def test_secrets_are_named_and_never_shown():
    assert set(SECRETS) == {"database_url", "http_token"}
    settings = Settings(database_url="postgresql://u:hunter2@h/d", http_token="hunter2")
    assert "hunter2" not in repr(settings) + str(settings) + str(settings.model_dump())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"max_outstanding_messages": 100}, "LOADER_MAX_OUTSTANDING_MESSAGES=100"),
        ({"max_outstanding_bytes": "1MiB"}, "LOADER_MAX_OUTSTANDING_BYTES=1048576"),
        ({"max_bundle_messages": 1, "streams": 4}, "LOADER_STREAMS=4"),
        ({"window_seconds": 60}, "LOADER_WINDOW_SECONDS=60"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(settings, named):
    with pytest.raises(ConfigurationError, match=named):
        require_consistent(Settings(**settings))


def test_every_contradiction_is_told_at_once():
    found = contradictions(Settings(max_outstanding_messages=1, max_outstanding_bytes=1, window_seconds=600, streams=2))
    assert len(found) == 4


def test_a_bundle_that_just_fits_is_fine():
    require_consistent(Settings(max_outstanding_messages=20_000, max_outstanding_bytes="16MiB", window_seconds=59.9))


def test_a_missing_subscription_is_named():
    with pytest.raises(ConfigurationError, match="LOADER_SUBSCRIPTION is not set: set it to projects/"):
        require_subscription(Settings())
