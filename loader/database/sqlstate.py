"""What an error of the database says about a bundle: a bad message, a changed table, a duplicate, or an outage.

Decided by SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html), never by the text of an error.
"""

from __future__ import annotations

import enum

import psycopg


class Verdict(enum.Enum):
    """What to do about an error; only ISOLATE may ever blame a message."""

    RETRY = "retry"
    """The database or the way to it is at fault: back off, keep the leases, try again for ever."""
    RELEARN = "relearn"
    """Somebody changed tables under us: read them again, learn, try again; the second time it is RETRY."""
    ISOLATE = "isolate"
    """A value or a row is refused: find whose."""
    UNIQUE = "unique"
    """A unique index refuses a row: a duplicate if the index is ours, else ISOLATE."""
    HALVE = "halve"
    """The bundle takes longer than one of the server's timeouts allows: load it in halves."""
    AGAIN = "again"
    """Deadlock or serialization failure: try again at once."""


# A table, column or schema that is gone, of another type, generated (42P10, 428C9), a view (42809), or made so that
# COPY cannot write to it (0A000).
_RELEARN = frozenset({"42P01", "42703", "42704", "42804", "42809", "42P10", "42P16", "428C9", "3F000", "0A000"})
_AGAIN = frozenset({"40P01", "40001"})
# statement_timeout (a cancelled query looks the same), transaction_timeout, idle_in_transaction_session_timeout. The
# last two cut the connection as well.
_TOO_LONG = frozenset({"57014", "25P04", "25P03"})


def verdict(error: psycopg.Error | UnicodeEncodeError) -> Verdict:
    """The verdict on an error that psycopg raised while a bundle was written."""
    if isinstance(error, UnicodeEncodeError):
        return Verdict.ISOLATE  # raised by the client for a lone surrogate
    state = error.sqlstate
    if state is None:
        # The client's own refusal of a value (U+0000) has no SQLSTATE; neither has a broken connection.
        client_side = isinstance(error, psycopg.DataError)
        return Verdict.ISOLATE if client_side else Verdict.RETRY
    if state == "23505":
        return Verdict.UNIQUE
    if state == "22P04":
        return Verdict.RETRY  # bad COPY framing is our own bug, never a message's fault
    if state[:2] in ("22", "23") or state in ("54000", "P0001"):
        return Verdict.ISOLATE
    if state in _RELEARN:
        return Verdict.RELEARN
    if state in _AGAIN:
        return Verdict.AGAIN
    if state in _TOO_LONG:
        return Verdict.HALVE
    return Verdict.RETRY


# Connection, transaction rollback, resources, operator intervention, system and internal errors; read-only mode.
_OUTAGES = frozenset({"08", "40", "53", "57", "58", "XX"})


def is_outage(error: psycopg.Error) -> bool:
    """Whether nobody's statement would work at this moment, so that waiting is all that can be done."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return (state[:2] in _OUTAGES and state != "57014") or state == "25006"
