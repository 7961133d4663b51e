"""Who is to blame for an error: a message, a changed table, or the database."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from loader.database.sqlstate import Verdict, is_outage, verdict


def error(state: str) -> psycopg.Error:
    made = psycopg.OperationalError("made up")
    made.sqlstate = state
    return made


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["22001", "22003", "22007", "22P02", "22P05", "23502", "23503", "23514", "54000", "P0001"], Verdict.ISOLATE),
        (["23505"], Verdict.UNIQUE),
        (["42P01", "42703", "42704", "42804", "42809", "42P10", "42P16", "428C9", "3F000", "0A000"], Verdict.RELEARN),
        (["40P01", "40001"], Verdict.AGAIN),
        (["57014", "25P03", "25P04"], Verdict.HALVE),
        (["42501", "25006", "28000", "28P01", "57P01", "57P03", "53100", "53200", "53300", "08006", "58030", "XX000",
          "22P04", "55P03", "54001", "99999"], Verdict.RETRY),
    ],
)  # fmt: skip
def test_the_verdict_on_a_state(states: list[str], expected: Verdict) -> None:
    assert {state: verdict(error(state)) for state in states} == dict.fromkeys(states, expected)


def test_errors_without_a_state_are_the_clients_or_the_connections() -> None:
    assert verdict(psycopg.DataError("NUL")) is Verdict.ISOLATE
    assert verdict(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate")) is Verdict.ISOLATE
    assert verdict(psycopg.OperationalError("gone")) is Verdict.RETRY
    assert verdict(psycopg.InterfaceError("closed")) is Verdict.RETRY
    assert verdict(psycopg.ProgrammingError("ours")) is Verdict.RETRY


def test_an_outage_is_what_everybody_would_meet() -> None:
    assert all(is_outage(error(state)) for state in ("08006", "53100", "57P01", "57P03", "25006", "58030", "40P01"))
    assert is_outage(psycopg.OperationalError("gone"))
    assert not any(is_outage(error(state)) for state in ("42501", "42P07", "55P03", "23505", "57014", "42P01"))
    assert not is_outage(errors.DataError("ours"))
