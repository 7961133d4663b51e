"""Figures of a picture in words for people: spans, counts, sizes. The same on a terminal and on the page."""

from __future__ import annotations

import datetime

from loader.status.picture import Backlog, Picture, WorkerStatus
from loader.words import counted

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def span(seconds: float | None) -> str:
    """A length of time in its two largest units; – when there is none."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    for size, unit, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    raise AssertionError(seconds)


def ago(moment: datetime.datetime | None, now: datetime.datetime) -> str:
    """How long ago; a moment that is still to come by another clock is now."""
    return "–" if moment is None else f"{span(max(0.0, (now - moment).total_seconds()))} ago"


def count(number: float | None) -> str:
    """A number with its thousands apart; below ten with a digit behind the point."""
    if number is None:
        return "–"
    if number == int(number) or number >= 10:
        return f"{number:,.0f}"
    return f"{number:.1f}"


def size(number: float) -> str:
    """Bytes in the largest unit of which there is one."""
    for unit in _SIZES[:-1]:
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} {_SIZES[-1]}"


def held(worker: WorkerStatus, now: datetime.datetime) -> str:
    """What a worker held when it was last seen, and how long ago that was unless it held nothing."""
    number = count(worker.messages_held)
    return f"{number}, {ago(worker.seen_at, now)}" if worker.messages_held else number


def headline(picture: Picture) -> list[tuple[str, str]]:
    """The lines above the tables: name and value."""
    backlog = picture.backlog or Backlog(note="not asked for")
    version = "none yet" if picture.schema_version is None else str(picture.schema_version)
    if picture.schema_changed_at is not None:
        version += f", changed {ago(picture.schema_changed_at, picture.taken_at)}"
    return [
        ("dataset", picture.dataset),
        ("backlog", backlog.note if backlog.messages is None else counted(backlog.messages, "message")),
        ("oldest unacked", backlog.note if backlog.oldest_seconds is None else span(backlog.oldest_seconds)),
        ("workers", _workers(picture)),
        ("dead letters", f"{count(picture.open_letters)} open"),
        ("schema version", version),
    ]


def _workers(picture: Picture) -> str:
    if picture.workers is None:
        return "unknown (no worker of this version has run yet)"
    alerts = sum(worker.alert is not None for worker in picture.workers)
    text = f"{len(picture.workers)} seen in the last minute"
    return f"{text}, {alerts} with an alert" if alerts else text
