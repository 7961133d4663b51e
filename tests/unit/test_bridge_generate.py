"""The made-up GPS feed: the same for the same seed, and as vehicles drive. And the ages that the bridge counts."""

from __future__ import annotations

from itertools import islice, pairwise

from loader.bridge.engine.age import BOUNDS, Ages, Ticket
from loader.bridge.engine.bucket import Share
from loader.bridge.formats.avro import Reading
from loader.bridge.formats.avro_values import millis
from loader.bridge.generate.feed import Encoder, messages, schema
from loader.bridge.generate.roads import Roads
from loader.bridge.generate.vehicles import records

START = 1_796_054_400_000


def some(count: int, seed: int = 1, vehicles: int = 5):
    return list(islice(records(seed, vehicles, 100, START), count))


def test_the_same_seed_makes_the_same_feed_and_another_one_another():
    assert some(50) == some(50)
    assert some(50) != some(50, seed=2)


def test_records_come_at_the_rate_and_tell_of_the_time_before_them():
    made = some(200)
    assert [each["sentAt"] for each in made] == [START + number * 10 for number in range(200)]
    for each in made:
        times = [time for link in each["path"] for time in (link["enteredAt"], link["leftAt"])]
        assert times == sorted(times)
        assert times[-1] <= each["sentAt"]
        for link in each["path"]:
            assert all(link["enteredAt"] <= point["at"] <= link["leftAt"] for point in link["points"])
    links = [len(each["path"]) for each in made]
    assert 4 < sum(links) / len(links) < 6


def test_a_vehicle_drives_from_link_to_link_without_a_gap():
    roads = Roads(1)
    ends = {link.number: (link.start, link.end) for links in roads.leaving for link in links}
    driven = [link["linkId"] for each in some(40, vehicles=1) for link in each["path"]]
    for before, after in pairwise(driven):
        assert ends[before][1] == ends[after][0]


def test_records_are_framed_by_the_schema_and_keyed_by_device():
    made = some(3)
    reading = Reading(schema())
    for (key, value, rows), record in zip(messages(made, Encoder(schema(), 9)), made, strict=True):
        assert (key.decode(), rows) == (record["deviceId"], len(record["path"]))
        assert value[:5] == b"\0\0\0\0\x09"
        datum = reading.datum(value)
        assert datum["sentAt"] == millis(record["sentAt"])
        assert [link["linkId"] for link in datum["path"]] == [link["linkId"] for link in record["path"]]


def test_ages_are_counted_by_class():
    ages = Ages()
    for age, count in ((0.001, 90), (0.2, 9), (1_000.0, 1)):
        ages.add(age, count)
    assert (sum(ages.counts), ages.total) == (100, 0.09 + 1.8 + 1_000)
    assert [ages.quantile(part) for part in (0.5, 0.99, 1.0)] == [BOUNDS[0], 0.25, float("inf")]
    assert Ages().quantile(0.99) == 0.0


def test_a_ticket_counts_for_its_share():
    share = Share()
    ticket = Ticket(share)
    ticket.give(2)
    ticket.confirm(1)
    assert (share.seen, share.confirmed, ticket.done) == (2, 1, False)
    ticket.confirm(1)
    assert share.done
    assert ticket.done
    assert ticket.age >= 0
