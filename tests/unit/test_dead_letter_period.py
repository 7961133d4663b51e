from __future__ import annotations

import datetime

import pytest

from loader.dead_letter.period import parse_moment

NOW = datetime.datetime(2030, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30d", "2030-01-30T12:00:00+00:00"),
        ("90m", "2030-03-01T10:30:00+00:00"),
        (" 2 h ", "2030-03-01T10:00:00+00:00"),
        ("2030-01-31", "2030-01-31T00:00:00+00:00"),
        ("2030-01-31T12:00Z", "2030-01-31T12:00:00+00:00"),
        ("2030-01-31T12:00+02:00", "2030-01-31T12:00:00+02:00"),
    ],
)
def test_spans_and_times_are_understood(text, moment):
    assert parse_moment(text, NOW).isoformat() == moment


@pytest.mark.parametrize("text", ["", "soon", "30", "-3d", "999999w", "2030-02-30", "30d; drop table x"])
def test_what_is_no_time_is_refused_with_the_forms_that_are(text):
    with pytest.raises(ValueError, match="30d"):
        parse_moment(text, NOW)
