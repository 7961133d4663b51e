"""One line for each load, as structured fields for Cloud Logging."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from loader.bundle.window import Bundle
from loader.learn.learner import Snapshot
from loader.learn.lesson import Lesson
from loader.worker.lane import Loaded

log = logging.getLogger("loader.load")


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What one transaction stored. Ages are publish to commit, in seconds."""

    load_id: str
    closed_by: str
    """What closed the bundle, or `learned` for events that came apart."""
    messages: int
    events: int
    rows: int
    tables: dict[str, int] = field(default_factory=dict)
    """Rows of each table."""
    oldest_by_table: dict[str, float] = field(default_factory=dict)
    duplicates: int = 0
    dead_letters: int = 0
    letters_by_reason: dict[tuple[str, str], int] = field(default_factory=dict)
    """(table or empty, reason) → letters."""
    discarded: int = 0
    held: int = 0
    misfits: int = 0
    fit_seconds: float = 0.0
    copy_seconds: float = 0.0

    @property
    def oldest(self) -> float:
        """Age of the oldest event stored, 0 when none was."""
        return max(self.oldest_by_table.values(), default=0.0)


def report_of(bundle: Bundle | None, loaded: Loaded, committed_at: float) -> LoadReport:
    """Sum a load up; once a load, so that the way of a message stays short."""
    load, fitted = loaded.load, loaded.load.fitted
    tables = {rows.plan.table.name: len(rows.rows) for rows in load.tables()}
    letters: dict[tuple[str, str], int] = {}
    for letter in load.letters:
        key = (letter.table or "", letter.reason)
        letters[key] = letters.get(key, 0) + 1
    return LoadReport(
        load_id=fitted.load_id,
        closed_by=bundle.closed_by if bundle is not None else "learned",
        messages=len(bundle.messages) if bundle is not None else 0,
        events=load.live,
        rows=sum(tables.values()),
        tables=tables,
        oldest_by_table={root: committed_at - min(moments) / 1e6 for root, moments in load.moments.items()},
        duplicates=len(load.duplicates),
        dead_letters=len(load.letters),
        letters_by_reason=letters,
        discarded=load.discard_count,
        held=sum(len(held.events) for held in load.held),
        misfits=len(loaded.misfits),
        fit_seconds=loaded.fit_seconds,
        copy_seconds=loaded.copy_seconds,
    )


def log_load(report: LoadReport) -> None:
    """The INFO line of a load. Tables are named up to 20, so that a line stays a line."""
    log.info(
        "loaded %d events as %d rows into %d tables in %.2f s: %d duplicates, %d dead letters, age %.1f s%s",
        report.events,
        report.rows,
        len(report.tables),
        report.fit_seconds + report.copy_seconds,
        report.duplicates,
        report.dead_letters,
        report.oldest,
        f"; {report.misfits} more are learned first" if report.misfits else "",
        extra={
            "load_id": report.load_id,
            "closed_by": report.closed_by,
            "messages": report.messages,
            "events": report.events,
            "rows": report.rows,
            "tables": dict(list(report.tables.items())[:20]),
            "duplicates": report.duplicates,
            "dead_letters": report.dead_letters,
            "discarded": report.discarded,
            "misfits": report.misfits,
            "age_seconds": round(report.oldest, 3),
            "seconds": round(report.fit_seconds + report.copy_seconds, 3),
        },
    )
    for (table, reason), count in report.letters_by_reason.items():
        log.warning(
            "%d dead letters: %s", count, reason, extra={"table": table, "reason": reason, "dead_letters": count}
        )


def log_lesson(snapshot: Snapshot, lesson: Lesson) -> None:
    """The INFO line of a learning."""
    made = [addition for addition in lesson.additions if not addition.exists]
    if not made:
        return
    tables = sorted({addition.table for addition in made if addition.new_table})
    columns = [f"{addition.table}.{addition.column}" for addition in made if not addition.new_table]
    log.info(
        "learned schema version %d: %d new tables, %d new columns",
        snapshot.stored.version,
        len(tables),
        len(columns),
        extra={
            "schema_version": snapshot.stored.version,
            "new_tables": _some(tables, 20),
            "new_columns": _some(columns, 50),
        },
    )


def _some(names: list[str], most: int) -> list[str]:
    """The first of them, and how many more there are, so that a line stays a line."""
    return names if len(names) <= most else [*names[:most], f"… and {len(names) - most} more"]
