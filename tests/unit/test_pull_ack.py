"""Acks and nacks against a stub that answers as it is told."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from loader.pull.ack import MAX_BYTES, MAX_IDS, Acknowledger, chunks, refusals

SUBSCRIPTION = "projects/p/subscriptions/events"


class Failure(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """A failed call, with ErrorInfo details when ids were refused."""

    def __init__(self, code: grpc.StatusCode, refused: dict[str, str] | None = None) -> None:
        self._code = code
        self._metadata: tuple[Any, ...] = ()
        if refused is not None:
            detail = any_pb2.Any()
            detail.Pack(error_details_pb2.ErrorInfo(reason="EXACTLY_ONCE_ACKID_FAILURE", metadata=refused))
            status = status_pb2.Status(code=3, details=[detail])
            self._metadata = (("grpc-status-details-bin", status.SerializeToString()),)

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "told to fail"

    def trailing_metadata(self) -> tuple[Any, ...]:
        return self._metadata

    def initial_metadata(self) -> tuple[Any, ...]:
        return ()

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float:
        return 0.0

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: Any) -> bool:
        return False


class StubThatFails:
    def __init__(self, *failures: Failure) -> None:
        self._failures = list(failures)
        self._lock = threading.Lock()
        self.acks: list[list[str]] = []
        self.nacks: list[list[str]] = []
        self.blocked: threading.Event | None = None

    def acknowledge(self, request: Any, timeout: float) -> None:
        self._answer(self.acks, request)

    def modify_ack_deadline(self, request: Any, timeout: float) -> None:
        assert request.ack_deadline_seconds == 0
        self._answer(self.nacks, request)

    def _answer(self, calls: list[list[str]], request: Any) -> None:
        assert request.subscription == SUBSCRIPTION
        if self.blocked is not None:
            self.blocked.wait(30)
        with self._lock:
            calls.append(list(request.ack_ids))
            if self._failures:
                raise self._failures.pop(0)


@pytest.fixture
def made() -> Iterator[list[Acknowledger]]:
    every: list[Acknowledger] = []
    yield every
    for one in every:
        one.close(time.monotonic() + 1)


def acknowledger(made: list[Acknowledger], stub: StubThatFails) -> Acknowledger:
    one = Acknowledger(stub, SUBSCRIPTION)  # type: ignore[arg-type]
    one.start()
    made.append(one)
    return one


def flushed(acks: Acknowledger) -> bool:
    return acks.flush(time.monotonic() + 20)


def test_requests_keep_to_the_limits_of_ids_and_bytes() -> None:
    ids = [f"{number:06d}" for number in range(6_000)]
    pieces = list(chunks(ids))
    assert [len(piece) for piece in pieces] == [MAX_IDS, MAX_IDS, 1_000]
    assert sum(pieces, []) == ids  # noqa: RUF017
    long = ["x" * 900 + str(number) for number in range(1_000)]
    pieces = list(chunks(long))
    assert sum(pieces, []) == long  # noqa: RUF017
    assert all(sum(len(ack_id) + 4 for ack_id in piece) <= MAX_BYTES for piece in pieces)
    assert list(chunks([])) == []


def test_only_what_was_told_is_acked_and_nacked(made: list[Acknowledger]) -> None:
    stub = StubThatFails()
    acks = acknowledger(made, stub)
    acks.ack(["a", "b"])
    acks.nack(["c"])
    acks.ack([])
    assert flushed(acks)
    assert stub.acks == [["a", "b"]]
    assert stub.nacks == [["c"]]
    assert (acks.acked, acks.nacked, acks.failed) == (2, 1, 0)


def test_an_unavailable_service_is_asked_again(made: list[Acknowledger]) -> None:
    stub = StubThatFails(Failure(grpc.StatusCode.UNAVAILABLE), Failure(grpc.StatusCode.DEADLINE_EXCEEDED))
    acks = acknowledger(made, stub)
    acks.ack(["a", "b"])
    assert flushed(acks)
    assert stub.acks == [["a", "b"]] * 3
    assert (acks.acked, acks.failed) == (2, 0)


def test_exactly_once_transient_failures_are_retried_and_permanent_ones_only_warned_about(
    made: list[Acknowledger], caplog: pytest.LogCaptureFixture
) -> None:
    refused = {"b": "TRANSIENT_FAILURE_UNORDERED_ACK_ID", "c": "PERMANENT_FAILURE_INVALID_ACK_ID"}
    stub = StubThatFails(Failure(grpc.StatusCode.INVALID_ARGUMENT, refused))
    acks = acknowledger(made, stub)
    with caplog.at_level(logging.WARNING):
        acks.ack(["a", "b", "c"])
        assert flushed(acks)
    assert stub.acks == [["a", "b", "c"], ["b"]]
    assert (acks.acked, acks.failed) == (2, 1)
    assert "1 acks failed" in caplog.text
    assert "PERMANENT_FAILURE_INVALID_ACK_ID" in caplog.text


def test_an_ack_refused_for_another_reason_is_a_warning_and_no_more(
    made: list[Acknowledger], caplog: pytest.LogCaptureFixture
) -> None:
    stub = StubThatFails(Failure(grpc.StatusCode.NOT_FOUND))
    acks = acknowledger(made, stub)
    with caplog.at_level(logging.WARNING):
        acks.ack(["a"])
        assert flushed(acks)
    acks.ack(["b"])
    assert flushed(acks)
    assert stub.acks == [["a"], ["b"]]
    assert (acks.acked, acks.failed, acks.fatal) == (1, 1, None)
    assert SUBSCRIPTION in caplog.text


def test_flush_says_when_not_everything_could_be_sent(made: list[Acknowledger]) -> None:
    stub = StubThatFails()
    stub.blocked = threading.Event()
    acks = acknowledger(made, stub)
    acks.ack(["a"])
    assert not acks.flush(time.monotonic() + 0.05)
    stub.blocked.set()
    assert flushed(acks)


def test_close_gives_up_on_a_service_that_stays_away(
    made: list[Acknowledger], caplog: pytest.LogCaptureFixture
) -> None:
    stub = StubThatFails(*[Failure(grpc.StatusCode.UNAVAILABLE) for _ in range(100)])
    acks = acknowledger(made, stub)
    acks.ack(["a"])
    with caplog.at_level(logging.WARNING):
        assert not acks.close(time.monotonic() + 0.3)
    assert (acks.acked, acks.failed) == (0, 1)
    assert "will come again" in caplog.text


def test_an_error_without_details_names_no_ids() -> None:
    assert refusals(Failure(grpc.StatusCode.UNAVAILABLE)) == {}
    assert refusals(grpc.RpcError()) == {}
