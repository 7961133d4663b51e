"""Drives the loader's core as a worker does, step by step and in one thread: messages in, committed rows out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from loader.database.connection import Database
from loader.database.conninfo import parse_conninfo
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.message.message import Event, Message
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts
from loader.worker.batch import Batch, EventBatch, MessageBatch
from loader.worker.held import HeldEvents
from loader.worker.lane import Abandoned, Loaded
from loader.worker.learning import Learning
from loader.worker.settlement import Settlement

PUBLISHED = 1_764_504_000_000_000
"""2025-11-30 12:00 UTC in microseconds."""
OWN = frozenset(
    {"_dlt_id", "_dlt_load_id", "_dlt_parent_id", "_dlt_list_idx", "_event_id", "_event_digest", "_published_at"}
)

_ack_ids = itertools.count()


class Patience:
    """Counts failures of the database, and ends the lanes' patience after so many."""

    def __init__(self, parts: Parts | None = None, limit: int = 6) -> None:
        self.parts = parts
        self.limit = limit
        self.errors: list[BaseException] = []

    def database_failed(self, error: BaseException) -> None:
        self.errors.append(error)
        if len(self.errors) >= self.limit and self.parts is not None:
            self.parts.abort.set()

    def database_works(self) -> None:
        pass


class Loading:
    """The core of one worker on one dataset."""

    def __init__(self, url: str, *, patience: int = 6, **settings: Any) -> None:
        self.url = url
        settings.setdefault("table_key", "eventName")
        self.settings = Settings(**settings)
        self.dataset: str = self.settings.dataset
        self.patience = Patience(limit=patience)
        self.parts = Parts(self.settings, Database(parse_conninfo(url, {})), self.patience)
        self.patience.parts = self.parts
        self.acked: Counter[str] = Counter()
        """Message id → how often it was acked."""
        self.nacked: Counter[str] = Counter()
        self.settlement = Settlement(
            lambda messages: self.acked.update(message.message_id for message in messages),
            lambda messages: self.nacked.update(message.message_id for message in messages),
        )
        self.intake, self._learning_intake = self.parts.intake(self.settlement), self.parts.intake(self.settlement)
        self.lane = self.parts.lane("load", self.intake)
        self.learning_lane = self.parts.lane("learn", self._learning_intake, self.parts.settled)
        self.now = 0.0
        self.held = HeldEvents(lambda: self.now)
        self.loads: list[Loaded] = []
        self.lessons: list[Lesson] = []
        self._conn: psycopg.Connection[Any] | None = None

    # --- loading ------------------------------------------------------------------------------------------------

    def load(self, bodies: Iterable[Any], ids: Iterable[str] | None = None, **attributes: str) -> list[Message]:
        """Load one bundle: bodies are bytes, text, or values that become JSON. Returns its messages."""
        messages = self.messages(bodies, ids, attributes)
        self.load_messages(messages)
        return messages

    def messages(
        self, bodies: Iterable[Any], ids: Iterable[str] | None = None, attributes: Mapping[str, str] | None = None
    ) -> list[Message]:
        """Deliveries of these bodies; without `ids`, ids that no other message of this process has."""
        result = []
        given = iter(ids) if ids is not None else None
        for body in bodies:
            number = next(_ack_ids)
            data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
            message_id = next(given) if given is not None else f"m{number:08d}"
            result.append(Message(f"ack{number}", message_id, data, attributes or {}, PUBLISHED + number, 0))
        return result

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Load deliveries as one bundle, and learn what does not fit."""
        try:
            stored = self.lane.store(MessageBatch(self.intake, messages))
        except Abandoned:
            self.settlement.give_back(messages)
            return
        self.settlement.settle_messages(list(self.intake.refused.values()))
        misfits = self._settle(stored, 0)
        self.learn(misfits)

    def learn(self, events: list[Event]) -> None:
        """Learn misfits and load them."""
        if not events:
            return
        learning = Learning(self.learning_lane, lambda loaded: self._learned(loaded), self._lesson, self._give_back)
        learning.add(events)
        learning.finish()
        learning.run()
        self._learning_intake.forget()

    def retry_held(self, rounds: int = 1) -> int:
        """Try held events again as the worker does once their time has come; returns how many are still held."""
        for _ in range(rounds):
            self.now += 60
            due = []
            while (waiting := self.held.due()) is not None:
                due.append(waiting)
            for waiting in due:
                batch: Batch = EventBatch(
                    waiting.held.events, attempt=waiting.attempt, minority=not waiting.held.majority
                )
                try:
                    stored = self.lane.store(batch)
                except Abandoned:
                    self._give_back(waiting.held.events)
                    continue
                self.learn(self._settle(stored, waiting.attempt))
        return len(self.held)

    def _settle(self, stored: list[Loaded], attempt: int) -> list[Event]:
        misfits: list[Event] = []
        for loaded in stored:
            self.loads.append(loaded)
            load = loaded.load
            for events in (load.loaded(), load.duplicates, load.dead):
                self.settlement.settle(events)
            for held in load.held:
                self.held.add(held, attempt + 1)
            misfits += loaded.misfits
        self.intake.forget()
        return misfits

    def _learned(self, loaded: Loaded) -> None:
        assert not self._settle([loaded], 0), "what learning gives back as loaded holds no misfits"

    def _lesson(self, snapshot: Snapshot, lesson: Lesson) -> None:
        self.lessons.append(lesson)
        self.lane.offer(snapshot)

    def _give_back(self, events: list[Event]) -> None:
        self.settlement.give_back([event.message for event in events])

    def assert_settled(self, messages: Iterable[Message]) -> None:
        """Every delivery was acked once, and none given back."""
        wanted = Counter(message.message_id for message in messages)
        assert wanted == Counter({key: count for key, count in self.acked.items() if key in wanted})
        assert not self.nacked.keys() & wanted.keys()

    # --- looking ------------------------------------------------------------------------------------------------

    @property
    def conn(self) -> psycopg.Connection[Any]:
        """A connection of the test's own, in autocommit."""
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(self.url, autocommit=True, options="-c TimeZone=UTC")
        return self._conn

    def execute(self, statement: str, *arguments: Any) -> psycopg.Cursor[Any]:
        """Run SQL with the dataset as search path."""
        self.conn.execute(sql.SQL("set search_path to {}").format(sql.Identifier(self.dataset)))
        return self.conn.execute(statement.encode(), arguments or None)

    def tables(self) -> list[str]:
        """The tables of events, without internal ones."""
        found = self.conn.execute(
            "select relname from pg_class where relnamespace = to_regnamespace(%s) and relkind in ('r', 'p')"
            " and left(relname, 1) <> '_' order by relname",
            (sql.Identifier(self.dataset).as_string(self.conn),),
        )
        return [name for (name,) in found]

    def columns(self, table: str) -> dict[str, str]:
        """Column → type, without the loader's and dlt's own."""
        found = self.conn.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute"
            " where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum",
            (sql.Identifier(self.dataset, table).as_string(self.conn),),
        )
        # dlt writes its text as `character varying` without a length: the same thing.
        return {name: kind.replace("character varying", "text") for name, kind in found if name not in OWN}

    def rows(self, table: str, order: str = "_event_id", own: bool = False) -> list[dict[str, Any]]:
        """Rows without nulls, and without the loader's and dlt's own columns unless asked for."""
        statement = sql.SQL("select * from {} order by {}").format(
            sql.Identifier(self.dataset, table),
            sql.SQL(order),  # type: ignore[arg-type]
        )
        with self.conn.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(statement).fetchall()
        return [
            {key: value for key, value in row.items() if value is not None and (own or key not in OWN)} for row in found
        ]

    def count(self, table: str) -> int:
        """Number of rows."""
        statement = sql.SQL("select count(*) from {}").format(sql.Identifier(self.dataset, table))
        return int(self.conn.execute(statement).fetchone()[0])  # type: ignore[index]

    def letters(self) -> list[dict[str, Any]]:
        """Open dead letters."""
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(
                sql.SQL("select * from {} where resolved_at is null order by _event_id, letter_id").format(
                    sql.Identifier(self.dataset, "_dead_letters")
                )
            ).fetchall()

    def children(self, parent: str, child: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """(parent row, child row) of every child row, in order; a child without a parent is an error."""
        parents = {row["_dlt_id"]: row for row in self.rows(parent, "_dlt_id", own=True)}
        pairs = [
            (parents[row["_dlt_parent_id"]], row) for row in self.rows(child, "_dlt_parent_id, _dlt_list_idx", own=True)
        ]
        return [
            tuple({k: v for k, v in row.items() if k not in OWN} for row in pair)  # type: ignore[misc]
            for pair in pairs
        ]

    def close(self) -> None:
        """Close all connections."""
        self.lane.close()
        self.learning_lane.close()
        if self._conn is not None:
            self._conn.close()
