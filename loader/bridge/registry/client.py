"""Asks a registry for schemas. Everything but a plain "there is no such schema" is an outage: try again later."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import urllib3

from loader.bridge.frame import Unavailable
from loader.bridge.registry.schema import InvalidSchema, in_one_piece, read
from loader.errors import ConfigurationError

_MOST_BYTES = 10_000_000
_MOST_REFERENCES = 1_000
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class NoSuchSchema(Exception):
    """The registry works and does not have it, or what it has is no Avro schema: for good."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a registry is and how to enter."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    """A bearer token; excludes a username."""
    ca_file: str | None = None
    cert_file: str | None = None
    """The client's certificate, with its key unless `key_file` has that."""
    key_file: str | None = None
    timeout: float = 5.0
    """Seconds to connect, and seconds to wait for each part of an answer."""


class Registry:
    """Thread-safe; keeps nothing but connections."""

    def __init__(self, access: Access) -> None:
        """Raises ConfigurationError for an address that is none or files that cannot be used."""
        self.url = access.url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ConfigurationError(f"registry must be http://… or https://…, not {self.url!r}")
        if access.token and access.username:
            raise ConfigurationError("registry: set username and password, or token, not both")
        headers = {"Accept": _ACCEPT}
        if access.username:
            login = f"{access.username}:{access.password or ''}"
            headers |= urllib3.make_headers(basic_auth=login) if login.isascii() else _basic(login)
        elif access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        self._http = urllib3.PoolManager(
            maxsize=4,
            headers=headers,
            timeout=urllib3.Timeout(connect=access.timeout, read=access.timeout),
            retries=False,
            ssl_context=_tls(access) if self.url.startswith("https://") else None,
        )

    def by_id(self, number: int) -> Any:
        """The schema of an id, in one piece. Raises NoSuchSchema, Unavailable."""
        return self._whole(self._get(f"/schemas/ids/{number}", f"the schema {number}"), f"the schema {number}")

    def newest(self, subject: str) -> tuple[int, Any]:
        """The id of a subject's newest schema, and the schema. Raises NoSuchSchema, Unavailable."""
        what = f"the subject {subject}"
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", what)
        number = answer.get("id")
        if not isinstance(number, int):
            raise Unavailable(f"the registry at {self.url} gives no id for {what}")
        return number, self._whole(answer, what)

    def close(self) -> None:
        """Let the connections go."""
        self._http.clear()

    def _whole(self, answer: Mapping[str, Any], what: str) -> Any:
        kind = answer.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise NoSuchSchema(f"{what} is of type {kind}, not AVRO")
        try:
            found: list[Any] = []
            self._references(answer, found, set())
            return in_one_piece(read(str(answer.get("schema", ""))), found)
        except (InvalidSchema, RecursionError) as error:
            raise NoSuchSchema(f"{what} cannot be used: {error}") from None

    def _references(self, answer: Mapping[str, Any], found: list[Any], seen: set[tuple[str, int]]) -> None:
        """The schemas that this one refers to, depth first; versions never change, so each is asked for once."""
        for each in answer.get("references") or ():
            subject, version = str(each.get("subject")), int(each.get("version") or 0)
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            if len(seen) > _MOST_REFERENCES:
                raise InvalidSchema(f"it has more than {_MOST_REFERENCES} references")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            inner = self._get(path, f"version {version} of the subject {subject}")
            self._references(inner, found, seen)
            found.append(read(str(inner.get("schema", ""))))

    def _get(self, path: str, what: str) -> Mapping[str, Any]:
        status, answer = self._ask(path)
        if status == 200 and isinstance(answer, dict):
            return answer
        if status == 404 and ((isinstance(answer, dict) and "error_code" in answer) or self._is_registry()):
            raise NoSuchSchema(f"the registry does not have {what}")
        raise Unavailable(f"the registry at {self.url} answers {status} for {what}")

    def _is_registry(self) -> bool:
        """Whether a registry answers at this address: else its 404 is that of a wrong address or of a proxy, and
        would turn a whole topic into dead letters."""
        status, answer = self._ask("/subjects")
        return status == 200 and isinstance(answer, list)

    def _ask(self, path: str) -> tuple[int, Any]:
        try:
            response = self._http.request("GET", self.url + path, preload_content=False, redirect=False)
            try:
                body = response.read(_MOST_BYTES + 1)
            finally:
                response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(f"the registry at {self.url} does not answer: {type(error).__name__}") from None
        if len(body) > _MOST_BYTES:
            raise Unavailable(f"the registry at {self.url} answers with more than {_MOST_BYTES} bytes")
        try:
            return response.status, json.loads(body)
        except ValueError:
            return response.status, None


def _basic(login: str) -> dict[str, str]:
    from base64 import b64encode

    return {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}


def _tls(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.cert_file:
            context.load_cert_chain(access.cert_file, access.key_file)
    except (OSError, ssl.SSLError) as error:
        names = ", ".join(filter(None, [access.ca_file, access.cert_file, access.key_file]))
        raise ConfigurationError(f"registry: the certificates {names} cannot be used: {error}") from None
    return context
