"""A batch that is too much for one transaction is cut in halves until each piece is one event."""

from __future__ import annotations

from loader.copy.bundle_load import Discard
from loader.dead_letter.letter import Letter
from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Event, Message
from loader.worker.batch import Batch, EventBatch, MessageBatch
from loader.worker.intake import Intake


def message(name: str, body: bytes) -> Message:
    return Message(f"ack {name}", name, body, {}, 0, 0)


def pieces(batch: Batch) -> list[tuple[list[Event], list[Letter]]]:
    halves = batch.halves()
    if halves is None:
        return [(list(batch.events()), list(batch.letters()))]
    return pieces(halves[0]) + pieces(halves[1])


def test_messages_are_cut_down_to_the_events_of_their_arrays_and_to_their_letters() -> None:
    expected: dict[str, int] = {}
    intake = Intake(Decoder(DecodeRules()), lambda message, events: expected.update({message.message_id: events}))
    messages = [message("a", b'[{"n":1},{"n":2},{"n":3}]'), message("b", b"no json"), message("c", b'{"n":4}')]
    cut = pieces(MessageBatch(intake, messages))
    events = [event for found, _ in cut for event in found]
    assert [event.message.message_id for event in events] == ["a", "a", "a", "c"]
    assert len({event.identity for event in events}) == 4
    assert [intake.source.record(event)["n"] for event in events] == [1, 2, 3, 4]
    assert [letter.message.message_id for _, letters in cut for letter in letters] == ["b"]
    assert max(len(found) for found, _ in cut) == 1
    assert expected == {"a": 3}, "acked once all three are stored"
    assert list(intake.refused) == ["ack b"]


def test_what_goes_with_events_is_cut_off_from_the_last_of_them() -> None:
    intake = Intake(Decoder(DecodeRules()), lambda message, events: None)
    events = [next(iter(intake.events([message(name, b"{}")]))) for name in "ab"]
    discards = [Discard("d", "t", "r", None)]
    cut = EventBatch(events, (), discards, 3, True)
    first, second = cut.halves() or (None, None)
    assert first is not None
    assert second is not None
    assert (list(first.events()), list(second.events())) == (events[:1], events[1:])
    alone, rest = first.halves() or (None, None)
    assert alone is not None
    assert rest is not None
    assert (list(alone.events()), alone.discards) == ([], discards)
    assert (list(rest.events()), rest.discards, rest.attempt, rest.minority) == (events[:1], (), 3, True)
    assert alone.halves() is None
    assert rest.halves() is None
