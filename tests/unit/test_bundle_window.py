"""When a bundle closes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.bundle.window import Window
from loader.message.message import Message


def sized(*sizes: int) -> list[Message]:
    return [Message(f"a{number}", str(number), b"x" * size, {}, 0, 0) for number, size in enumerate(sizes)]


def test_a_window_closes_by_time_from_its_first_message_and_not_from_later_ones() -> None:
    now = [100.0]
    window = Window(5, 1_000, 1_000, lambda: now[0])
    assert window.due is None
    assert window.closed_by(1e9) is None
    window.add(sized(1))
    now[0] = 104.0
    window.add(sized(1))
    assert window.due == 105.0
    assert window.closed_by(104.99) is None
    assert window.closed_by(105.0) == "time"
    bundle = window.take("time")
    assert (len(bundle.messages), bundle.bytes, bundle.opened_at, bundle.closed_by) == (2, 2, 100.0, "time")
    assert window.due is None


def test_messages_beyond_the_count_are_left_over_in_order() -> None:
    window = Window(5, 3, 1_000)
    messages = sized(1, 1, 1, 1, 1)
    assert window.add(messages[:2]) == []
    assert window.add(messages[2:]) == messages[3:]
    assert window.closed_by(0) == "messages"
    assert window.add(messages) == messages
    assert window.take("messages").messages == messages[:3]


def test_bytes_are_exceeded_by_one_message_at_most() -> None:
    window = Window(5, 100, 10)
    messages = sized(4, 4, 4, 4)
    assert window.add(messages) == messages[3:]
    assert window.closed_by(0) == "bytes"
    assert window.take("bytes").bytes == 12


def test_a_message_larger_than_the_limit_is_a_bundle_alone() -> None:
    window = Window(5, 100, 10)
    messages = sized(50, 1)
    assert window.add(messages) == messages[1:]
    assert window.take("bytes").messages == messages[:1]


@given(st.lists(st.lists(st.integers(0, 8), max_size=6), max_size=8), st.integers(1, 7), st.integers(1, 12))
def test_no_message_is_lost_or_doubled_and_the_limits_hold(
    responses: list[list[int]], most: int, most_bytes: int
) -> None:
    window = Window(5, most, most_bytes)
    given_messages: list[Message] = []
    bundled: list[Message] = []
    for sizes in responses:
        left = sized(*sizes)
        given_messages += left
        while left:
            left = window.add(left)
            if window.closed_by(0):
                bundle = window.take("messages")
                assert len(bundle.messages) <= most
                assert bundle.bytes == sum(len(message.data) for message in bundle.messages)
                assert bundle.bytes - len(bundle.messages[-1].data) < most_bytes
                bundled += bundle.messages
    bundled += window.take("stop").messages
    assert bundled == given_messages


@pytest.mark.parametrize("limits", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_limits_that_could_never_fill_are_refused(limits: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Window(*limits)
