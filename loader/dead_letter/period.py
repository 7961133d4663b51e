"""Points in time as operators write them: `30d`, `2h`, or a date."""

from __future__ import annotations

import datetime
import re

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(\d{1,6})\s*([smhdw])")


def parse_moment(text: str, now: datetime.datetime) -> datetime.datetime:
    """The moment that `text` names: so long before `now`, or an ISO 8601 date or time (UTC unless it says otherwise).

    Raises ValueError that says what is understood."""
    span = _SPAN.fullmatch(text.strip())
    try:
        if span is not None:
            return now - datetime.timedelta(**{_UNITS[span[2]]: int(span[1])})
        moment = datetime.datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no time: give a span such as 90m, 24h or 30d, or a time such as 2030-01-31T12:00Z"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
