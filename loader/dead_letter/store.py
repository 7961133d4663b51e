"""Dead letters as an operator reads and clears them. Everything is read in pieces: there may be millions."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

_PAGE = 1_000
_BATCH_LETTERS = 500
_BATCH_BYTES = 16 * 1024 * 1024
_PURGE_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """One row of `_dead_letters`, without what only the export needs."""

    letter_id: str
    event_id: str
    event_digest: int
    reason: str
    detail: str
    sqlstate: str | None
    table_name: str | None
    column_name: str | None
    message_id: str
    published_at: datetime.datetime
    attempt: int
    ordering_key: str
    attributes: Mapping[str, str]
    body_encoding: str
    body: str
    is_record: bool
    load_id: str
    worker: str
    created_at: datetime.datetime
    resolved_at: datetime.datetime | None
    resolution: str | None

    @property
    def data(self) -> bytes:
        """The body's bytes: the message's data, or the element's JSON when `is_record`."""
        return base64.b64decode(self.body) if self.body_encoding == "base64" else self.body.encode()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which letters; None means any."""

    reason: str | None = None
    table: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    resolved: bool | None = None

    def where(self) -> tuple[sql.Composable, list[Any]]:
        """The condition and its parameters."""
        parts: list[sql.Composable] = [sql.SQL("true")]
        values: list[Any] = []
        for condition, value in (
            ("reason = %s", self.reason),
            ("table_name = %s", self.table),
            ("created_at >= %s", self.since),
            ("created_at < %s", self.until),
        ):
            if value is not None:
                parts.append(sql.SQL(condition))  # type: ignore[arg-type]
                values.append(value)
        if self.resolved is not None:
            parts.append(sql.SQL("resolved_at is not null" if self.resolved else "resolved_at is null"))
        return sql.SQL(" and ").join(parts), values


OPEN = Criteria(resolved=False)

_COLUMNS = sql.SQL(
    "letter_id, _event_id as event_id, _event_digest as event_digest, reason, detail, sqlstate, table_name,"
    " column_name, message_id, published_at, attempt, ordering_key, attributes, body_encoding, {body} as body,"
    " is_record, load_id, worker, created_at, resolved_at, resolution"
)


class LetterStore:
    """The `_dead_letters` table of one dataset. Every method raises psycopg.Error."""

    def __init__(self, conn: psycopg.Connection[Any], dataset: str) -> None:
        self._conn = conn
        self._table = sql.Identifier(dataset, "_dead_letters")

    def newest(self, criteria: Criteria, limit: int) -> list[StoredLetter]:
        """The newest letters, newest first, without their bodies."""
        where, values = criteria.where()
        query = sql.SQL("select {} from {} where {} order by created_at desc, letter_id limit %s").format(
            _COLUMNS.format(body=sql.SQL("''")), self._table, where
        )
        return self._letters(query, [*values, limit])

    def count(self, criteria: Criteria) -> int:
        """How many letters there are."""
        where, values = criteria.where()
        row = self._conn.execute(
            sql.SQL("select count(*) from {} where {}").format(self._table, where), values
        ).fetchone()
        return int(row[0]) if row else 0

    def reasons(self, criteria: Criteria) -> list[tuple[str, int]]:
        """Letters by reason, the most frequent first."""
        where, values = criteria.where()
        query = sql.SQL("select reason, count(*) from {} where {} group by 1 order by 2 desc, 1")
        return [(row[0], row[1]) for row in self._conn.execute(query.format(self._table, where), values)]

    def find(self, name: str, limit: int = 100) -> list[StoredLetter]:
        """Letters whose `letter_id` or `_event_id` is `name`; a reused event id has several."""
        query = sql.SQL(
            "select {} from {} where letter_id = %s or _event_id = %s order by created_at, letter_id limit %s"
        ).format(_COLUMNS.format(body=sql.SQL("body")), self._table)
        return self._letters(query, [name, name, limit])

    def open_ids(self, names: Sequence[str]) -> dict[str, list[str]]:
        """For each letter id or event id the ids of its open letters."""
        found: dict[str, list[str]] = {name: [] for name in names}
        query = sql.SQL(
            "select letter_id, _event_id from {} where (letter_id = any(%s) or _event_id = any(%s))"
            " and resolved_at is null order by letter_id"
        ).format(self._table)
        for letter_id, event_id in self._conn.execute(query, (list(names), list(names))).fetchall():
            found[letter_id if letter_id in found else event_id].append(letter_id)
        return found

    def open_batches(self, ids: Sequence[str] | None = None) -> Iterator[list[StoredLetter]]:
        """Open letters with their bodies (all of them, or those of `ids`), at most 16 MiB or one letter at a time.

        A letter that is still open after its batch does not come again."""
        batch: list[str] = []
        size = 0
        for letter_id, length in self._sizes(ids):
            if batch and (len(batch) >= _BATCH_LETTERS or size + length > _BATCH_BYTES):
                yield self._read(batch)
                batch, size = [], 0
            batch.append(letter_id)
            size += length
        if batch:
            yield self._read(batch)

    def resolve(self, letter_ids: Sequence[str], resolution: str) -> None:
        """Mark letters as resolved."""
        self._conn.execute(
            sql.SQL(
                "update {} set resolved_at = now(), resolution = %s where letter_id = any(%s) and resolved_at is null"
            ).format(self._table),
            (resolution, list(letter_ids)),
        )

    def restate(self, letter_id: str, reason: str, detail: str, sqlstate: str | None) -> None:
        """Note why an open letter is still refused."""
        self._conn.execute(
            sql.SQL(
                "update {} set reason = %s, detail = %s, sqlstate = %s where letter_id = %s and resolved_at is null"
                " and (reason, detail) <> (%s, %s)"
            ).format(self._table),
            (reason, detail, sqlstate, letter_id, reason, detail),
        )

    def purge(self, criteria: Criteria) -> Iterator[int]:
        """Delete letters in short transactions; yields how many went with each."""
        where, values = criteria.where()
        query = sql.SQL(
            "delete from {table} where letter_id in (select letter_id from {table} where {where}"
            " order by letter_id limit %s for update skip locked)"
        ).format(table=self._table, where=where)
        while True:
            deleted = self._conn.execute(query, [*values, _PURGE_BATCH]).rowcount
            if deleted <= 0:
                return
            yield deleted

    def _sizes(self, ids: Sequence[str] | None) -> Iterator[tuple[str, int]]:
        chosen = sql.SQL("true") if ids is None else sql.SQL("letter_id = any(%(ids)s)")
        query = sql.SQL(
            "select letter_id, octet_length(body) from {} where resolved_at is null and letter_id > %(after)s and {}"
            " order by letter_id limit %(limit)s"
        ).format(self._table, chosen)
        after = ""
        while True:
            parameters = {"after": after, "ids": list(ids or ()), "limit": _PAGE}
            page = self._conn.execute(query, parameters).fetchall()
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _read(self, letter_ids: list[str]) -> list[StoredLetter]:
        query = sql.SQL("select {} from {} where letter_id = any(%s) and resolved_at is null order by letter_id")
        return self._letters(query.format(_COLUMNS.format(body=sql.SQL("body")), self._table), [letter_ids])

    def _letters(self, query: sql.Composed, values: Sequence[Any]) -> list[StoredLetter]:
        with self._conn.cursor(row_factory=class_row(StoredLetter)) as cursor:
            return cursor.execute(query, values).fetchall()
