"""The dashboard of one dataset in depth: pulling, loading, learning, database, processes."""

from __future__ import annotations

from typing import Any

from loader.observability.panel import Panel, Variable
from loader.observability.panel import dashboard as board

_D = '{dataset=~"$dataset"}'
_DT = '{dataset=~"$dataset", table=~"$table"}'
_AGES = f"loader_publish_to_commit_age_seconds_bucket{_DT}"


def _quantile(share: float, by: str, series: str) -> str:
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({series}[5m])))"


def _ratio(above: str, below: str) -> str:
    return f"sum(rate({above}[5m])) / sum(rate({below}[5m]))"


def dashboard() -> dict[str, Any]:
    """One dataset in depth."""
    return board(
        "loader-dataset",
        "Loader: a dataset in depth",
        "Pulling, loading, learning, database and processes of one dataset, by table where that is known.",
        (Variable("dataset", "loader_ready"), Variable("table", "loader_events_loaded_total")),
        (
            (
                "Tables",
                (
                    Panel(
                        "Events a second",
                        ((f"sum by (table) (rate(loader_events_loaded_total{_DT}[5m]))", "{{table}}"),),
                    ),
                    Panel(
                        "Rows a second", ((f"sum by (table) (rate(loader_rows_loaded_total{_DT}[5m]))", "{{table}}"),)
                    ),
                    Panel(
                        "Age, publish to commit",
                        (
                            (
                                _quantile(0.5, "table", _AGES),
                                "{{table}} p50",
                            ),
                            (
                                _quantile(0.99, "table", _AGES),
                                "{{table}} p99",
                            ),
                        ),
                        "s",
                    ),
                ),
            ),
            (
                "What was not loaded",
                (
                    Panel(
                        "Dead letters an hour",
                        (
                            (
                                f"sum by (table, reason) (increase(loader_dead_letters_total{_D}[1h]))",
                                "{{table}}: {{reason}}",
                            ),
                        ),
                    ),
                    Panel(
                        "Duplicates and discards a second",
                        (
                            (f"sum(rate(loader_events_duplicate_total{_D}[5m]))", "duplicates"),
                            (f"sum by (what) (rate(loader_discards_total{_D}[5m]))", "discarded {{what}}"),
                            (f"sum by (what) (rate(loader_texts_cleaned_total{_D}[5m]))", "cleaned {{what}}"),
                        ),
                    ),
                    Panel("Events that wait", ((f"sum by (why) (loader_events_waiting{_D})", "{{why}}"),)),
                ),
            ),
            (
                "Pulling",
                (
                    Panel(
                        "Messages a second",
                        (
                            (f"sum(rate(loader_messages_pulled_total{_D}[5m]))", "pulled"),
                            (f"sum(rate(loader_messages_acked_total{_D}[5m]))", "acked"),
                            (f"sum(rate(loader_messages_nacked_total{_D}[5m]))", "given back"),
                        ),
                    ),
                    Panel(
                        "Held",
                        (
                            (f"sum(loader_messages_held{_D})", "messages held"),
                            (f"sum(loader_messages_unread{_D})", "in no bundle yet"),
                        ),
                    ),
                    Panel(
                        "Bytes",
                        (
                            (f"sum(loader_message_bytes_held{_D})", "held"),
                            (f"sum(rate(loader_message_bytes_pulled_total{_D}[5m]))", "pulled a second"),
                        ),
                        "bytes",
                    ),
                    Panel(
                        "Leases, acks, streams",
                        (
                            (f"sum(rate(loader_leases_expired_total{_D}[5m]))", "leases expired/s"),
                            (f"sum(rate(loader_leases_renewed_total{_D}[5m]))", "leases renewed/s"),
                            (f"sum(rate(loader_ack_failures_total{_D}[5m]))", "acks refused/s"),
                            (f"sum(rate(loader_stream_reconnects_total{_D}[5m]))", "streams opened/s"),
                            (f"min(loader_stream_up{_D})", "stream up"),
                        ),
                    ),
                ),
            ),
            (
                "Bundles and learning",
                (
                    Panel(
                        "Bundles a second",
                        ((f"sum by (closed_by) (rate(loader_bundles_total{_D}[5m]))", "{{closed_by}}"),),
                    ),
                    Panel(
                        "Messages a bundle",
                        (
                            (
                                _ratio(f"loader_bundle_messages_total{_D}", f"loader_bundles_total{_D}"),
                                "",
                            ),
                        ),
                    ),
                    Panel(
                        "Seconds a load, p99",
                        (
                            (
                                _quantile(0.99, "step", f"loader_bundle_seconds_bucket{_D}"),
                                "{{step}}",
                            ),
                        ),
                        "s",
                    ),
                    Panel(
                        "Learning",
                        (
                            (f"sum(increase(loader_learnings_total{_D}[10m]))", "learnings in 10 min"),
                            (f"sum(increase(loader_columns_added_total{_D}[10m]))", "columns in 10 min"),
                            (f"sum(increase(loader_lock_waits_total{_D}[10m]))", "put off by a lock"),
                            (
                                _quantile(0.99, "dataset", f"loader_learning_seconds_bucket{_D}"),
                                "seconds p99",
                            ),
                        ),
                    ),
                ),
            ),
            (
                "Database and processes",
                (
                    Panel(
                        "Database",
                        (
                            (f"min(loader_database_up{_D})", "up"),
                            (
                                f"sum by (sqlstate_class) (rate(loader_database_errors_total{_D}[5m]))",
                                "errors/s {{sqlstate_class}}",
                            ),
                            (f"sum(increase(loader_database_outages_total{_D}[1h]))", "outages in 1 h"),
                            (f"sum(increase(loader_isolations_total{_D}[1h]))", "isolations in 1 h"),
                        ),
                    ),
                    Panel(
                        "Workers",
                        (
                            (f"sum(loader_workers{_D})", "up"),
                            (f"sum by (exit) (increase(loader_worker_deaths_total{_D}[1h]))", "died in 1 h: {{exit}}"),
                            (f"count by (version) (loader_build_info{_D})", "version {{version}}"),
                        ),
                    ),
                    Panel(
                        "CPU",
                        ((f"sum by (instance) (rate(process_cpu_seconds_total{_D}[5m]))", "{{instance}}"),),
                        "percentunit",
                    ),
                    Panel(
                        "Memory", ((f"sum by (instance) (process_resident_memory_bytes{_D})", "{{instance}}"),), "bytes"
                    ),
                ),
            ),
        ),
    )
