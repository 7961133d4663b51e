"""A refill from a raw column: new columns of rows that are there get their values, in Postgres alone.

Rows are read in the order of `_dlt_id`, a bounded batch at a time. What a batch asks for is learned first, with no
transaction open; then one short transaction locks its rows, fills what is null, adds child rows that are missing and
notes how far it has come. Whatever has a value keeps it; killed anywhere, it goes on where it was."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from loader.backfill.lenient import Lenient
from loader.backfill.store import Backfill, BackfillStore
from loader.copy.load_id import LoadIds
from loader.errors import LoaderError
from loader.learn.learner import Learner
from loader.learn.settled import Settled
from loader.message.body import loads, parse_exactly
from loader.message.identity import digest, dlt_id
from loader.message.message import Event, Message, Refused
from loader.plan import names
from loader.plan.book import CHILD_FIRST, ROOT_FIRST, Book
from loader.plan.fit import Rows
from loader.plan.fitting import Fitted, Source, fit_events
from loader.settings.declaration import Settings
from loader.words import counted
from loader.worker.assembly import plan_rules, worker_name

BATCH = 1_000
_BATCH_BYTES = 16 * 1024 * 1024
_LOCK_TIMEOUTS_MS = (100, 200, 400, 800, 1_600, 3_200, 6_400, 8_000, 8_000, 8_000)
_KEPT = frozenset({*ROOT_FIRST, *CHILD_FIRST, names.ATTRIBUTES, names.RAW})
_ENVELOPE = "specversion"

# Pages by size: a row of 10 MB must not come a thousand times.
_PAGE = """
select row_id, event_id, event_digest, published, body, enveloped from (
    select _dlt_id as row_id, _event_id as event_id, _event_digest as event_digest,
           (extract(epoch from _published_at) * 1000000)::bigint as published, {column}::text as body,
           {enveloped} as enveloped, sum(octet_length({column}::text)) over (order by _dlt_id) as size,
           row_number() over (order by _dlt_id) as position
    from (select * from {table} where _dlt_id > %s and {column} is not null order by _dlt_id limit %s) page) sized
where size <= %s or position = 1 order by row_id
"""
_FILL = """
update {table} t set {assignments} from {stage} s
where t._dlt_id = s._dlt_id and ({needed})
"""
_ADD = """
insert into {table} ({columns}) select {picked} from {stage} s
where not exists (select 1 from {table} t where t._dlt_id = s._dlt_id)
"""


@dataclass(frozen=True, slots=True)
class RefillPlan:
    """What a refill will do."""

    table: str
    column: str
    rows: int
    """About so many, as of the last ANALYZE."""
    resumed: str | None
    text: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Refilled:
    """So far; `rows_read` and `rows_filled` count earlier runs of the same refill, too."""

    backfill_id: str
    rows_read: int
    rows_filled: int
    refused: int
    """Rows of this run whose raw value is no JSON object or can never be stored; they stay as they are."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Refill:
    """Of one root table. `_raw` is a whole body and teaches columns; another column only fills what there is."""

    def __init__(self, settings: Settings, conn: psycopg.Connection[Any], table: str, column: str) -> None:
        """`conn` is in autocommit mode."""
        self._settings = settings
        self._conn = conn
        self._table = table
        self._column = column
        # The loader's own columns are there already and stay as they are.
        self._rules = replace(plan_rules(settings), keep_attributes=False, keep_raw=False)
        self._learner = Learner(settings.dataset, self._rules, settings.schema_contract, worker_name())
        self._store = BackfillStore(conn, settings.dataset)
        self._load_ids = LoadIds()
        self._bodies: dict[str, bytes] = {}
        self._source = Source(record=self._record, exact=self._exact)
        self._request = {"from_raw": table, "column": column}
        self.backfill_id = ""

    def plan(self) -> RefillPlan:
        """What there is to do. Raises LoaderError when nothing can be filled."""
        dataset = self._settings.dataset
        columns = {
            row[0]: row[1]
            for row in self._conn.execute(
                "select a.attname::text, format_type(a.atttypid, null) from pg_catalog.pg_attribute a"
                " where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped",
                (sql.Identifier(dataset, self._table).as_string(self._conn),),
            )
        }
        if not columns:
            raise LoaderError(f"dataset {dataset} has no table {self._table}")
        if names.EVENT_ID not in columns or names.DLT_PARENT_ID in columns:
            raise LoaderError(f"{self._table} is no root table of the loader: --from-raw refills root tables")
        if self._column not in columns:
            cure = ": LOADER_KEEP_RAW=true keeps it from now on; replay with --since, or name another by --column"
            raise LoaderError(
                f"table {self._table} has no column {self._column}{cure if self._column == names.RAW else ''}"
            )
        if columns[self._column] not in ("jsonb", "json", "text", "character varying"):
            raise LoaderError(
                f"column {self._column} of {self._table} is {columns[self._column]}: JSON objects are jsonb or text"
            )
        row = self._conn.execute(
            "select greatest(reltuples, 0)::bigint from pg_catalog.pg_class where oid = to_regclass(%s)",
            (sql.Identifier(dataset, self._table).as_string(self._conn),),
        ).fetchone()
        rows = int(row[0]) if row else 0
        found = self._unfinished() if self._store.exists else None
        resumed = found.backfill_id if found is not None else None
        text = f"{dataset}.{self._table}: what is null is filled from {self._column}, {BATCH:,} rows a transaction"
        text += f"; about {counted(rows, 'row')}" if rows else ""
        text += "; columns and tables that are missing are made" if self._teaches else ""
        text += f"; goes on with {resumed}" if resumed else ""
        return RefillPlan(self._table, self._column, rows, resumed, text)

    def run(self) -> Iterator[Refilled]:
        """Refill, batch by batch. Raises LoaderError, psycopg.Error; what was committed stays."""
        self._learner.prepare(self._conn)
        found = self._unfinished()
        if found is None:
            self.backfill_id = f"refill-{self._store.now():%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"
            self._store.insert(self.backfill_id, self._request, aside=False, replace=False, position="")
            found = self._store.get(self.backfill_id)
        self.backfill_id = found.backfill_id
        position, refused = found.position or "", 0
        book = self._book()
        while True:
            page = self._page(position)
            if not page:
                break
            position = page[-1][0]
            events, unread = self._events(page)
            fitted, book = self._fit(events, book)
            refused += unread + len(fitted.refused) + len(fitted.misfits)
            with self._conn.transaction():
                filled = self._write(fitted)
                self._store.advance(self.backfill_id, position, len(page), filled)
            names.trim_caches()
            found = self._store.get(self.backfill_id)
            yield Refilled(self.backfill_id, found.rows_read, found.rows_filled, refused)
        self._store.end(self.backfill_id, "done")
        yield Refilled(self.backfill_id, found.rows_read, found.rows_filled, refused)

    @property
    def _teaches(self) -> bool:
        return self._column == names.RAW

    def _unfinished(self) -> Backfill | None:
        for found in self._store.open(None):
            if dict(found.request) == self._request:
                return found
        return None

    def _book(self) -> Book:
        return self._learner.read(self._conn).book(self._rules)

    # --- reading ------------------------------------------------------------------------------------------------

    def _page(self, after: str) -> list[tuple[Any, ...]]:
        table = self._book().tables.get(self._table)
        if table is None:
            raise LoaderError(f"table {self._table} is gone")
        # A CloudEvent in binary mode keeps its context in columns, and its data alone in the body.
        binary = self._teaches and _ENVELOPE in table.columns
        query = sql.SQL(_PAGE).format(
            column=sql.Identifier(self._column),
            table=sql.Identifier(self._settings.dataset, self._table),
            enveloped=sql.SQL("specversion is not null") if binary else sql.SQL("false"),
        )
        return self._conn.execute(query, (after, BATCH, _BATCH_BYTES)).fetchall()

    def _events(self, page: list[tuple[Any, ...]]) -> tuple[list[Event], int]:
        """The page's events, and how many of its rows hold none."""
        self._bodies = {}
        events: list[Event] = []
        for row_id, event_id, stored_digest, published, body, enveloped in page:
            if event_id is None or dlt_id(event_id) != row_id:
                continue  # another program's row: nothing says what its event was
            data = body.encode()
            try:
                value = loads(data)
            except Refused:
                value = None
            if not isinstance(value, dict):
                continue
            if enveloped and _ENVELOPE not in value:
                data = b'{"data":' + data + b"}"
                value = {"data": value}
            self._bodies[event_id] = data
            message = Message(row_id, event_id, data, {}, published or 0, 0)
            known = stored_digest if stored_digest is not None else digest(data)
            events.append(Event(message, event_id, known, self._table, value))
        return events, len(page) - len(events)

    def _record(self, event: Event) -> dict[str, Any]:
        record: dict[str, Any] = loads(self._bodies[event.identity])
        return record

    def _exact(self, event: Event) -> dict[str, Any]:
        record: dict[str, Any] = parse_exactly(self._bodies[event.identity])
        return record

    # --- fitting ------------------------------------------------------------------------------------------------

    def _fit(self, events: list[Event], book: Book) -> tuple[Fitted, Book]:
        load_id = self._load_ids.next()
        if not self._teaches:
            return fit_events(book, events, load_id, self._source, Lenient(self._rules)), book
        fitted = fit_events(book, events, load_id, self._source)
        if not fitted.misfits:
            return fitted, book
        book = self._learn(fitted.misfits)
        return fit_events(
            book, events, load_id, self._source, Settled(self._rules, self._settings.schema_contract)
        ), book

    def _learn(self, misfits: list[Event]) -> Book:
        """Lock waits grow as a worker's do; an operator may be asked to try again in the end."""
        for timeout in _LOCK_TIMEOUTS_MS:
            try:
                snapshot, _lesson = self._learner.learn(self._conn, misfits, self._source, timeout)
            except psycopg.errors.LockNotAvailable:
                continue
            return snapshot.book(self._rules)
        raise LoaderError(
            f"table {self._table} is locked by others for too long to add columns; run the same command again to go on"
        )

    # --- writing ------------------------------------------------------------------------------------------------

    def _write(self, fitted: Fitted) -> int:
        """Fill and add; the number of rows that were changed or made. Rows that went meanwhile stay away."""
        query = sql.SQL("select _dlt_id from {} where _dlt_id = any(%s) order by _dlt_id for update").format(
            sql.Identifier(self._settings.dataset, self._table)
        )
        there = {row[0] for row in self._conn.execute(query, (fitted.row_ids,)).fetchall()}
        alive = {sequence for sequence, row_id in enumerate(fitted.row_ids) if row_id in there}
        changed = 0
        for number, name in enumerate(sorted(fitted.tables)):
            changed += self._write_table(fitted.tables[name], alive, f"refill_stage_{number}")
        return changed

    def _write_table(self, rows: Rows, alive: set[int], stage_name: str) -> int:
        plan = rows.plan
        kept = [row for row, owner in zip(rows.rows, rows.owners, strict=True) if owner in alive]
        payload = [name for name in plan.columns if name not in _KEPT and name != self._column]
        if not kept:
            return 0
        table, stage = sql.Identifier(self._settings.dataset, plan.table.name), sql.Identifier(stage_name)
        columns = sql.SQL(", ").join(map(sql.Identifier, plan.columns))
        changed = 0
        with self._conn.cursor() as cursor:
            cursor.execute(
                sql.SQL("create temporary table {} on commit drop as select {} from {} with no data").format(
                    stage, columns, table
                )
            )
            with cursor.copy(sql.SQL("copy {} ({}) from stdin").format(stage, columns)) as copy:
                for row in kept:
                    copy.write_row(row)
            if payload:
                changed += cursor.execute(
                    sql.SQL(_FILL).format(
                        table=table,
                        stage=stage,
                        assignments=sql.SQL(", ").join(
                            sql.SQL("{0} = coalesce(t.{0}, s.{0})").format(sql.Identifier(name)) for name in payload
                        ),
                        needed=sql.SQL(" or ").join(
                            sql.SQL("(t.{0} is null and s.{0} is not null)").format(sql.Identifier(name))
                            for name in payload
                        ),
                    )
                ).rowcount
            if plan.path[1:]:
                picked = sql.SQL(", ").join(sql.SQL("s.{}").format(sql.Identifier(name)) for name in plan.columns)
                changed += cursor.execute(
                    sql.SQL(_ADD).format(table=table, stage=stage, columns=columns, picked=picked)
                ).rowcount
            cursor.execute(sql.SQL("drop table {}").format(stage))
        return changed
