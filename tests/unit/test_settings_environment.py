from __future__ import annotations

import traceback

import pytest

from loader.database.conninfo import parse_conninfo
from loader.errors import ConfigurationError
from loader.settings.environment import load_settings

SUBSCRIPTION = "projects/p/subscriptions/s"


def read(path=None, **environ):
    return load_settings(path, environ)[0]


def test_a_variable_wins_over_its_alias_and_over_the_file(tmp_path):
    path = tmp_path / "loader.toml"
    path.write_text('dataset = "file"\ndefault_table = "file"\ntable_prefix = "file"\nmax_columns = 50\n')
    settings = read(path, LOADER_DATASET="own", DATASET_NAME="alias", TABLE_NAME_PREFIX="alias")
    assert (settings.dataset, settings.table_prefix, settings.default_table) == ("own", "alias", "file")
    assert settings.max_columns == 50


def test_the_file_may_be_named_by_a_variable(tmp_path):
    path = tmp_path / "loader.toml"
    path.write_text('[schema_contract]\ncolumns = "freeze"\n')
    assert read(LOADER_CONFIG=str(path)).schema_contract.columns == "freeze"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LOADER_WINDOW_SECONDS", "abc", "LOADER_WINDOW_SECONDS=abc: must be a number"),
        ("LOADER_MAX_COLUMNS", "many", "LOADER_MAX_COLUMNS=many: must be a whole number"),
        ("LOADER_KEEP_RAW", "perhaps", "LOADER_KEEP_RAW=perhaps: must be true or false"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_in_our_words(name, value, said):
    with pytest.raises(ConfigurationError) as caught:
        read(**{name: value})
    assert str(caught.value) == said


def test_an_empty_variable_counts_as_unset():
    settings = read(LOADER_HTTP_PORT="", LOADER_SUBSCRIPTION=" ", DATASET_NAME="", DESTINATION_NAME="")
    assert (settings.http_port, settings.subscription, settings.dataset) == (8080, None, "events")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("LOADER_DATSET", "LOADER_DATASET"),
        ("LOADER_SUBSCRIPTIONS", "LOADER_SUBSCRIPTION"),
        ("LOADER_WINDOW_SECS", "LOADER_WINDOW_SECONDS"),
        ("LOADER_dataset", "LOADER_DATASET"),
        ("LOADER_HTTP_PROT", "LOADER_HTTP_PORT"),
        ("LOADER_HTP_PORT", "LOADER_HTTP_PORT"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(ConfigurationError, match=f"{name} is not a setting; did you mean {nearest}"):
        read(**{name: "1"})


def test_a_name_like_none_of_ours_is_refused_without_a_guess():
    with pytest.raises(ConfigurationError, match="LOADER_QQQQQQ is not a setting; `loader settings` lists them"):
        read(LOADER_QQQQQQ="1")


INJECTED = {
    "LOADER_PORT": "tcp://10.0.0.7:80",
    "LOADER_SERVICE_HOST": "10.0.0.7",
    "LOADER_SERVICE_PORT": "80",
    "LOADER_SERVICE_PORT_METRICS": "8080",
    "LOADER_PORT_80_TCP": "tcp://10.0.0.7:80",
    "LOADER_PORT_80_TCP_PROTO": "tcp",
    "LOADER_PORT_53_UDP_ADDR": "10.0.0.7",
    "LOADER_METRICS_SERVICE_HOST": "10.0.0.7",
    "LOADER_METRICS_SERVICE_PORT_HTTP": "80",
    "LOADER_METRICS_PORT": "tcp://10.0.0.7:80",
    "LOADER_METRICS_PORT_80_TCP_PORT": "80",
    "LOADER_80_TCP": "tcp://10.0.0.7:80",
    "LOADER_NAME": "/web/loader",
    "LOADER_ENV_PATH": "/bin",
    "LOADER_1_NAME": "/web/loader_1",
}


@pytest.mark.parametrize("name", INJECTED)
def test_what_is_injected_for_a_service_of_that_name_is_let_be(name):
    assert read(**{name: INJECTED[name]}) == read()


def test_the_port_of_a_service_called_loader_http_is_not_taken_for_ours():
    assert read(LOADER_HTTP_PORT="tcp://10.0.0.7:80").http_port == 8080
    assert read(LOADER_HTTP_PORT="9000").http_port == 9000


def test_an_unknown_key_of_the_file_is_refused_with_the_nearest(tmp_path):
    path = tmp_path / "loader.toml"
    path.write_text("window_second = 1\n")
    with pytest.raises(
        ConfigurationError, match=r"window_second in .*loader.toml is not a setting; did you mean window_seconds"
    ):
        read(path)


@pytest.mark.parametrize(
    ("text", "said"), [(b"a = [", "is not TOML"), (b"\xff", "is not UTF-8"), (None, "cannot read")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, text, said):
    path = tmp_path / "loader.toml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_wrong_value_is_told_with_its_name_and_value_in_one_line():
    with pytest.raises(ConfigurationError) as caught:
        read(LOADER_MAX_COLUMNS="lots", LOADER_PROCESSES="none")
    text = str(caught.value)
    assert "LOADER_MAX_COLUMNS=lots: must be a whole number" in text
    assert "LOADER_PROCESSES=none: must be a number from 1 to 256, or auto" in text
    assert "\n" not in text


def test_a_wrong_value_of_an_alias_is_told_under_the_name_that_was_set():
    with pytest.raises(ConfigurationError, match="WINDOW_SIZE_SECS=soon"):
        read(WINDOW_SIZE_SECS="soon")


def test_no_secret_is_in_an_error_or_its_traceback(tmp_path):
    path = tmp_path / "loader.toml"
    path.write_text("database_url = 1234567\n")
    with pytest.raises(ConfigurationError) as caught:
        read(path, LOADER_HTTP_TOKEN="hunter" + "2", LOADER_MAX_COLUMNS="x")
    shown = "".join(traceback.format_exception(caught.value))
    assert "database_url in" in shown
    assert "hunter2" not in shown
    assert "1234567" not in shown


def test_the_reference_workers_names_are_aliases():
    settings, warnings = load_settings(
        None,
        {
            "DESTINATION_NAME": "postgres",
            "DESTINATION__POSTGRES__CREDENTIALS": "postgresql://user:password@10.109.144.1:5432/db",
            "DATASET_NAME": "analytics",
            "MAX_BUNDLE_SIZE": "5000",
            "PUBSUB_INPUT_SUBSCRIPTION": SUBSCRIPTION,
            "TABLE_NAME_DATA_KEY": "eventName",
            "TABLE_NAME_PREFIX": "raw_events_",
            "WINDOW_SIZE_SECS": "5",
        },
    )
    assert warnings == []
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://user:password@10.109.144.1:5432/db"
    assert (settings.subscription, settings.dataset, settings.max_bundle_messages) == (SUBSCRIPTION, "analytics", 5000)
    assert (settings.table_key, settings.table_prefix, settings.window_seconds) == ("eventName", "raw_events_", 5.0)


def test_credentials_in_parts_keep_every_character_of_the_password():
    password = "p@ss:w/rd% '\\\" =&?#é "
    prefix = "DESTINATION__POSTGRES__CREDENTIALS__"
    settings = read(
        **{
            prefix + "HOST": " db.internal ",
            prefix + "PORT": "5433",
            prefix + "DATABASE": "app",
            prefix + "USERNAME": "o'brien",
            prefix + "PASSWORD": password,
            prefix + "QUERY": '{"sslmode": "require"}',
        }
    )
    assert settings.database_url is not None
    assert parse_conninfo(settings.database_url.get_secret_value(), {}).params == {
        "host": "db.internal",
        "port": "5433",
        "dbname": "app",
        "user": "o'brien",
        "password": password,
        "sslmode": "require",
    }


def test_an_unknown_part_of_the_credentials_is_refused():
    with pytest.raises(ConfigurationError, match="CREDENTIALS__HOSTNAME is not a part") as caught:
        read(DESTINATION__POSTGRES__CREDENTIALS__HOSTNAME="hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["bigquery", "Postgres2", "dlt.destinations.duckdb"])
def test_another_destination_than_postgres_is_refused(name):
    with pytest.raises(ConfigurationError, match="DESTINATION_NAME="):
        read(DESTINATION_NAME=name)


def test_names_without_a_use_here_are_ignored_with_one_warning():
    settings, warnings = load_settings(None, {"PUBSUB_INPUT_TOPIC": "t", "LOAD__DELETE_COMPLETED_JOBS": "true"})
    assert settings == read()
    assert len(warnings) == 1
    assert "PUBSUB_INPUT_TOPIC" in warnings[0]
    assert "LOAD__DELETE_COMPLETED_JOBS" in warnings[0]
