"""Small plots as SVG within a page: no script, no outside asset."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT, _TOP = 600, 90, 16


def plot(
    title: str, values: Sequence[tuple[datetime.datetime, float]], until: datetime.datetime, minutes: int, peak: str
) -> str:
    """Bars by minute over the last `minutes` before `until`; `peak` is the highest value in words."""
    highest = max((value for _, value in values), default=0.0)
    step = _WIDTH / minutes
    # The minute that has begun is the last bar.
    first = until.replace(second=0, microsecond=0) - datetime.timedelta(minutes=minutes - 1)
    bars = []
    for at, value in values:
        index = (at - first) // datetime.timedelta(minutes=1)
        if 0 <= index < minutes and highest > 0 and value > 0:
            # A minute in which little happened is still seen.
            height = max(1.0, value / highest * (_HEIGHT - _TOP))
            bars.append(
                f'<rect x="{index * step:.1f}" y="{_HEIGHT - height:.1f}" width="{step - 1:.1f}" height="{height:.1f}">'
                f"<title>{escape(at.strftime('%H:%M'))}: {value:.1f}</title></rect>"
            )
    label = escape(f"{title}, last {minutes} min; peak {peak}")
    return (
        f'<figure><figcaption>{label}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{label}" preserveAspectRatio="none"><line x1="0" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
        f"{''.join(bars)}</svg></figure>"
    )
