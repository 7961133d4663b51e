from __future__ import annotations

import threading
import uuid
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from loader.database.connection import Database, TokenUnavailable, set_local
from loader.database.conninfo import ConnectionInfo, parse_conninfo
from loader.errors import ConfigurationError


@pytest.fixture
def database(database_url):
    return Database(parse_conninfo(database_url, {}))


def show(connection, name):
    return connection.execute("SELECT current_setting(%s)", [name]).fetchone()[0]


def test_every_connection_sees_the_same_whatever_the_role_prefers(database, database_url):
    name = parse_conninfo(database_url, {}).params["dbname"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for setting, value in (
            ("TimeZone", "Asia/Tokyo"),
            ("DateStyle", "German"),
            ("quote_all_identifiers", "on"),
        ):
            statement = sql.SQL("ALTER DATABASE {} SET {} = {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(setting), value))
    with database.connect("loader-test") as connection:
        assert show(connection, "TimeZone") == "UTC"
        assert show(connection, "DateStyle") == "ISO, MDY"
        assert connection.execute("SELECT format_type('jsonb'::regtype, -1)").fetchone() == ("jsonb",)
        assert show(connection, "client_encoding") == "UTF8"
        assert show(connection, "application_name") == "loader-test"
        assert show(connection, "idle_in_transaction_session_timeout") == "2min"
        assert not connection.autocommit
        assert connection.prepare_threshold is None
        assert not connection.pooled


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("preferred", ["repeatable read", "serializable"])
def test_a_transaction_sees_what_others_commit_whatever_the_database_prefers(
    database_url, changed_backend_pid, preferred, pooled
):
    info = parse_conninfo(database_url, {})
    name = sql.Identifier(info.params["dbname"])
    with psycopg.connect(database_url, autocommit=True) as other:
        for setting, value in (("default_transaction_isolation", preferred), ("default_transaction_deferrable", "on")):
            other.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.Identifier(setting), value))
        other.execute("CREATE TABLE numbers (n int)")
        with Database(changed_backend_pid(database_url) if pooled else info).connect(
            "loader-test", autocommit=True
        ) as connection:
            assert connection.pooled is pooled
            with connection.transaction():
                set_local(connection, lock_timeout_ms=100)
                other.execute("INSERT INTO numbers VALUES (1)")
                assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
                assert show(connection, "transaction_isolation") == "read committed"
                assert show(connection, "transaction_deferrable") == "off"
            assert pooled or show(connection, "transaction_isolation") == "read committed"


def test_a_rollback_keeps_the_sessions_settings(database):
    with database.connect("loader-test", lock_timeout_ms=250) as connection:
        connection.execute("SELECT 1")
        connection.rollback()
        assert (show(connection, "TimeZone"), show(connection, "lock_timeout")) == ("UTC", "250ms")


def test_local_limits_end_with_their_transaction(database):
    with database.connect("loader-test") as connection:
        set_local(connection, lock_timeout_ms=100, statement_timeout_ms=2000)
        assert (show(connection, "lock_timeout"), show(connection, "statement_timeout")) == ("100ms", "2s")
        connection.commit()
        assert (show(connection, "lock_timeout"), show(connection, "statement_timeout")) == ("0", "0")


def test_a_pooler_is_known_by_the_process_id_that_it_makes_up(database_url, changed_backend_pid):
    with Database(changed_backend_pid(database_url)).connect("loader-test", lock_timeout_ms=250) as connection:
        assert connection.pooled
        assert show(connection, "lock_timeout") == "0", "it would stay with whoever gets the server connection next"
        assert show(connection, "TimeZone") == "UTC"


@pytest.mark.parametrize("password", ["p@ss:w/rd%", "'\\\" =", "é%41"])
def test_a_role_with_a_hostile_password_logs_in(database_url, password):
    role = f"role_{uuid.uuid4().hex[:12]}"
    identifier = sql.Identifier(role)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(identifier, password))
    try:
        parts = urlsplit(database_url)
        raw = urlunsplit(parts._replace(netloc=f"{role}:{password}@{parts.hostname}:{parts.port}"))
        if password != "é%41":  # unescaped, this one is an escaped one
            assert parse_conninfo(raw, {}).params["password"] == password
        info = parse_conninfo(database_url, {})
        with Database(ConnectionInfo({**info.params, "user": role, "password": password})).connect("t") as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)
    finally:
        with psycopg.connect(database_url, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP ROLE {}").format(identifier))


def test_each_iam_login_takes_a_fresh_token_as_its_password(database_url):
    tokens = iter(["one", "two"])
    used = []

    def token():
        used.append(next(tokens))
        return used[-1]

    info = parse_conninfo(database_url, {})
    info = ConnectionInfo({**info.params, "sslmode": "disable"})
    database = Database(info, iam_auth=True, token=token)
    for _ in range(2):
        try:
            database.connect("loader-test").close()
        except psycopg.OperationalError:
            pass  # the server may ask for the role's real password
    assert used == ["one", "two"]


def test_an_iam_login_is_encrypted_and_without_the_suffix(monkeypatch):
    seen = {}

    def connect(conninfo, **_arguments):
        seen.update(psycopg.conninfo.conninfo_to_dict(conninfo))
        raise psycopg.OperationalError("seen")

    monkeypatch.setattr("loader.database.connection.LoaderConnection.connect", connect)
    url = "postgresql://loader%40p.iam.gserviceaccount.com@10.0.0.3/db"
    database = Database(parse_conninfo(url, {}), iam_auth=True, token=lambda: "token")
    with pytest.raises(psycopg.OperationalError, match="seen"):
        database.connect("loader-test")
    assert (seen["user"], seen["password"], seen["sslmode"]) == ("loader@p.iam", "token", "require")
    assert "token" not in repr(database)


def test_an_iam_login_without_a_user_is_refused():
    with pytest.raises(ConfigurationError, match="names no user"):
        Database(parse_conninfo("postgresql://h/d", {}), iam_auth=True)


def test_a_token_that_cannot_be_had_is_an_outage(database_url):
    def token():
        raise TokenUnavailable("no metadata server")

    database = Database(parse_conninfo(database_url, {}), iam_auth=True, token=token)
    with pytest.raises(psycopg.OperationalError, match="no metadata server"):
        database.connect("loader-test")


@pytest.fixture
def changed_backend_pid():
    """Puts a relay before a server that tells its clients another process id, as transaction poolers do."""
    import socket

    listeners, threads = [], []

    def relay(client, server):
        with client, server:
            # Start-up: the client's message, then answers until ReadyForQuery, one BackendKeyData among them.
            server.sendall(client.recv(65536))
            buffer = b""
            while True:
                buffer += server.recv(65536)
                position, out, ready = 0, b"", False
                while len(buffer) - position >= 5:
                    length = 1 + int.from_bytes(buffer[position + 1 : position + 5])
                    message = buffer[position : position + length]
                    if len(message) < length:
                        break
                    if message[:1] == b"K":
                        message = message[:5] + (0x7FFFFFF0).to_bytes(4) + message[9:]
                    ready |= message[:1] == b"Z"
                    out += message
                    position += length
                buffer = buffer[position:]
                client.sendall(out)
                if ready:
                    break
                if b"R" in out[:1] and out[5:9] != b"\0\0\0\0":
                    server.sendall(client.recv(65536))
            while data := client.recv(65536):
                server.sendall(data)
                if data[:1] == b"X":
                    return
                answer = b""
                while not answer.endswith((b"Z\0\0\0\x05I", b"Z\0\0\0\x05T", b"Z\0\0\0\x05E")):
                    answer += server.recv(65536)
                client.sendall(answer)

    def start(url):
        params = dict(parse_conninfo(url, {}).params)
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve():
            client, _address = listener.accept()
            relay(client, socket.create_connection((params["host"], int(params["port"]))))

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        port = str(listener.getsockname()[1])
        return ConnectionInfo({**params, "host": "127.0.0.1", "port": port, "sslmode": "disable"})

    yield start
    for thread in threads:
        thread.join(10)
    for listener in listeners:
        listener.close()
