"""The Postgres server of tests and demo."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from loader.errors import LoaderError
from loader.local import account
from loader.local.installation import Installation, find_installation
from loader.local.postgres import EmbeddedPostgres, Postgres


def installations() -> list[Installation]:
    found = []
    for kind in ("wheel", "local"):
        try:
            found.append(find_installation(kind))
        except LoaderError:
            continue
    return found


@pytest.mark.parametrize("installation", installations(), ids=lambda one: one.version)
def test_what_was_committed_survives_a_kill_and_a_restart_at_the_same_address(installation: Installation) -> None:
    with EmbeddedPostgres(installation=installation, durable=False, max_connections=37) as server:
        address = server.url
        with psycopg.connect(address) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS a")
            assert connection.execute("SHOW max_connections").fetchone() == ("37",)
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(address)
        server.start()
        assert server.url == address
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT a FROM kept").fetchone() == (1,)
        server.restart()
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT a FROM kept").fetchone() == (1,)


def test_a_kill_with_connections_open_does_not_hinder_the_next_start() -> None:
    with EmbeddedPostgres(durable=False) as server:
        held = [psycopg.connect(server.url) for _ in range(5)]
        server.kill()
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        for connection in held:
            connection.close()


def test_a_temporary_server_leaves_no_folder_behind() -> None:
    with EmbeddedPostgres(durable=False) as server:
        folder = server.folder
        assert folder.is_dir()
    assert not folder.exists()


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every account can enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="loader-named-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_named_folder_keeps_data_and_password_between_servers(folder: Path) -> None:
    with EmbeddedPostgres(folder / "pg", durable=False) as server:
        assert server.folder == folder / "pg"
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 2 AS a")
        assert stat.S_IMODE((server.folder / "password").stat().st_mode) == 0o600
    with EmbeddedPostgres(folder / "pg", durable=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT a FROM kept").fetchone() == (2,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another account")
def test_programs_and_data_that_the_account_cannot_reach_are_placed_where_it_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, private = folder / "shared", folder / "private"
    shared.mkdir(mode=0o755)
    monkeypatch.setattr(account, "SHARED", shared)
    real = find_installation()
    private.mkdir()
    prefix = real.folder.parent
    for source in (prefix, prefix.parent.with_name(f"{prefix.parent.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, private / source.relative_to(prefix.parent.parent), symlinks=True)
    private.chmod(0o700)
    hidden = Installation(private / prefix.parent.name / prefix.name / "bin", real.version, "a private folder")
    with EmbeddedPostgres(private / "data", durable=False, installation=hidden) as server:
        assert server.folder.parent == shared
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    (shared / "loader-programs-squatted").mkdir(mode=0o777)
    (shared / "loader-programs-squatted").chmod(0o777)
    with pytest.raises(LoaderError, match="others can write"):
        account._shared("loader-programs-squatted")


def test_a_connection_without_the_password_is_refused() -> None:
    with EmbeddedPostgres(durable=False) as server:
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres", passfile=os.devnull)


def test_a_setting_that_the_server_refuses_is_named() -> None:
    server = EmbeddedPostgres(durable=False, settings={"no_such_setting": "1"})
    with pytest.raises(LoaderError, match="no_such_setting"):
        server.start()
    server.close()


def test_each_test_has_a_database_of_its_own(postgres: Postgres, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT current_database(), count(*) FROM pg_stat_user_tables").fetchone()
    assert row is not None
    assert row[0].startswith("test_")
    assert row[1] == 0
