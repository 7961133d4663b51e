"""The course of a run as lines of text: what waits, who serves, how old events are when they are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loader.bench.simulation.chart import bars

_WIDTH = 72


def chart(over_time: Mapping[str, Sequence[float]], compress: float) -> str:
    """Three charts over one axis: real seconds, and minutes of the fleet."""
    seconds = over_time.get("seconds", [])
    end = seconds[-1] if seconds else 0.0
    width = max(1, min(_WIDTH, len(seconds)))
    lines = []
    for title, name in (
        ("backlog, unacked messages", "backlog"),
        ("workers that serve", "workers"),
        ("age at the commit, s", "age"),
    ):
        values = over_time.get(name, [])
        lines += [f"{title}, at most {max(values, default=0):,.0f}", *bars(values, width)]
    right = f"{end:.0f} s = {end * compress / 60:.0f} min of the fleet"
    lines.append(f"0 s{right:>{max(len(right) + 1, width - 3)}}")
    return "\n".join(lines)
