"""Which texts are instants, and that none of them moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.plan.timestamp import from_micros, instant, instants, texts_from_micros


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T12:00:00Z",
        "2026-11-30 12:00:00",
        "2026-11-30T12:00:00.5+14:59",
        "2026-11-30T12:00:00.123456-03:00",
        "9998-12-31T23:59:59Z",
    ],
)
def test_everyday_spellings_go_to_postgres_as_they_are(text: str) -> None:
    assert instant(text) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-11-30T12:00:00.123456789Z", "2026-11-30 12:00:00.123456+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01 00:00:00+00:00"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999+00:00"),
        ("2026-11-30T12:00:00+23:00", "2026-11-29 13:00:00+00:00"),
    ],
)
def test_other_spellings_are_stored_in_utc(text: str, stored: str) -> None:
    assert instant(text) == stored


@pytest.mark.parametrize(
    "text",
    ["", "now", "today", "infinity", "-infinity", "epoch", "allballs", "2026-11-30", "12:00:00", "2026-02-30T00:00:00Z",
     "0000-00-00T00:00:00Z", "12026-11-30T12:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T23:59:60Z", "1764504000",
     "2026-11-30T12:00:00Z\n", " 2026-11-30T12:00:00Z", "２０２６-11-30T12:00:00Z", "0001-01-01T00:00:00+10:00",
     "9999-12-31T23:59:59-10:00", "2026-11-30T12:00:00+24:00", "2026-11-30T12:00:00-99:59", "x" * 100_000]
)  # fmt: skip
def test_everything_else_is_text(text: str) -> None:
    assert instant(text) is None


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-14 * 60, 14 * 60), st.sampled_from("T "))
def test_an_instant_is_the_same_moment(moment: datetime, offset: int, separator: str) -> None:
    zoned = moment.replace(tzinfo=UTC) + timedelta(minutes=offset)
    sign, minutes = ("-", -offset) if offset < 0 else ("+", offset)
    text = f"{zoned:%H:%M:%S.%f}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    stored = instant(f"{zoned.date().isoformat()}{separator}{text}")
    assert stored is not None
    assert datetime.fromisoformat(stored) == moment.replace(tzinfo=UTC)


@given(st.text(max_size=70))
def test_no_text_makes_it_fail(text: str) -> None:
    assert instant(text) is None or datetime.fromisoformat(instant(text) or "")


@given(st.integers(0, 2**51))
def test_publish_times_keep_every_microsecond(micros: int) -> None:
    parsed = datetime.fromisoformat(from_micros(micros) + ":00")
    assert parsed - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(microseconds=micros)


COMMON = st.builds(
    "{:04d}-{:02d}-{:02d}T12:00:00{}".format,
    st.sampled_from([0, 1, 2, 2026, 9998, 9999]),
    st.integers(1, 13),
    st.integers(28, 31),
    st.sampled_from(["Z", "", "+14:00", "-14:30", ".5Z", ".1234567Z"]),
)


@given(st.lists(COMMON | st.text(max_size=5), min_size=1, max_size=4))
def test_many_texts_are_judged_as_each_alone(texts: list[str]) -> None:
    assert list(instants(texts)) == [instant(text) for text in texts]


@given(st.lists(st.integers(0, 4_000_000_000_000_000), max_size=5))
def test_many_publish_times_are_spelled_as_each_alone(moments: list[int]) -> None:
    assert texts_from_micros(moments) == [from_micros(moment) for moment in moments]
