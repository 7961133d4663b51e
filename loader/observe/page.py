"""The status page: HTML made here, without script or outside assets, every value escaped.

Bodies and details of dead letters are not shown: the page may be open to more people than the database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from loader.observe.health import Report
from loader.observe.page_plot import plot
from loader.status.picture import HISTORY_MINUTES, ColumnAdded, Picture, WorkerStatus
from loader.status.words import ago, count, headline, held, size, span

REFRESH_SECONDS = 15

# Controls, and what turns the direction of a text about: a table's name must not rearrange its row.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

HEADERS = {
    # Whatever slipped through the escaping could load and run nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--bad:#c0392b;--bar:#2f7ed8}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:70rem}
h1{font-size:1.3rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td{overflow-wrap:anywhere;min-width:4rem}th{font-weight:600;white-space:nowrap}
.n{text-align:right;white-space:nowrap}.bad{color:var(--bad);font-weight:600}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.6rem;margin:1rem 0}
dt{opacity:.7;font-size:.85rem}dd{margin:0;font-size:1.05rem;overflow-wrap:anywhere}
figure{margin:.6rem 0}figcaption{opacity:.8;font-size:.85rem}
svg{width:100%;height:90px}rect{fill:var(--bar)}line{stroke:var(--line)}
footer{opacity:.7;font-size:.85rem;margin-top:2rem}
"""


def render(dataset: str, picture: Picture | None, trouble: str | None, report: Report | None = None) -> bytes:
    """The whole page. `trouble` says why there is no picture, or an old one; `report` is of the worker that serves."""
    parts = [f"<h1>loader: {_text(dataset)}</h1>"]
    if report is not None:
        parts.append(_report(report))
    if trouble is not None:
        parts.append(f'<p class="bad" id="trouble">{_text(trouble)}</p>')
    if picture is not None:
        parts += _picture(picture)
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}"><title>loader: {_text(dataset)}</title>'
        f"<style>{_STYLE}</style></head><body>"
    )
    return (head + "".join(parts) + "</body></html>\n").encode("utf-8", "replace")


def _picture(picture: Picture) -> list[str]:
    now = picture.taken_at
    history = picture.history
    ages = [(minute.at, minute.oldest_age) for minute in history if minute.oldest_age is not None]
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in headline(picture))
    rows = [(minute.at, float(minute.rows)) for minute in history]
    return [
        f"<dl>{facts}</dl>",
        plot("rows a minute", rows, now, HISTORY_MINUTES, count(max((row for _, row in rows), default=0))),
        plot("oldest age at commit", ages, now, HISTORY_MINUTES, span(max((age for _, age in ages), default=None))),
        _table(
            "Tables",
            ["table", "rows ≈", "size", "rows/min", "age p50", "age p99", "last load"],
            [
                (
                    each.name,
                    count(each.rows),
                    size(each.size),
                    count(each.rows_per_minute),
                    span(each.age_p50),
                    span(each.age_p99),
                    ago(each.last_load_at, now) if each.last_load_at else "none in a day",
                )
                for each in picture.tables
            ],
            numbers=range(1, 6),
        ),
        _table(
            "Open dead letters",
            ["reason", "table", "letters", "newest"],
            [(each.reason, each.table, count(each.count), ago(each.newest_at, now)) for each in picture.letters],
            numbers=[2],
        ),
        _table(
            "Last loads",
            ["load", "when", "tables", "rows", "duplicates", "dead letters", "oldest age", "worker"],
            [
                (
                    each.load_id,
                    ago(each.committed_at, now),
                    count(each.tables),
                    count(each.rows),
                    count(each.duplicates),
                    count(each.dead_letters),
                    span(each.oldest_age),
                    each.worker,
                )
                for each in picture.loads
            ],
            numbers=range(2, 7),
        ),
        _table(
            "Schema changes",
            ["when", "table", "column", "type", "first asked for by", "version"],
            [_change(each, picture) for each in picture.changes],
        ),
        _table(
            "Workers",
            ["worker", "version", "up for", "seen", "held", "alert"],
            [_worker(each, picture) for each in picture.workers or ()],
            numbers=[4],
        ),
        f"<footer>as of {_text(now.strftime('%Y-%m-%d %H:%M:%S UTC'))}; renewed every {REFRESH_SECONDS} s</footer>",
    ]


def _change(change: ColumnAdded, picture: Picture) -> tuple[Any, ...]:
    kind = f"{change.data_type} (variant)" if change.is_variant else change.data_type
    when = ago(change.added_at, picture.taken_at)
    return when, change.table, change.column, kind, change.first_event or "the loader", change.version


def _worker(worker: WorkerStatus, picture: Picture) -> tuple[Any, ...]:
    now = picture.taken_at
    return (
        worker.worker,
        worker.version,
        span((now - worker.started_at).total_seconds()),
        ago(worker.seen_at, now),
        held(worker, now),
        worker.alert,
    )


def _report(report: Report) -> str:
    if report.alive and report.ready:
        return '<p id="health">this worker is ready</p>'
    word = "is not ready" if report.alive else "is dead"
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in report.reasons)
    return f'<div id="health" class="bad">this worker {word}<ul>{reasons}</ul></div>'


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] | range = ()
) -> str:
    """A table under its title; nothing but a word where there are no rows."""
    classes = [' class="n"' if index in numbers else "" for index in range(len(columns))]
    head = "".join(f"<th{kind}>{_text(name)}</th>" for name, kind in zip(columns, classes, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{_text(cell)}</td>' for cell, kind in zip(row, classes, strict=True))}</tr>"
        for row in rows
    )
    if not body:
        return f"<h2>{_text(title)}</h2><p>none</p>"
    return f'<h2>{_text(title)}</h2><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _text(value: Any) -> str:
    """Escaped for HTML, and what would turn the direction of the text about shown as an escape; None is empty."""
    if value is None:
        return ""
    return escape(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value)))
