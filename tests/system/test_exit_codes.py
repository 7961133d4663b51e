"""How a run that cannot begin ends: 78 for settings, 1 for the rest, with one clear line and no secret."""

from __future__ import annotations

import pytest

from loader.local.ports import free_port

PASSWORD = "Zw3rgp1ns?her:@/%"
QUOTED = "Zw3rgp1ns%3Fher%3A%40%2F%25"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"subscription": None}, "LOADER_SUBSCRIPTION"),
        ({"subscription": "events"}, "projects/"),
        ({"window_seconds": "soon"}, "LOADER_WINDOW_SECONDS"),
        ({"max_bundle_bytes": "16 apples"}, "LOADER_MAX_BUNDLE_BYTES"),
        ({"windw_seconds": 5}, "LOADER_WINDOW_SECONDS"),
        ({"max_outstanding_messages": 10}, "LOADER_MAX_OUTSTANDING_MESSAGES"),
        ({"database_url": "postgres:/wrong"}, "LOADER_DATABASE_URL"),
        ({"schema_contract": "columns=freez"}, "LOADER_SCHEMA_CONTRACT"),
    ],
)
def test_a_wrong_setting_ends_with_78_and_names_it(command, settings, said):
    code, output = command("run", **settings)
    assert code == 78, output
    assert said in output
    assert len(output.splitlines()) == 1, output
    assert "Traceback" not in output


def test_a_missing_subscription_ends_with_1_and_names_it(command, topic):
    missing = topic.subscription + "-missing"
    code, output = command("run", subscription=missing)
    assert code == 1, output
    assert missing in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://loader:{QUOTED}@nohost.invalid/events",
        f"postgresql://loader:{QUOTED}@127.0.0.1:1/events?bogus=1",
        f"postgresql://loader:{PASSWORD}@127.0.0.1:port/events",
        f"postgresql://loader:{PASSWORD}",
        f"host=127.0.0.1 port=1 password='{PASSWORD}' user=loader nonsense=1",
        f"host=127.0.0.1 password='{PASSWORD}",
    ],
)
def test_no_command_shows_the_password(command, url):
    token = "T0ken-of-gr3at-worth"
    for arguments in (["settings"], ["check"], ["run", "--help"]):
        _code, output = command(*arguments, database_url=url, http_token=token, log_level="DEBUG")
        for secret in (PASSWORD, QUOTED, "Zw3rgp1ns", token):
            assert secret not in output


def test_no_log_line_shows_the_password_or_the_token(worker, database, topic, orders, postgres, http, until):
    """Refused logins, a syntax error of somebody's trigger that quotes the secret, and a cut connection."""
    topic.publish(orders(20))
    secret, token = "Zw3rgp1nscher-123", "T0ken-of-gr3at-worth"
    role = f"role_{database.name}"
    database.execute(f"create role {role} login password 'other'", f"grant all on database {database.name} to {role}")
    url = f"postgresql://{role}:{secret}@127.0.0.1:{postgres.port}/{database.name}"
    port = free_port()
    one = worker(database_url=url, http_token=token, log_level="DEBUG", http_port=port)
    one.until_said("password authentication failed")
    database.execute(
        f"alter role {role} password '{secret}'",
        "create schema events",
        f"alter schema events owner to {role}",
    )
    database.until_count("order", 20)
    database.execute(
        "create function public.tell() returns trigger language plpgsql as"
        f" $$ begin raise exception 'login {url} bearer {token}' using errcode = '53100'; end $$",
        'create trigger tell before insert on events."order" for each row execute function public.tell()',
    )
    topic.publish(orders(20, start=20))
    until(lambda: "login " in http(port, "/readyz")[1], lambda: f"the refusal is shown: {http(port, '/readyz')}")
    shown = http(port, "/readyz")[1] + http(port, "/metrics")[1]
    assert secret not in shown
    assert token not in shown
    assert one.stop()[0] == 0
    assert secret not in one.output
    assert token not in one.output
    database.execute(f"drop owned by {role} cascade", f"drop role {role}")
