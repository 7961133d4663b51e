"""Leases: what is held, what is due, what ran out."""

from __future__ import annotations

import pytest

from loader.message.message import Message
from loader.pull.lease import RENEW_AFTER, SECONDS, Leases


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def message(ack_id: str, data: bytes = b"12345") -> Message:
    return Message(ack_id, f"id-{ack_id}", data, {}, 0, 0)


def received(*ack_ids: str) -> list[Message]:
    return [message(ack_id) for ack_id in ack_ids]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(clock)


def test_held_messages_and_bytes_follow_what_is_added_and_released(leases: Leases) -> None:
    leases.add(0, 1, received("a", "b", "c"), 15)
    assert (leases.held, leases.held_bytes) == (3, 15)
    assert leases.release(received("b", "b", "never held")) == ["b"]
    assert (leases.held, leases.held_bytes) == (2, 10)
    assert sorted(leases.release_all()) == ["a", "c"]
    assert (leases.held, leases.held_bytes) == (0, 0)


def test_a_lease_is_due_when_a_third_of_it_is_left_and_again_after_its_renewal(leases: Leases, clock: Clock) -> None:
    leases.add(0, 1, received("a", "b"), 10)
    clock.now += RENEW_AFTER - 0.1
    assert leases.due() == []
    clock.now += 0.2
    [(batch, ack_ids)] = leases.due()
    assert ack_ids == ["a", "b"]
    leases.renewed(batch, clock.now)
    assert leases.due() == []
    clock.now += RENEW_AFTER
    assert [ack_ids for _, ack_ids in leases.due()] == [["a", "b"]]
    assert (leases.expired, leases.renewals) == (0, 2)


def test_a_lease_of_another_length_is_due_when_a_third_of_that_is_left(clock: Clock) -> None:
    leases = Leases(clock, seconds=30)
    leases.add(0, 1, received("a"), 5)
    clock.now += 19.9
    assert leases.due() == []
    clock.now += 0.2
    [(batch, ack_ids)] = leases.due()
    assert (ack_ids, batch.expires) == (["a"], 1_030.0)


def test_only_what_is_still_held_is_renewed(leases: Leases, clock: Clock) -> None:
    leases.add(0, 1, received("a", "b"), 10)
    leases.add(0, 1, received("c"), 5)
    leases.release(received("a", "c"))
    clock.now += SECONDS
    assert [ack_ids for _, ack_ids in leases.due()] == [["b"]]


def test_an_expired_lease_is_counted_once_for_each_message_and_goes_on_being_renewed(
    leases: Leases, clock: Clock
) -> None:
    leases.add(0, 1, received("a", "b"), 10)
    clock.now += SECONDS + 1
    assert len(leases.due()) == 1
    assert len(leases.due()) == 1
    assert leases.expired == 2
    assert leases.release(received("a")) == ["a"]


def test_an_id_refused_for_good_is_not_renewed_again_but_still_acked(leases: Leases, clock: Clock) -> None:
    leases.add(0, 1, received("a", "b"), 10)
    clock.now += RENEW_AFTER
    [(batch, _)] = leases.due()
    leases.renewed(batch, clock.now, {"a"})
    clock.now += RENEW_AFTER
    assert [ack_ids for _, ack_ids in leases.due()] == [["b"]]
    assert leases.expired == 1
    assert leases.release(received("a", "b")) == ["a", "b"]


def test_an_ack_id_that_comes_twice_is_held_once_and_leaves_nothing_behind(leases: Leases, clock: Clock) -> None:
    leases.add(0, 1, received("a", "b"), 10)
    leases.add(0, 2, received("b", "c", "c"), 15)
    assert leases.held == 3
    assert sorted(leases.release(received("a", "b", "c", "b", "c"))) == ["a", "b", "c"]
    clock.now += SECONDS
    assert leases.due() == []
    assert (leases.held, leases.held_bytes) == (0, 0)


def test_an_ack_id_twice_in_one_response_counts_once_when_its_neighbour_comes_again(
    leases: Leases, clock: Clock
) -> None:
    leases.add(0, 1, received("a", "b", "b"), 15)
    leases.add(0, 2, received("a"), 5)
    assert (leases.held, leases.of(0)[0]) == (2, 2)
    clock.now += SECONDS
    assert [ack_ids for _, ack_ids in leases.due()] == [["b"], ["a"]]
    assert sorted(leases.release(received("a", "b"))) == ["a", "b"]
    assert (leases.held, leases.held_bytes, leases.of(0), leases.due()) == (0, 0, (0, 0), [])


def test_what_a_stream_holds_can_be_told_by_connection(leases: Leases) -> None:
    leases.add(0, 1, received("a", "b"), 10)
    leases.add(0, 2, received("c"), 5)
    leases.add(1, 2, received("d"), 5)
    leases.release(received("a"))
    assert leases.of(0) == (2, 10)
    assert leases.of(0, before=2) == (1, 5)
    assert leases.of(1) == (1, 5)
