"""Publishing: lines, requests, pace and retries, against a stand-in for the service's call."""

from __future__ import annotations

import gzip
import io
from itertools import chain
from typing import Any

import grpc
import pytest

from loader.errors import LoaderError
from loader.publish import MAX_BYTES, MAX_MESSAGE_BYTES, Publisher, Receipt, publish_stream, read_lines
from loader.pull import protocol as pb

TOPIC = "projects/p/topics/events"


class Refusal(grpc.RpcError, grpc.Call):
    """A failed call, as grpc raises it."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "as told"

    def initial_metadata(self) -> None: ...
    def trailing_metadata(self) -> None: ...
    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> None: ...
    def cancel(self) -> None: ...
    def add_callback(self, callback: Any) -> bool:
        return False


class Service:
    """Takes requests; refuses the first ones with `refusals`. Time passes only by `sleep`."""

    def __init__(self, *refusals: grpc.StatusCode) -> None:
        self.refusals = list(refusals)
        self.requests: list[Any] = []
        self.sent_at: list[float] = []
        self.now = 0.0

    def unary(self, name: str) -> Service:
        assert name == "publish"
        return self

    def __call__(self, request: Any, timeout: float) -> Any:
        if self.refusals:
            raise Refusal(self.refusals.pop(0))
        first = sum(len(one.messages) for one in self.requests)
        self.requests.append(request)
        self.sent_at.append(self.now)
        return pb.PublishResponse(message_ids=[str(first + number) for number in range(len(request.messages))])

    def future(self, request: Any, timeout: float) -> Any:
        service = self

        class Future:
            def __init__(self) -> None:
                self.outcome: Any = None
                try:
                    self.outcome = service(request, timeout)
                except grpc.RpcError as error:
                    self.outcome = error

            def result(self) -> Any:
                if isinstance(self.outcome, Exception):
                    raise self.outcome
                return self.outcome

        return Future()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def publisher(self, **options: Any) -> Publisher:
        stub: Any = self
        return Publisher(stub, TOPIC, clock=lambda: self.now, sleep=self.sleep, **options)

    def sizes(self) -> list[int]:
        return [len(request.messages) for request in self.requests]


class Trickle:
    """A pipe that gives these pieces, one a read."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def read1(self, size: int, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\n \xff\x00\n", [b"a\r", b" \xff\x00"]),
        (b"\n\na\n", [b"", b"", b"a"]),
    ],
)
def test_lines_are_taken_byte_for_byte(content: bytes, lines: list[bytes]) -> None:
    assert list(chain.from_iterable(read_lines(io.BytesIO(content)))) == lines
    one_byte_each = Trickle(*(content[i : i + 1] for i in range(len(content))))
    assert list(chain.from_iterable(read_lines(one_byte_each))) == lines


def test_a_line_is_given_on_as_soon_as_it_is_there() -> None:
    lines = read_lines(Trickle(b"first\nsec", b"ond\n"))
    assert next(lines) == [b"first"]
    assert next(lines) == [b"second"]


def test_a_line_without_end_is_refused_by_number_before_it_fills_the_memory() -> None:
    endless = Trickle(b"ok\n", *[b"x" * 1_000] * 50)
    with pytest.raises(LoaderError, match="Line 2 is longer than 10,000 bytes"):
        list(read_lines(endless, limit=10_000))
    assert len(endless.pieces) > 35


def test_requests_hold_a_thousand_messages_and_the_receipt_counts_them() -> None:
    service = Service()
    receipt = publish_stream(service.publisher(), io.BytesIO(b"x\n" * 1_500 + b"\n" + b"y\n" * 1_000))
    assert service.sizes() == [1_000, 1_000, 500]
    assert receipt == Receipt(
        TOPIC, 2_500, 2_500, 3, skipped=1, seconds=0.0, first_message_id="0", last_message_id="2499"
    )


def test_requests_stay_below_the_limit_of_bytes_attributes_included() -> None:
    service = Service()
    publisher = service.publisher(attributes={"k" * 256: "v" * 1024})
    publisher.publish([b"x" * 8_000] * 3_000 + [b"y" * 9_900_000])
    assert publisher.flush().messages == 3_001
    assert max(request.ByteSize() for request in service.requests[:-1]) <= MAX_BYTES + 200
    assert service.requests[-1].ByteSize() < 10_000_000


def test_a_message_that_is_too_great_is_refused_by_number() -> None:
    service = Service()
    with pytest.raises(LoaderError, match="Message 3 has"):
        service.publisher().publish([b"a", b"", b"x" * (MAX_MESSAGE_BYTES + 1)])


def test_compressed_bodies_say_so_and_are_the_same_bytes_each_time() -> None:
    service = Service()
    publisher = service.publisher(compress=True, attributes={"a": "b"})
    publisher.publish([b'{"a":1}'])
    publisher.publish([b'{"a":1}'])
    publisher.flush()
    first, second = (request.messages[0] for request in service.requests)
    assert gzip.decompress(first.data) == b'{"a":1}'
    assert first.data == second.data
    assert dict(first.attributes) == {"a": "b", "content-encoding": "gzip"}


def test_a_rate_spreads_messages_over_the_time() -> None:
    service = Service()
    publisher = service.publisher(rate=100)
    publisher.publish([b"x"] * 300)
    publisher.flush()
    assert max(service.sizes()) == 5
    for number, at in enumerate(service.sent_at):
        assert at == pytest.approx(number * 5 / 100)


def test_a_rate_below_one_a_second_waits_between_messages() -> None:
    service = Service()
    publisher = service.publisher(rate=0.5)
    publisher.publish([b"x"] * 3)
    publisher.flush()
    assert service.sent_at == pytest.approx([0.0, 2.0, 4.0])


def test_what_may_pass_is_tried_again_and_counted_once() -> None:
    service = Service(grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    publisher = service.publisher()
    publisher.publish([b"x"] * 10)
    assert publisher.flush().messages == 10
    assert service.sizes() == [10]


def test_a_service_that_stays_away_ends_the_command_after_a_minute_with_the_count_so_far() -> None:
    service = Service()
    publisher = service.publisher()
    publisher.publish([b"x"] * 10)
    publisher.flush()
    service.refusals = [grpc.StatusCode.UNAVAILABLE] * 1_000
    publisher.publish([b"y"])
    with pytest.raises(LoaderError, match=r"UNAVAILABLE as told. 10 messages were published before"):
        publisher.flush()
    assert 50 < service.now <= 60


def test_a_refusal_is_not_tried_again() -> None:
    service = Service(grpc.StatusCode.NOT_FOUND)
    publisher = service.publisher()
    publisher.publish([b"x"])
    with pytest.raises(LoaderError, match="NOT_FOUND"):
        publisher.flush()
    assert service.requests == []
