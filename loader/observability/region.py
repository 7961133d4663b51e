"""The dashboard of one region of the bridge in depth, by pipeline."""

from __future__ import annotations

from typing import Any

from loader.observability.panel import Panel, Variable
from loader.observability.panel import dashboard as board

_B = '{region=~"$region", pipeline=~"$pipeline"}'
_AGE = f"histogram_quantile(0.99, sum by (le, pipeline) (rate(bridge_publish_age_seconds_bucket{_B}[5m])))"


def _ratio(above: str, below: str) -> str:
    return f"sum by (pipeline) (rate({above}[5m])) / sum by (pipeline) (rate({below}[5m]))"


def dashboard() -> dict[str, Any]:
    """One region of the bridge in depth."""
    return board(
        "bridge-region",
        "Bridge: a region in depth",
        "Every pipeline of a region: what it reads, lets go, publishes, and how far it is behind.",
        (Variable("region", "bridge_up"), Variable("pipeline", "bridge_up")),
        (
            (
                "Flow",
                (
                    Panel(
                        "Messages in a second",
                        ((f"sum by (pipeline) (rate(bridge_messages_in_total{_B}[5m]))", "{{pipeline}}"),),
                    ),
                    Panel(
                        "Messages out a second",
                        ((f"sum by (pipeline) (rate(bridge_messages_out_total{_B}[5m]))", "{{pipeline}}"),),
                    ),
                    Panel(
                        "Let go a second",
                        (
                            (
                                f"sum by (pipeline) (rate(bridge_messages_filtered_total{_B}[5m]))",
                                "{{pipeline}} filtered",
                            ),
                            (
                                f"sum by (pipeline) (rate(bridge_messages_tombstones_total{_B}[5m]))",
                                "{{pipeline}} tombstones",
                            ),
                            (f"sum by (pipeline) (rate(bridge_messages_dead_total{_B}[5m]))", "{{pipeline}} dead"),
                        ),
                    ),
                ),
            ),
            (
                "Behind",
                (
                    Panel("Lag", ((f"sum by (pipeline) (bridge_lag{_B})", "{{pipeline}}"),)),
                    Panel("Commit age", ((f"max by (pipeline) (bridge_commit_age_seconds{_B})", "{{pipeline}}"),), "s"),
                    Panel(
                        "Age p99, read to confirmed",
                        ((_AGE, "{{pipeline}}"),),
                        "s",
                    ),
                    Panel("In flight", ((f"sum by (pipeline) (bridge_in_flight{_B})", "{{pipeline}}"),)),
                    Panel(
                        "Bytes in flight",
                        ((f"sum by (pipeline) (bridge_in_flight_bytes{_B})", "{{pipeline}}"),),
                        "bytes",
                    ),
                ),
            ),
            (
                "Trouble",
                (
                    Panel(
                        "Up, apart",
                        (
                            (f"min by (pipeline) (bridge_up{_B})", "{{pipeline}} up"),
                            (f"max by (pipeline) (bridge_apart{_B})", "{{pipeline}} apart"),
                        ),
                    ),
                    Panel(
                        "Seconds of backoff a second",
                        ((f"sum by (pipeline) (rate(bridge_backoff_seconds_total{_B}[5m]))", "{{pipeline}}"),),
                        "s",
                    ),
                    Panel(
                        "Repeats and refused commits in 10 min",
                        (
                            (
                                f"sum by (pipeline) (increase(bridge_messages_repeated_total{_B}[10m]))",
                                "{{pipeline}} repeats",
                            ),
                            (
                                f"sum by (pipeline) (increase(bridge_commit_failures_total{_B}[10m]))",
                                "{{pipeline}} commits refused",
                            ),
                        ),
                    ),
                ),
            ),
            (
                "Cost",
                (
                    Panel(
                        "Decodes and encodes a message",
                        (
                            (
                                _ratio(f"bridge_decodes_total{_B}", f"bridge_messages_in_total{_B}"),
                                "{{pipeline}} decodes",
                            ),
                            (
                                _ratio(f"bridge_encodes_total{_B}", f"bridge_messages_in_total{_B}"),
                                "{{pipeline}} encodes",
                            ),
                        ),
                    ),
                    Panel(
                        "Reads a second, by consumer group",
                        (("sum by (group) (rate(bridge_reads_total[5m]))", "{{group}}"),),
                    ),
                    Panel("Age of lookups", (("max by (lookup) (bridge_lookup_age_seconds)", "{{lookup}}"),), "s"),
                ),
            ),
        ),
    )
