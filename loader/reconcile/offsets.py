"""Gaps in Kafka offsets, by partition, from event ids as the bridge writes them (loader/bridge/identity.py)."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg
from psycopg import sql

from loader.reconcile.gap import MOST_LISTED, Checked, Gap
from loader.reconcile.layout import Layout
from loader.words import counted

# [epoch/]cluster/topic/partition/offset, then pipeline and copies. Without an epoch is tried first: a copy's number
# at the end must not be taken for an offset.
_PARSE = sql.SQL("""coalesce(
    regexp_match(id, '^([^/]+/[^/]+)/([0-9]{1,9})/([0-9]{1,18})(/|$)'),
    regexp_match(id, '^([^/]+/[^/]+/[^/]+)/([0-9]{1,9})/([0-9]{1,18})(/|$)'))""")
_GAPS = """
with ids as ({ids}),
parsed as (select {parse} as m, at from ids where at >= %(from)s or %(from)s is null),
offsets as (
    select m[1] as topic, m[2]::bigint as number, m[3]::bigint as position, max(at) as at
    from parsed where m is not null group by 1, 2, 3),
neighbours as (
    select topic, number, position, lead(position) over pair as next, lead(at) over pair as next_at
    from offsets window pair as (partition by topic, number order by position))
select topic, number, position + 1, next - 1, next_at <= %(settled)s or next_at is null
from neighbours where next > position + 1 and (next_at >= %(since)s or %(since)s is null)
order by 5 desc, 1, 2, 3 limit %(limit)s
"""
_COUNT = """
with ids as ({ids}), parsed as (select {parse} as m from ids where at >= %(since)s or %(since)s is null)
select count(distinct (m[1], m[2])), count(distinct (m[1], m[2], m[3])) from parsed where m is not null
"""
# Partitions are loaded side by side: around `since` a message may have been published before its neighbour.
_MARGIN = datetime.timedelta(hours=1)


def find_gaps(
    conn: psycopg.Connection[Any], layout: Layout, since: datetime.datetime | None, settled: datetime.datetime
) -> Checked:
    """Offsets that no row, dead letter or discard has, between two that are there.

    A gap below a message that was published after `settled` is no gap yet: its messages may be on their way. Raises
    psycopg.Error."""
    values = {
        "from": None if since is None else since - _MARGIN,
        "since": since,
        "settled": settled,
        "limit": MOST_LISTED,
    }
    ids = _ids(layout)
    partitions, offsets = conn.execute(sql.SQL(_COUNT).format(ids=ids, parse=_PARSE), values).fetchone() or (0, 0)
    gaps: list[Gap] = []
    moving = 0
    for topic, number, first, last, is_settled in conn.execute(
        sql.SQL(_GAPS).format(ids=ids, parse=_PARSE), values
    ).fetchall():
        if not is_settled:
            moving += 1
            continue
        missing = last - first + 1
        which = f"offset {first}" if missing == 1 else f"offsets {first} to {last}"
        gaps.append(Gap("offsets", f"{topic} partition {number}", missing, 0, f"{which} missing"))
    text = f"{counted(offsets, 'offset')} of {counted(partitions, 'partition')}"
    return Checked("offsets", f"{text}; {counted(moving, 'gap')} may still fill" if moving else text, tuple(gaps))


def _ids(layout: Layout) -> sql.Composed:
    parts: list[sql.Composable] = []
    for name in layout.event_tables:
        known = "_published_at" in layout.columns[name]
        at = sql.Identifier("_published_at") if known else sql.SQL("null::timestamptz")
        parts.append(_select("_event_id", at, layout.dataset, name))
    parts.append(_select("_event_id", sql.Identifier("published_at"), layout.dataset, "_dead_letters"))
    parts.append(_select("_event_id", sql.Identifier("created_at"), layout.dataset, "_discards"))
    return sql.SQL(" union all ").join(parts)


def _select(column: str, at: sql.Composable, dataset: str, table: str) -> sql.Composed:
    query = sql.SQL("select {column} as id, {at} as at from {table} where {column} is not null")
    return query.format(column=sql.Identifier(column), at=at, table=sql.Identifier(dataset, table))
