"""Where the database is: a libpq URL, a key=value conninfo or libpq's own variables, whatever the password holds.

libpq wants each special character of a URL's password written as %XX; passwords are generated and pasted. A URL that
libpq would read as it stands keeps libpq's meaning; in any other, the password is what stands between the user's colon
and the last @ that a host follows. No error names a part of a text that could not be read: it could be the password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from loader.errors import ConfigurationError

LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGDATABASE", "PGUSER", "PGPORT", "PGSERVICE", "PGPASSWORD", "PGPASSFILE")
SECRET_KEYWORDS = ("password", "sslpassword", "oauth_client_secret")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]*)://")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = r"(?:\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]|(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_QUERY_PAIR = re.compile(r"([a-z_]+)=([^&]*)")
_MUST_BE_ESCAPED = re.compile(r"[@/?#\[\]\s]")  # what any encoder writes as %XX: its presence says nothing was encoded

HINT = "a URL such as postgresql://user:password@host:5432/database, or key=value pairs such as host=… dbname=…"


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """libpq keywords and values; neither repr nor describe() shows a secret."""

    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = "LOADER_DATABASE_URL"

    @property
    def secrets(self) -> list[str]:
        """Values that must appear nowhere."""
        return [self.params[keyword] for keyword in SECRET_KEYWORDS if self.params.get(keyword)]

    def describe(self) -> str:
        """`user@host:port/database` of what is known; parts that libpq finds by itself are left out."""
        host = self.params.get("host") or self.params.get("hostaddr") or ""
        ports = self.params.get("port", "")
        user = f"{self.params['user']}@" if self.params.get("user") else ""
        database = f"/{self.params['dbname']}" if self.params.get("dbname") else ""
        return f"{user}{host}{':' + ports if ports else ''}{database}" or "the libpq variables' database"


def parse_conninfo(text: str | None, environ: Mapping[str, str], name: str = "LOADER_DATABASE_URL") -> ConnectionInfo:
    """Read where the database is; None or blank leaves it to the libpq variables in `environ`.

    Raises ConfigurationError naming the setting, never its value."""
    text = (text or "").strip()
    if not text:
        if not any(environ.get(variable) for variable in LIBPQ_VARIABLES):
            raise ConfigurationError(f"{name} is not set: set it to {HINT}, or set PGHOST, PGDATABASE, PGUSER …")
        return ConnectionInfo({}, "PGHOST …")
    if "\0" in text:
        raise ConfigurationError(f"{name} holds a NUL character")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return ConnectionInfo(_parse_pairs(text, name), name)
    dialect = scheme[1].lower().partition("+")[0]
    if dialect not in ("postgresql", "postgres"):
        raise ConfigurationError(f"{name} starts with {scheme[0]!r}, which is not Postgres: set it to {HINT}")
    return ConnectionInfo(_parse_url(text[scheme.end() :], name), name)


def render_conninfo(params: Mapping[str, str]) -> str:
    """A key=value conninfo with every value quoted, so that it survives whatever a value holds."""
    quoted = {key: value.replace("\\", "\\\\").replace("'", "\\'") for key, value in params.items()}
    return " ".join(f"{key}='{value}'" for key, value in quoted.items())


def _parse_pairs(text: str, name: str) -> dict[str, str]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {key: str(value) for key, value in conninfo_to_dict(text).items()}
    except psycopg.Error:
        # libpq quotes the word that it stumbled over, which may be a part of the password: not passed on.
        pass
    raise ConfigurationError(
        f"{name} cannot be read: set it to {HINT}; a value with blanks, quotes or backslashes is written "
        "key='value' with \\' and \\\\ inside"
    )


def _parse_url(rest: str, name: str) -> dict[str, str]:
    authority_end = re.search(r"[/?]", rest)
    authority = rest[: authority_end.start()] if authority_end else rest
    userinfo, at, _hosts = authority.rpartition("@")
    candidates: list[tuple[str, str]] = []
    if not (_MUST_BE_ESCAPED.search(userinfo) or _BAD_ESCAPE.search(userinfo)):
        candidates.append((userinfo, rest[len(userinfo) + len(at) :]))
    candidates += [(rest[: match.start()], rest[match.end() :]) for match in reversed([*re.finditer("@", rest)])]
    unknown = None
    for userinfo, location in candidates:  # noqa: B007 - the one that the loop stops at is used below
        params = _parse_location(location)
        if params is None:
            continue
        strange = params.keys() - _keywords()
        if not strange:
            break
        if "@" not in location:  # else what looks like a parameter may be the tail of a password
            unknown = unknown or min(strange)
    else:
        if unknown:
            raise ConfigurationError(f"{name} has the parameter {unknown!r}, which libpq does not know: remove it")
        raise ConfigurationError(
            f"{name} cannot be read as a URL: check host, port (a number) and the parameters after the ?, and write "
            "special characters of the password as %XX"
        )
    user, colon, password = userinfo.partition(":")
    # A parameter of the same name wins, as in libpq.
    if user:
        params.setdefault("user", _decode(user))
    if colon and password:
        params.setdefault("password", _decode(password))
    if any("\0" in value for value in params.values()):
        raise ConfigurationError(f"{name} holds a NUL character (%00)")
    return params


def _parse_location(location: str) -> dict[str, str] | None:
    """`hosts[/database][?parameters]` as libpq keywords; None if it is not that."""
    path, _question, query = location.partition("?")
    hosts, _slash, database = path.partition("/")
    if not _HOSTS.fullmatch(hosts) or re.search(r"[@/#\s]", database) or _BAD_ESCAPE.search(database):
        return None
    params: dict[str, str] = {}
    names, ports = [], []
    for host in hosts.split(","):
        match = re.fullmatch(r"(?:\[(.*)\]|(.*?))(?::([0-9]*))?", host)
        assert match is not None  # _HOSTS is the stricter pattern
        names.append(match[1] or unquote(match[2] or ""))
        ports.append(match[3] or "")
    if any(names):
        params["host"] = ",".join(names)
    if any(ports):
        params["port"] = ",".join(ports)
    if database:
        params["dbname"] = unquote(database)
    for pair in filter(None, query.split("&")):
        parsed = _QUERY_PAIR.fullmatch(pair)
        if parsed is None or _BAD_ESCAPE.search(parsed[2]):
            return None
        if parsed[1] == "ssl" and parsed[2].lower() == "true":  # JDBC's spelling, which libpq accepts too
            params["sslmode"] = "require"
        else:
            params[parsed[1]] = unquote(parsed[2])
    return params


def _decode(text: str) -> str:
    return text if _MUST_BE_ESCAPED.search(text) or _BAD_ESCAPE.search(text) else unquote(text)


def _keywords() -> frozenset[str]:
    from psycopg.pq import Conninfo

    return frozenset(option.keyword.decode() for option in Conninfo.get_defaults())
