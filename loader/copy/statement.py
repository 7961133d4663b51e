"""The SQL of a load, all in one place."""

from __future__ import annotations

from functools import lru_cache

from psycopg import sql

from loader.plan.book import TablePlan

_COPY = "copy {table} ({columns}) from stdin"
_PRESENT = "select _dlt_id, _event_digest from {table} where _dlt_id = any(%s)"
_DELETE_ORPHANS = "delete from {table} where _dlt_id = any(%s)"
_LOAD = """
insert into {schema}._dlt_loads (load_id, schema_name, status, inserted_at, schema_version_hash)
values (%s, %s, 0, now(), %s)
"""
_RECEIPT = """
insert into {schema}._receipts (load_id, table_name, row_count, event_count, duplicate_count, dead_letter_count,
                                discard_count, oldest_published_at, newest_published_at, worker)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_LETTER = """
insert into {schema}._dead_letters (letter_id, _event_id, _event_digest, reason, detail, sqlstate, table_name,
    column_name, message_id, published_at, attempt, ordering_key, attributes, body_encoding, body, is_record,
    load_id, worker)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (letter_id) do update
set resolved_at = null, resolution = null, reason = excluded.reason, detail = excluded.detail,
    attempt = excluded.attempt, exported_at = null
where _dead_letters.resolved_at is not null
"""
_OPEN_LETTERS = "select exists (select 1 from {schema}._dead_letters where resolved_at is null)"
_OPEN_OF = """
select letter_id, _event_id from {schema}._dead_letters
where resolved_at is null and (_event_id, _event_digest) in (select * from unnest(%s::text[], %s::bigint[]))
"""
_RESOLVE = """
update {schema}._dead_letters set resolved_at = now(), resolution = %s
where resolved_at is null and letter_id = any(%s)
"""
_DISCARD = """
insert into {schema}._discards (_event_id, table_name, reason, body, load_id) values (%s, %s, %s, %s, %s)
"""
_KEPT_DISCARDS = "select count(*) from {schema}._discards"


class Statements:
    """The statements for one dataset, composed once; names never reach SQL unquoted."""

    def __init__(self, dataset: str) -> None:
        self._dataset = dataset
        schema = sql.Identifier(dataset)
        self.load = sql.SQL(_LOAD).format(schema=schema)
        self.receipt = sql.SQL(_RECEIPT).format(schema=schema)
        self.letter = sql.SQL(_LETTER).format(schema=schema)
        self.open_letters = sql.SQL(_OPEN_LETTERS).format(schema=schema)
        self.open_of = sql.SQL(_OPEN_OF).format(schema=schema)
        self.resolve = sql.SQL(_RESOLVE).format(schema=schema)
        self.discard = sql.SQL(_DISCARD).format(schema=schema)
        self.kept_discards = sql.SQL(_KEPT_DISCARDS).format(schema=schema)
        self._copy = lru_cache(maxsize=2048)(self._compose_copy)

    def copy(self, plan: TablePlan) -> sql.Composed:
        """COPY that names its columns: without the list, a column added meanwhile would break it."""
        return self._copy(plan.table.name, tuple(plan.columns))

    def present(self, table: str) -> sql.Composed:
        """Which of given root rows are in the table."""
        return sql.SQL(_PRESENT).format(table=sql.Identifier(self._dataset, table))

    def delete_orphans(self, table: str) -> sql.Composed:
        """Remove child rows whose root row is gone and comes back."""
        return sql.SQL(_DELETE_ORPHANS).format(table=sql.Identifier(self._dataset, table))

    def _compose_copy(self, table: str, columns: tuple[str, ...]) -> sql.Composed:
        return sql.SQL(_COPY).format(
            table=sql.Identifier(self._dataset, table),
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        )
