"""The loader without a subscription: a real lane that loads messages from memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

from loader.bench.messages import TABLE_KEY, messages
from loader.bench.prefill import prefill
from loader.database.connection import Database
from loader.database.conninfo import parse_conninfo
from loader.errors import LoaderError
from loader.message.message import Message
from loader.settings.declaration import Settings
from loader.worker.assembly import Parts
from loader.worker.batch import MessageBatch
from loader.worker.intake import Intake
from loader.worker.lane import Lane

_LOCK_TIMEOUT_MS = 10_000
_TEACHING = 1_000


class Silent:
    """Nobody is told how the database does: an error ends the benchmark."""

    def database_failed(self, error: BaseException) -> None:
        raise LoaderError(f"the database failed under the benchmark: {error}") from error

    def database_works(self) -> None:
        pass


class Target:
    """One dataset and a lane that loads into it."""

    def __init__(self, url: str, dataset: str, **settings: Any) -> None:
        self.dataset = dataset
        self.settings = Settings(dataset=dataset, table_key=TABLE_KEY, **settings)
        self.parts = Parts(self.settings, Database(parse_conninfo(url, {})), Silent())
        self.intake: Intake = self.parts.intake()
        self.lane: Lane = self.parts.lane("bench", self.intake)
        self.rows = 0

    @property
    def conn(self) -> psycopg.Connection:
        """The lane's connection, in autocommit mode."""
        return self.lane.connection()

    def teach(self, taught: Sequence[Message]) -> None:
        """Learn and load messages of kinds that may be new. Raises LoaderError when one cannot be stored."""
        for loaded in self.lane.store(MessageBatch(self.intake, taught)):
            if loaded.misfits:
                snapshot, _lesson = self.parts.learner.learn(
                    self.conn, loaded.misfits, self.intake.source, _LOCK_TIMEOUT_MS
                )
                self.lane.offer(snapshot)
                self.load(taught)

    def load(self, batch: Sequence[Message]) -> None:
        """Load a bundle; every message must become rows. Raises LoaderError when one does not."""
        for loaded in self.lane.store(MessageBatch(self.intake, batch)):
            load = loaded.load
            if loaded.misfits or load.dead or load.held:
                raise LoaderError(
                    f"the benchmark's messages did not all load: {len(loaded.misfits)} misfits, {len(load.dead)} dead"
                )
            self.rows += sum(len(rows.rows) for rows in load.tables())

    def tables(self) -> list[str]:
        """Names of the dataset's event tables."""
        found = self.conn.execute(
            "select tablename from pg_catalog.pg_tables where schemaname = %s and left(tablename, 1) <> '_'",
            (self.dataset,),
        )
        return sorted(row[0] for row in found)

    def close(self) -> None:
        """Close the lane's connection."""
        self.lane.close()


def prepared_target(url: str, shape: str, prefilled: int) -> tuple[Target, Iterator[int]]:
    """A target whose tables know the shape and hold `prefilled` rows; and numbers that no message had yet."""
    target = Target(url, f"bench_{shape}")
    target.teach(messages(shape, _TEACHING))
    prefill(target.conn, target.dataset, target.tables(), prefilled)
    return target, count(_TEACHING)


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage collection as in a running worker: what is there is frozen, and no collection while a bundle is built."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
