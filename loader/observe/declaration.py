"""Every metric of the loader, declared once: what /metrics serves, how processes are summed, what the README lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "max", "min"]

AGE_BUCKETS = (
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 30.0),
    *(60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0),
)
STEP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LEARNING_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `merge` says how the values of several processes become one; histograms and counters are sums."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Merge = "sum"


METRICS: tuple[Metric, ...] = (
    # Pub/Sub
    Metric("loader_messages_pulled_total", "counter", "Messages received from the subscription, redeliveries too."),
    Metric("loader_message_bytes_pulled_total", "counter", "Bytes of their bodies, as they came."),
    Metric("loader_messages_acked_total", "counter", "Messages acknowledged, each after its commit."),
    Metric("loader_messages_nacked_total", "counter", "Messages given back for others to take."),
    Metric("loader_ack_failures_total", "counter", "Acknowledgements that the service refused."),
    Metric("loader_leases_expired_total", "counter", "Messages whose lease ran out while they were held."),
    Metric("loader_leases_renewed_total", "counter", "Leases extended, counted by message."),
    Metric("loader_stream_reconnects_total", "counter", "Streams opened again; the service closes them by design."),
    Metric("loader_stream_up", "gauge", "1 while messages can arrive, of the worst process.", merge="min"),
    Metric("loader_messages_held", "gauge", "Messages pulled, neither acknowledged nor given back."),
    Metric("loader_message_bytes_held", "gauge", "Bytes of their bodies."),
    Metric("loader_messages_unread", "gauge", "Messages pulled that no bundle has taken yet."),
    # Loading
    Metric("loader_events_loaded_total", "counter", "Events committed, by root table.", ("table",)),
    Metric("loader_rows_loaded_total", "counter", "Rows committed, by table, child tables too.", ("table",)),
    Metric("loader_events_duplicate_total", "counter", "Events that were stored already and were left out."),
    Metric("loader_dead_letters_total", "counter", "Dead letters written, by table and reason.", ("table", "reason")),
    Metric("loader_discards_total", "counter", "Events and values left out by the schema contract.", ("what",)),
    Metric("loader_texts_cleaned_total", "counter", "Texts with U+0000 or a lone surrogate taken out.", ("what",)),
    Metric(
        "loader_bundles_total",
        "counter",
        "Bundles, by what closed them: time, messages, bytes, flow, stop.",
        ("closed_by",),
    ),
    Metric("loader_bundle_messages_total", "counter", "Messages in those bundles."),
    Metric(
        "loader_bundle_seconds",
        "histogram",
        "Seconds that a load spent in a step: fit (decoding included), copy (commit included).",
        ("step",),
        STEP_BUCKETS,
    ),
    Metric(
        "loader_publish_to_commit_age_seconds",
        "histogram",
        "Age of each event when it was committed, from its publish time: the figure to watch.",
        ("table",),
        AGE_BUCKETS,
    ),
    Metric(
        "loader_oldest_unloaded_age_seconds",
        "gauge",
        "Age of the oldest message that was taken and is not stored yet; 0 when there is none.",
        merge="max",
    ),
    Metric(
        "loader_events_waiting",
        "gauge",
        "Events that wait, to be learned or for the database to accept them.",
        ("why",),
    ),
    # Learning
    Metric("loader_learnings_total", "counter", "Times that the schema was learned from events that did not fit."),
    Metric(
        "loader_learning_seconds", "histogram", "Seconds that a learning took, locks included.", (), LEARNING_BUCKETS
    ),
    Metric("loader_columns_added_total", "counter", "Columns added, those of new tables too."),
    Metric("loader_lock_waits_total", "counter", "Learnings put off because a lock was not to be had in time."),
    # Database
    Metric("loader_database_up", "gauge", "0 during an outage of the database, of the worst process.", merge="min"),
    Metric(
        "loader_database_errors_total",
        "counter",
        "Errors of the database, by class of SQLSTATE (two characters; none: no answer).",
        ("sqlstate_class",),
    ),
    Metric("loader_database_outages_total", "counter", "Outages of the database that began."),
    Metric("loader_isolations_total", "counter", "Bundles searched for the rows that the database refused."),
    # Processes
    Metric("loader_ready", "gauge", "1 while /readyz answers 200, of the worst process.", merge="min"),
    Metric("loader_workers", "gauge", "Worker processes that are up."),
    Metric(
        "loader_worker_deaths_total",
        "counter",
        "Worker processes that ended unasked, by exit code or signal (LOADER_PROCESSES above 1).",
        ("exit",),
    ),
    Metric("loader_build_info", "gauge", "Always 1; the labels tell the versions.", ("version", "python"), merge="max"),
    Metric("process_cpu_seconds_total", "counter", "CPU time, user and system."),
    Metric(
        "process_resident_memory_bytes", "gauge", "Resident memory; its peak where the system tells no current figure."
    ),
    Metric("process_open_fds", "gauge", "Open file descriptors."),
    Metric("process_threads", "gauge", "Threads of Python."),
    Metric("process_start_time_seconds", "gauge", "Unix time at which the oldest process started.", merge="min"),
)

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
