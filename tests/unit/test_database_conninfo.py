from __future__ import annotations

import traceback
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from loader.database.conninfo import parse_conninfo, render_conninfo
from loader.errors import ConfigurationError

PASSWORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
SPECIALS = st.text("@:/%?#&=[]+ '\"\\$!~;,x1é", min_size=1, max_size=12)


def params(text, **environ):
    return dict(parse_conninfo(text, environ).params)


@pytest.mark.parametrize(
    "password",
    [
        "p@ss:w/rd%",
        "@",
        "a@b@c",
        "12/34",
        "#?&=",
        "%",
        "100%25%",
        "[x]",
        "a b",
        "é@",
        "%zz",
        ":::",
    ],
)
def test_a_password_pasted_into_a_url_is_taken_to_the_letter(password):
    assert params(f"postgresql://u:{password}@host/db") == {
        "user": "u",
        "password": password,
        "host": "host",
        "dbname": "db",
    }


@given(PASSWORDS | SPECIALS)
def test_an_escaped_password_is_always_read(password):
    url = f"postgresql://u:{quote(password, safe='')}@host:5432/db?sslmode=disable"
    assert params(url)["password"] == password


@given(SPECIALS)
def test_an_unescaped_password_is_read_unless_it_is_an_escaped_one(password):
    read = params(f"postgres://u:{password}@host:5432/db?sslmode=disable")
    assert (read["host"], read["port"], read["dbname"], read["user"]) == ("host", "5432", "db", "u")
    assert read.get("password") in (password, unquote(password))
    if unquote(password) == password:
        assert read["password"] == password


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql://localhost",
        "postgresql://localhost:5433",
        "postgresql://localhost/mydb",
        "postgresql://user@localhost",
        "postgresql://user:secret@localhost",
        "postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp",
        "postgresql://host1:123,host2:456/somedb?target_session_attrs=any&application_name=myapp",
        "postgresql:///mydb?host=localhost&port=5433",
        "postgresql://[2001:db8::1234]/database",
        "postgresql://%2Fvar%2Flib%2Fpostgresql/dbname",
        "postgresql://u:p@/db?host=/cloudsql/project:region:instance",
        "postgresql://u:p%40s%25@h/d%2Fb?user=a@b&options=-c%20geqo%3Doff",
        "postgresql://h/db?password=p@ss/w",
        "postgresql://u:p:q@h/db?ssl=true",
    ],
)
def test_a_url_that_libpq_reads_keeps_libpqs_meaning(url):
    expected = conninfo_to_dict(url)
    assert params(url, PGHOST="x") == {key: str(value) for key, value in expected.items()}


def test_a_driver_in_the_scheme_and_blanks_around_the_url_are_let_be():
    assert params(" postgresql+psycopg2://u:p@h/d\n") == {"user": "u", "password": "p", "host": "h", "dbname": "d"}


def test_an_iam_user_may_stand_unescaped():
    assert params("postgresql://loader@p.iam@10.0.0.3/db")["user"] == "loader@p.iam"
    assert params("postgresql://loader@p.iam:@10.0.0.3/db") == {
        "user": "loader@p.iam",
        "host": "10.0.0.3",
        "dbname": "db",
    }


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:hunter2@host:port/db",
        "postgresql://u:hunter2@ho st/db",
        "postgresql://u:1?hunter2=x@host/d b",
        "mysql://u:hunter2@h/d",
        "jdbc:postgresql://h/d?password=hunter2",
        "host=h password=x hunter2",
        "hunter2",
        "host=h password='hunter2",
        "postgresql://u:hunter2%00@h/d",
        "host=h password=hunter2 nosuchkey=1",
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_it(text):
    with pytest.raises(ConfigurationError) as caught:
        parse_conninfo(text, {})
    shown = "".join(traceback.format_exception(caught.value))
    assert "LOADER_DATABASE_URL" in shown
    assert "hunter2" not in shown.replace("parse_conninfo(text, {})", "")


def test_an_unknown_parameter_is_named():
    with pytest.raises(ConfigurationError, match="the parameter 'schema', which libpq does not know"):
        parse_conninfo("postgresql://u:p@h/d?schema=public", {})


def test_without_a_url_libpqs_variables_decide():
    assert params(None, PGHOST="h") == {}
    with pytest.raises(ConfigurationError, match="LOADER_DATABASE_URL is not set"):
        parse_conninfo("", {})


def test_neither_repr_nor_description_shows_the_password():
    info = parse_conninfo("postgresql://u:hunter2@h:5433/d?sslpassword=hunter3", {})
    assert info.describe() == "u@h:5433/d"
    assert "hunter" not in repr(info) + info.describe()
    assert info.secrets == ["hunter2", "hunter3"]


@given(st.dictionaries(st.sampled_from(["host", "user", "password", "dbname"]), PASSWORDS | SPECIALS))
def test_a_rendered_conninfo_is_read_back(values):
    assert conninfo_to_dict(render_conninfo(values)) == values
