"""The flight record and the messages that it makes suspect."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from loader.worker.flight import FlightRecord, Suspects, new_record


@pytest.fixture
def record() -> Iterator[FlightRecord]:
    descriptor = new_record()
    yield FlightRecord(descriptor)
    os.close(descriptor)


def test_what_one_side_writes_the_other_reads(record: FlightRecord) -> None:
    assert record.read() == [[], []]
    record.write(0, [str(number) for number in range(20_000)])
    record.write(1, ["a", "ü"])
    other = FlightRecord(record.descriptor)
    assert other.read() == [[str(number) for number in range(20_000)], ["a", "ü"]]
    record.write(0, ["x"])
    record.clear(1)
    assert other.read() == [["x"], []]


def test_one_death_makes_no_suspect() -> None:
    suspects = Suspects()
    assert not suspects.died([["a", "b"], ["c"]])
    assert suspects.current == {}


def test_what_was_in_flight_at_two_deaths_is_suspect_and_its_neighbours_are_not() -> None:
    suspects = Suspects()
    suspects.died([["a", "poison", "b"], []])
    assert suspects.died([["c", "poison", "d"], ["e"]])
    assert suspects.current == {"poison": 0}


def test_deaths_with_nothing_else_in_flight_are_counted_apart() -> None:
    suspects = Suspects()
    suspects.died([["innocent", "poison"], []])
    suspects.died([["innocent", "poison"], []])
    assert suspects.current == {"innocent": 0, "poison": 0}
    assert suspects.died([["poison"], []])
    assert suspects.died([["poison"], []])
    assert suspects.current == {"innocent": 0, "poison": 2}


def test_memory_of_deaths_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.worker.flight._MOST_REMEMBERED", 10)
    suspects = Suspects()
    suspects.died([[str(number) for number in range(100)]])
    suspects.died([[str(number) for number in range(100)]])
    assert len(suspects.current) <= 10
