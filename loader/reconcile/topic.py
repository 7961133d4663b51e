"""The topic's own count of published messages (Cloud Monitoring) against what the receipts account for."""

from __future__ import annotations

import datetime
import json
from typing import Any
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from loader.reconcile.gap import Checked, Gap
from loader.status.monitoring import HOST, NEEDED, Fetch, rfc3339
from loader.words import counted

# Figures come up to four minutes late: https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-pubsub
LATE = datetime.timedelta(minutes=5)
_ACCOUNTED = """
select coalesce(sum(event_count + duplicate_count + dead_letter_count + discard_count), 0)::bigint from {}
where load_id >= %s and committed_at >= %s
"""


def compare_topic(
    conn: psycopg.Connection[Any],
    dataset: str,
    topic: str,
    since: datetime.datetime,
    now: datetime.datetime,
    load_id: str,
    backlog: int,
    fetch: Fetch,
) -> Checked:
    """`backlog` are messages that still wait. An array is one message and many events, and a redelivery is accounted
    for again, so this finds losses only where both are rare; what it finds is one. Raises psycopg.Error, OSError."""
    status, body = fetch(published_url(topic, since, now - LATE))
    if status != 200:
        why = NEEDED if status in (401, 403) else f"Cloud Monitoring answers {status}"
        return Checked("topic", f"not compared ({why})")
    points = [point for series in json.loads(body).get("timeSeries", ()) for point in series.get("points", ())]
    published = sum(int(point["value"]["distributionValue"].get("count", 0)) for point in points)
    query = sql.SQL(_ACCOUNTED).format(sql.Identifier(dataset, "_receipts"))
    row = conn.execute(query, (load_id, since)).fetchone()
    accounted = (row[0] if row else 0) + backlog
    text = f"{counted(published, 'message')} published, {counted(accounted, 'event')} accounted for or waiting"
    if published <= accounted:
        return Checked("topic", text)
    detail = f"{counted(published - accounted, 'message')} neither loaded nor waiting"
    return Checked("topic", text, (Gap("topic", topic, published, accounted, detail),))


def published_url(topic: str, since: datetime.datetime, until: datetime.datetime) -> str:
    """Asks how many messages were published; the metric is a distribution of their sizes."""
    _, project, _, name = topic.split("/")
    seconds = max(60, int((until - since).total_seconds()) // 60 * 60)
    query = {
        "filter": f'metric.type = "pubsub.googleapis.com/topic/message_sizes" AND resource.labels.topic_id = "{name}"',
        "interval.startTime": rfc3339(until - datetime.timedelta(seconds=seconds)),
        "interval.endTime": rfc3339(until),
        "aggregation.alignmentPeriod": f"{seconds}s",
        "aggregation.perSeriesAligner": "ALIGN_DELTA",
    }
    return f"{HOST}/v3/projects/{project}/timeSeries?{urlencode(query)}"
