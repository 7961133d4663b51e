"""Fetches entries and keys them: pure from the answer on, one function per kind."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from loader.bridge.condition.functions import text
from loader.bridge.config.model import Lookup
from loader.bridge.config.reference import resolve

MAX_BYTES = 256 * 1024 * 1024
"""Largest answer that is read: a lookup is held in memory."""


class FetchFailed(Exception):
    """The state could not be had; says why, without secrets."""


def fetch(lookup: Lookup) -> Mapping[str, Any]:
    """The lookup's state by key. Raises FetchFailed. An answer without any entry is a state as well."""
    try:
        options = resolve(lookup.options)
    except Exception as error:
        raise FetchFailed(str(error)) from None
    entries = {"http": _http, "sql": _sql, "file": _file}[lookup.kind](options)
    return keyed(entries, options.get("key"))


def keyed(entries: Any, path: tuple[str, ...] | None) -> Mapping[str, Any]:
    """Entries by the text of their field `path`; without one, a map as it is or each item of a list by itself.

    Raises FetchFailed for entries without the field, or two with one key: one of them would be lost silently."""
    if path is None:
        if isinstance(entries, Mapping):
            return {str(name): value for name, value in entries.items()}
        if isinstance(entries, list) and all(text(each) is not None for each in entries):
            return {str(text(each)): each for each in entries}
        if isinstance(entries, list):
            raise FetchFailed("the entries are a list of objects; set key to the field that they are found by")
        raise FetchFailed("the answer is neither a list nor a map")
    if isinstance(entries, Mapping):
        entries = list(entries.values())
    if not isinstance(entries, list):
        raise FetchFailed("the answer is neither a list nor a map")
    state: dict[str, Any] = {}
    for number, entry in enumerate(entries, 1):
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        key = text(value)
        if key is None:
            raise FetchFailed(f"entry {number} has no {'.'.join(path)}")
        if key in state:
            raise FetchFailed(f"two entries have {'.'.join(path)} = {key!r}")
        state[key] = entry
    return state


def _http(options: Mapping[str, Any]) -> Any:
    import urllib3

    pool = urllib3.PoolManager(retries=False, ca_certs=options.get("ca_file"))
    try:
        answer = pool.request(
            "GET", options["url"], headers=dict(options["headers"]), timeout=options["timeout"], preload_content=False
        )
        try:
            body = answer.read(MAX_BYTES + 1)
        finally:
            answer.release_conn()
        if answer.status != 200:
            raise FetchFailed(f"the answer is HTTP {answer.status}")
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        # The text of the error may hold the address, and the address a token.
        raise FetchFailed(f"the request failed: {type(error).__name__}") from None
    finally:
        pool.clear()
    entries = _json(_bounded(body))
    for name in options.get("path") or ():
        entries = entries.get(name) if isinstance(entries, Mapping) else None
        if entries is None:
            raise FetchFailed(f"the answer has no {'.'.join(options['path'])}")
    return entries


def _sql(options: Mapping[str, Any]) -> Any:
    import psycopg
    from psycopg.rows import dict_row

    timeout = options["timeout"]
    try:
        with psycopg.connect(
            options["dsn"],
            connect_timeout=max(2, round(timeout)),
            prepare_threshold=None,
            row_factory=dict_row,
        ) as connection:
            # A lookup only reads, whatever its query says. Both hold for the transaction alone, for a session may be
            # a pooler's and go on to serve others.
            connection.read_only = True
            connection.execute("SELECT set_config('statement_timeout', %s, true)", (str(round(timeout * 1000)),))
            rows = connection.execute(options["query"]).fetchall()
    except psycopg.Error as error:
        # The server's words about the query; those about a connection may hold its address.
        words = f", {error.diag.message_primary}" if error.sqlstate else ""
        raise FetchFailed(f"the query failed: {error.sqlstate or type(error).__name__}{words}") from None
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """A column's value as JSON would have it."""
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else str(value)


def _file(options: Mapping[str, Any]) -> Any:
    path = Path(options["path"])
    try:
        with path.open("rb") as file:
            body = _bounded(file.read(MAX_BYTES + 1))
        name = path.name
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as inflated:
                body = _bounded(inflated.read(MAX_BYTES + 1))
            name = name.removesuffix(".gz")
    except (OSError, EOFError, zlib.error) as error:
        reason = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, FileNotFoundError) and not path.is_absolute():
            reason += f"; it is neither in the working directory {Path.cwd()} nor beside the bridge's file"
        raise FetchFailed(reason) from None
    kind = options["type"]
    if kind == "auto":
        kind = {"csv": "csv", "ndjson": "ndjson", "jsonl": "ndjson"}.get(name.rpartition(".")[2], "json")
    if kind == "csv":
        return _csv(body)
    if kind == "ndjson":
        return [_json(line) for line in body.splitlines() if line.strip()]
    return _json(body)


def _csv(body: bytes) -> list[dict[str, Any]]:
    try:
        rows: Iterable[dict[str, Any]] = csv.DictReader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True)
        found = list(rows)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FetchFailed(f"not CSV: {error}") from None
    for number, row in enumerate(found, 2):
        if None in row or None in row.values():
            raise FetchFailed(f"row {number} has more or fewer fields than the header")
    return found


def _bounded(body: bytes) -> bytes:
    if len(body) > MAX_BYTES:
        raise FetchFailed(f"more than {MAX_BYTES} bytes")
    return body


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise FetchFailed(f"not JSON: {error}") from None
