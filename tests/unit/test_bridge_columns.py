"""Messages by columns say what frames of them say: in a request's bytes, in a filter, and after a retry."""

from __future__ import annotations

import threading
import time
from typing import Any

import hypothesis.strategies as st
import orjson
import pytest
from hypothesis import given
from sink_doubles import Channel, Delivery

from loader.bridge.columns import Columns
from loader.bridge.condition.compile import compile_condition
from loader.bridge.engine.bucket import Share
from loader.bridge.engine.flow import CountedFormat, Flow, Limits
from loader.bridge.formats.json import Json
from loader.bridge.frame import Frame, Payload, Unavailable
from loader.bridge.sieve import sift
from loader.bridge.sinks.dispatch import Outcome as Settled
from loader.bridge.sinks.dispatch import Request
from loader.bridge.sinks.pubsub import MOST_BYTES, PubsubSink
from loader.bridge.sinks.sink import Origin
from loader.bridge.stages.filter import Filter
from loader.bridge.stages.stage import Outcome
from loader.pull import protocol as pb

TOPIC = "projects/project/topics/topic"
TIME = 1_796_000_000_123


def columns(values, partitions=None, offsets=None, times=None, keys=None, headers=None, format=None) -> Columns:
    partitions = partitions or [0] * len(values)
    origins = {number: Origin("topic", number, f"cluster/topic/{number}/") for number in partitions}
    return Columns(
        values,
        partitions,
        offsets or list(range(len(values))),
        times or [TIME] * len(values),
        keys,
        headers,
        origins,
        format or Json(),
    )


def _sent(frames, **options) -> tuple[list[Any], list[tuple[int, str]]]:
    channel, delivery, share = Channel(), Delivery(), Share()
    sink = PubsubSink("out", TOPIC, lambda: channel, delivery, None, **{"most_requests": 1_000, **options})
    share.give(len(frames))
    sink.send(frames, share, 100.0)
    sink.flush()
    requests = [pb.PublishRequest.FromString(body) for body in channel.bodies]
    assert all(request.topic == TOPIC for request in requests)
    return requests, [(frame.offset, reason) for frame, reason in delivery.refused]


def _messages(frames, **options):
    requests, refused = _sent(frames, **options)
    return [message for request in requests for message in request.messages], refused


_MESSAGE = st.tuples(
    st.one_of(
        st.none(), st.binary(max_size=300), st.sampled_from([b"x" * 127, b"y" * 128, b"z" * 16_384, b"w" * 70_000])
    ),
    st.integers(0, 2),
    st.one_of(st.sampled_from([-1, 0, 10**12 - 1, 10**13]), st.integers(TIME - 3_000, TIME + 3_000)),
    st.one_of(
        st.none(),
        st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=1_030))), max_size=3),
    ),
    st.integers(1, 3),
)


@given(st.lists(_MESSAGE, min_size=1, max_size=8), st.sampled_from([0, 8, 98, 998, 123_998, 2**62]), st.booleans())
def test_columns_become_the_messages_that_frames_become(messages, first, own):
    values, partitions, times, headers, steps = map(list, zip(*messages, strict=True))
    offsets, at = [], dict.fromkeys(range(3), first)
    for number, step in zip(partitions, steps, strict=True):
        at[number] += step
        offsets.append(at[number])
    batch = columns(values, partitions, offsets, times, None, headers if any(headers) else None)
    options = {"pipeline": "mine"} if own else {"drop_long_headers": True}
    assert _messages(batch, **options) == _messages(list(batch), **options)


_USUAL = st.tuples(st.binary(max_size=300), st.integers(0, 2), st.integers(TIME - 3_000, TIME + 3_000))


@given(st.lists(_USUAL, min_size=1, max_size=20), st.sampled_from([0, 95, 990, 5_990]))
def test_usual_messages_become_no_frames(messages, first):
    values, partitions, times = map(list, zip(*messages, strict=True))
    batch = columns(values, partitions, list(range(first, first + len(values))), times)
    wanted, _ = _messages(list(batch))

    class Frameless(Columns):
        __slots__ = ()

        def __getitem__(self, at):
            assert isinstance(at, slice), "a frame was made"
            return super().__getitem__(at)

    batch.__class__ = Frameless
    assert _messages(batch)[0] == wanted


def test_a_request_of_columns_holds_a_thousand_messages_and_its_bytes_at_most():
    requests, _ = _sent(columns([b"x"] * 2_500))
    assert [len(request.messages) for request in requests] == [1_000, 1_000, 500]
    requests, _ = _sent(columns([b"x" * 3_000_000] * 8))
    assert [len(request.messages) for request in requests] == [3, 3, 2]
    assert all(request.ByteSize() <= MOST_BYTES for request in requests)


def test_a_request_that_failed_goes_out_again_as_it_was():
    channel, delivery, share = Channel(), Delivery(), Share()

    class AtOnce:
        def after(self, seconds, call):
            sink._requests._backoff.until = 0.0
            call()

    sink = PubsubSink("out", TOPIC, lambda: channel, delivery, AtOnce())
    asked: list[Request] = []
    fire = sink._requests._fire
    sink._requests._fire = lambda request: (asked.append(request), fire(request))
    share.give(3)
    sink.send(columns([b"a", b"b", b"c"], offsets=[7, 1_000, 1_001]), share, 100.0)
    sink.flush()
    sink._requests.done(asked[0], Settled("retry", "down"))
    sink._requests._resume()
    assert len(channel.bodies) == 2
    assert channel.bodies[0] == channel.bodies[1]
    sink._requests.done(asked[1], Settled("delivered"))
    assert share.done


def test_what_is_refused_of_columns_with_ordering_keys_is_not_confirmed_as_well():
    # It would be confirmed twice: by the request that it is not in, and by its dead letter.
    channel, delivery, share = Channel(), Delivery(), Share()
    sink = PubsubSink("out", TOPIC, lambda: channel, delivery, None, ordering=True)
    asked: list[Request] = []
    fire = sink._requests._fire
    sink._requests._fire = lambda request: (asked.append(request), fire(request))
    share.give(3)
    sink.send(columns([b"a", b"b", b"c"], keys=[b"k", b"k" * 2_000, b"k"]), share, 3.0)
    sink.flush()
    sink._requests.done(asked[0], Settled("delivered"))
    assert [frame.offset for frame, _ in delivery.refused] == [1]
    assert (asked[0].count, share.confirmed) == (2, 2)


def test_a_frame_of_columns_is_a_fresh_one_and_shares_what_is_decoded_only_if_told():
    batch = columns([b'{"n":1}'])
    batch[0].set(["n"], 2)
    assert batch[0].fields == {"n": 1}
    assert batch[0].fields is not batch[0].fields
    shared = batch.shared()
    assert shared[0].fields is shared[0].fields


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([2**63, 1.5, 1e300]), st.text(max_size=2)
)


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.just(b"not json"),
            st.sampled_from([b"[1]", b"5", b"null", b'{"a":9223372036854775808}', b'{"a":1.00000000000000000001}']),
            st.dictionaries(st.sampled_from(["a", "b"]), _VALUES).map(orjson.dumps),
        ),
        max_size=6,
    ),
    st.sampled_from(
        [
            "payload.a < 2",
            'payload.a == "x"',
            'payload.a != ""',
            "payload.a >= 1.0 && !(payload.b < 0)",
            'payload.a > 1 || payload.b == "y"',
            "payload.a < 9223372036854775808",
            'payload.a > 1 && topic == "topic"',
            "key == null && offset < 4",
            "payload.a <= 1",
        ]
    ),
)
def test_a_filter_says_of_columns_what_it_says_of_frames(values, text):
    condition = compile_condition(text)
    format = CountedFormat(Json())
    batch = columns(values, format=format)
    filter = Filter.__new__(Filter)
    filter.condition = condition
    frames, by_columns = filter.apply(list(batch)), filter.sift(batch)
    assert [frame.offset for frame in by_columns.frames] == [frame.offset for frame in frames.frames]
    assert by_columns.filtered == frames.filtered
    assert [(f.offset, why) for f, why in by_columns.refused] == [(f.offset, why) for f, why in frames.refused]
    assert sift(batch, condition.test, None) == sift(batch, condition.test, condition.quick) or by_columns.refused
    assert sift(batch.shared(), condition.test)[0] == sift(batch, condition.test)[0]


@pytest.mark.parametrize("values", [[b'{"a":1}', b'{"a":true}', b'{"a":9e99}', b'{"b":[]}'] * 5, [b'{"a":1}'] * 5])
def test_a_filter_decodes_each_message_once(values):
    decoded: list[bytes] = []

    class Counting(Json):
        def decode(self, value):
            decoded.append(value)
            return super().decode(value)

    condition = compile_condition("payload.a < 2")
    assert condition.quick is not None
    said, faults = sift(columns(values, format=CountedFormat(Counting())), condition.test, condition.quick)
    assert decoded == values
    assert not faults
    assert said == [value == b'{"a":1}' for value in values]


class _Sink:
    name, trouble, backoff_seconds = "out", None, 0.0

    def __init__(self, delivery) -> None:
        self.values: list[bytes | None] = []
        self.delivery = delivery
        self.enough = threading.Event()

    def send(self, frames, share, size):
        self.values += [frame.value() for frame in frames]
        self.delivery.confirm(share, len(frames), size)
        self.enough.set()

    def flush(self):
        pass

    def close(self, deadline):
        return True


class _CountsUp:
    """Not the same when it is done twice."""

    def apply(self, frames):
        for frame in frames:
            frame.set(["n"], frame.fields["n"] + 1)
            frame.headers = [*frame.headers, ("seen", b"1")]
        return Outcome(frames)


class _NotYet(_CountsUp):
    """Changes a part of the batch, and cannot go on at its first attempts."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def apply(self, frames):
        half = frames[: len(frames) // 2]
        super().apply(half)
        if self.failures:
            self.failures -= 1
            raise _Soon
        return Outcome(half + super().apply(frames[len(half) :]).frames)


class _Soon(Unavailable):
    def remedy(self) -> None:
        """There it is."""


@pytest.mark.parametrize("by_columns", [True, False])
def test_a_batch_that_had_to_wait_begins_again_with_frames_that_no_stage_has_changed(by_columns):
    format = CountedFormat(Json())
    flow = Flow("p", format, [_CountsUp(), _NotYet(2)], Limits())
    sink = _Sink(flow.delivery("out"))
    flow.start({"out": sink})
    values = [b'{"n":%d}' % number for number in range(10)]
    frames: Any = columns(values, format=format)
    if not by_columns:
        origin = Origin("file", 0, "file/0/")
        frames = [Frame(Payload(value, format), offset=at, source=origin) for at, value in enumerate(values)]
    share = Share()
    flow.take(frames, share, 100)
    assert sink.enough.wait(10)
    assert flow.close(time.monotonic() + 5)
    assert sink.values == [b'{"n":%d}' % (number + 2) for number in range(10)]
    assert share.done
