"""The events of `bench fleet`: the same for the same seed, in exact numbers, and drifting."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from loader.bench.fleet.events import PHASES, TABLES, Events, encode
from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Message, Refused

EVENTS = Events(20_000, twice=0.01, poison=0.001, seed=3)


def test_the_same_seed_publishes_the_same_and_another_seed_something_else() -> None:
    again, other = Events(20_000, 0.01, 0.001, 3), Events(20_000, 0.01, 0.001, 4)
    numbers = range(0, EVENTS.distinct, 97)
    assert list(again.stream()) == list(EVENTS.stream())
    assert [again.body(number) for number in numbers] == [EVENTS.body(number) for number in numbers]
    assert all(other.body(number) != EVENTS.body(number) for number in numbers)


def test_a_stream_holds_exactly_as_many_messages_duplicates_and_poison_as_were_asked_for() -> None:
    published = Counter(EVENTS.stream())
    assert published.total() == 20_000
    assert sorted(published) == list(range(EVENTS.distinct))
    assert {number for number, times in published.items() if times == 2} == {
        number for number in range(EVENTS.distinct) if EVENTS.is_published_twice(number)
    }
    assert max(published.values()) == 2
    assert EVENTS.twice == 200
    assert sum(map(EVENTS.is_poison, range(EVENTS.distinct))) == EVENTS.poison == 20


def test_without_duplicates_and_poison_there_are_none() -> None:
    plain = Events(1_000, 0.0, 0.0, 1)
    assert list(plain.stream()) == list(range(1_000))
    assert not any(map(plain.is_poison, range(1_000)))


def test_poison_can_never_be_decoded_and_all_else_can() -> None:
    decoder = Decoder(DecodeRules(table_key="kind", event_id_attribute="event_id"))
    kinds = set()
    for number in range(EVENTS.distinct):
        if not EVENTS.is_poison(number) and number % 50:
            continue
        attributes = {"event_id": EVENTS.identity(number)}
        message = Message("a", "1", EVENTS.body(number), attributes, 1, 0)
        if EVENTS.is_poison(number):
            with pytest.raises(Refused) as refused:
                decoder.decode(message)
            kinds.add(refused.value.reason)
        else:
            (event,) = decoder.decode(message)
            assert (event.table, event.identity) == (EVENTS.record(number)["kind"], EVENTS.identity(number))
    assert len(kinds) >= 2


def test_schemas_drift_all_tables_get_new_keys_and_values_of_other_types() -> None:
    phases: list[dict[str, set[str]]] = [{table: set() for table in TABLES} for _ in range(PHASES)]
    types: dict[tuple[str, str], set[type]] = {}
    for number in range(EVENTS.distinct):
        record = EVENTS.record(number)
        phases[number * PHASES // EVENTS.distinct][record["kind"]] |= record.keys()
        for key, value in record.items():
            if value is not None:
                types.setdefault((record["kind"], key), set()).add(type(value))
    for table in TABLES:
        assert all(phases[phase][table] - phases[phase - 1][table] for phase in range(1, PHASES))
        assert types[table, "status"] == {int, str}
        assert types[table, "amount"] == {float, str}
        assert types[table, "user"] == {str, int}
    assert types["orders", "detail"] == {dict, str}


def test_an_identity_leads_back_to_its_number_and_strangers_to_none() -> None:
    assert EVENTS.number(EVENTS.identity(17)) == 17
    for stranger in ("fleet/3/20000", "fleet/4/17", "fleet/3/017", "fleet/3/", "17", "fleet/3/-1", "fleet/3/٣"):
        assert EVENTS.number(stranger) is None


def test_bodies_are_json_without_spaces() -> None:
    record = EVENTS.record(5)
    assert json.loads(encode(record)) == record
    assert b", " not in encode({"a": 1, "b": 2})
