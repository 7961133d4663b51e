"""A message is acked once all its events are settled, and never when one of them was given up."""

from __future__ import annotations

import pytest

from loader.message.message import Event, Message
from loader.worker.settlement import Settlement


class Subscription:
    def __init__(self) -> None:
        self.acked: list[str] = []
        self.nacked: list[str] = []
        self.settlement = Settlement(
            lambda messages: self.acked.extend(message.ack_id for message in messages),
            lambda messages: self.nacked.extend(message.ack_id for message in messages),
        )


@pytest.fixture
def subscription() -> Subscription:
    return Subscription()


def events(ack_id: str, count: int = 1) -> list[Event]:
    message = Message(ack_id, "id", b"{}", {}, 0, 0)
    return [Event(message, f"id/{number}", 0, "t", {}) for number in range(count)]


def test_a_message_of_one_event_is_acked_at_once(subscription: Subscription) -> None:
    subscription.settlement.settle(events("a") + events("b"))
    assert subscription.acked == ["a", "b"]


def test_an_array_is_acked_with_its_last_event_whichever_load_settles_it(subscription: Subscription) -> None:
    array = events("a", 3)
    subscription.settlement.expect(array[0].message, 3)
    subscription.settlement.settle(array[:2])
    assert subscription.acked == []
    subscription.settlement.settle(array[2:])
    assert subscription.acked == ["a"]


def test_an_array_with_an_event_that_was_given_up_is_nacked_once_and_never_acked(subscription: Subscription) -> None:
    array = events("a", 4)
    subscription.settlement.expect(array[0].message, 4)
    subscription.settlement.settle(array[:1])
    subscription.settlement.give_back([event.message for event in array[1:3]])
    subscription.settlement.settle(array[3:])
    assert (subscription.acked, subscription.nacked) == ([], ["a"])


def test_events_given_up_one_after_the_other_nack_their_message_once(subscription: Subscription) -> None:
    array = events("a", 2)
    subscription.settlement.expect(array[0].message, 2)
    for event in array:
        subscription.settlement.give_back([event.message])
    assert (subscription.acked, subscription.nacked) == ([], ["a"])


def test_the_next_delivery_of_a_message_that_was_given_back_counts_anew(subscription: Subscription) -> None:
    first, second = events("a", 2), events("b", 2)
    subscription.settlement.expect(first[0].message, 2)
    subscription.settlement.give_back([event.message for event in first])
    subscription.settlement.expect(second[0].message, 2)
    subscription.settlement.settle(second)
    assert (subscription.acked, subscription.nacked) == (["b"], ["a"])


def test_nothing_is_acked_or_nacked_for_nothing(subscription: Subscription) -> None:
    subscription.settlement.settle([])
    subscription.settlement.give_back([])
    assert (subscription.acked, subscription.nacked) == ([], [])
