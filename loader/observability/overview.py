"""The dashboard over all: every dataset of the loader and every region of the bridge at a glance."""

from __future__ import annotations

from typing import Any

from loader.observability.panel import Panel
from loader.observability.panel import dashboard as board

_AGES = "loader_publish_to_commit_age_seconds"
QUANTILE = f"histogram_quantile(0.99, sum by ({{by}}) (rate({_AGES}_bucket[5m])))"


def dashboard() -> dict[str, Any]:
    """All fleets and bridges at a glance."""
    return board(
        "loader-overview",
        "Loader and bridge: overview",
        "All datasets and regions. Scrape targets carry the labels dataset (loader) and region (bridge).",
        (),
        (
            (
                "Now",
                (
                    Panel(
                        "Not ready",
                        (("count(loader_ready == 0) or vector(0)", ""),),
                        kind="stat",
                        bad_above=1,
                        help="Scrape targets of the loader whose /readyz says no.",
                    ),
                    Panel("Workers", (("sum(loader_workers)", ""),), kind="stat", bad_below=1),
                    Panel(
                        "Age p99",
                        ((f"histogram_quantile(0.99, sum by (le) (rate({_AGES}_bucket[5m])))", ""),),
                        "s",
                        "stat",
                        "Publish to commit, all tables.",
                        bad_above=60,
                    ),
                    Panel(
                        "Dead letters, 1 h",
                        (("sum(increase(loader_dead_letters_total[1h])) or vector(0)", ""),),
                        kind="stat",
                        bad_above=1,
                    ),
                    Panel("Pipelines down", (("count(bridge_up == 0) or vector(0)", ""),), kind="stat", bad_above=1),
                    Panel("Bridge lag", (("sum(bridge_lag)", ""),), kind="stat"),
                ),
            ),
            (
                "Loader by dataset",
                (
                    Panel(
                        "Events a second",
                        (("sum by (dataset) (rate(loader_events_loaded_total[5m]))", "{{dataset}}"),),
                    ),
                    Panel("Age p99, publish to commit", ((QUANTILE.format(by="le, dataset"), "{{dataset}}"),), "s"),
                    Panel(
                        "Oldest not yet stored",
                        (("max by (dataset) (loader_oldest_unloaded_age_seconds)", "{{dataset}}"),),
                        "s",
                    ),
                ),
            ),
            (
                "Bridge by region",
                (
                    Panel(
                        "Messages in and out a second",
                        (
                            ("sum by (region) (rate(bridge_messages_in_total[5m]))", "{{region}} in"),
                            ("sum by (region) (rate(bridge_messages_out_total[5m]))", "{{region}} out"),
                        ),
                    ),
                    Panel("Lag", (("sum by (region) (bridge_lag)", "{{region}}"),)),
                    Panel(
                        "Oldest commit",
                        (("max by (region) (bridge_commit_age_seconds)", "{{region}}"),),
                        "s",
                        help="Since a reader last had everything confirmed up to somewhere.",
                    ),
                ),
            ),
        ),
    )
