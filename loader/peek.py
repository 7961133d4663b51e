"""A look at messages of a subscription without taking them away from the workers."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from loader.errors import LoaderError
from loader.message.message import Message
from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault
from loader.pull.receive import messages as read_messages
from loader.pull.subscription import Subscription, describe, parse_subscription

# How far back to look in a topic that retains messages: the newest shapes matter most, and seeking is cheap.
_SPANS = (600.0, 7_200.0, 86_400.0)
_QUIET_SECONDS = 3.0
_PULL_SECONDS = 2.0
_PER_PULL = 1_000
_HELD_BYTES = 64 * 1024 * 1024
_LEAST_TTL = 86_400  # what the service allows: should the deletion fail, it is gone a day later

_EMPTY_ANSWERS = (grpc.StatusCode.DEADLINE_EXCEEDED,)


def peek(stub: Stub, path: str, count: int, seconds: float, remark: Callable[[str], None]) -> list[Message]:
    """Up to `count` messages of the subscription `path`, waiting at most `seconds` for new ones.

    They are read through a temporary subscription on the same topic, which is deleted whatever happens. Where that is
    not permitted, they are pulled from the subscription itself and given back at once: a delivery attempt for each,
    which `remark` is told. Raises LoaderError when the subscription cannot be read at all.
    """
    try:
        live = describe(stub, path)
    except grpc.RpcError as error:
        code, details = fault(error)
        if code is grpc.StatusCode.PERMISSION_DENIED:
            return _from_live(stub, path, count, seconds, None, remark, "it may not be described")
        raise LoaderError(f"cannot read the subscription {path}: {code.name}: {details}") from error
    if live.topic == "_deleted-topic_":
        return _from_live(stub, path, count, seconds, live, remark, "its topic was deleted")
    try:
        with _temporary(stub, live) as name:
            return _from_temporary(stub, name, live, count, seconds)
    except _NotPermitted as error:
        reason = str(error)
    return _from_live(stub, path, count, seconds, live, remark, reason)


class _NotPermitted(Exception):
    """No temporary subscription may be made."""


@contextmanager
def _temporary(stub: Stub, live: Subscription) -> Iterator[str]:
    name = f"projects/{parse_subscription(live.name).project}/subscriptions/loader-plan-{uuid.uuid4().hex[:12]}"
    request = pb.Subscription(name=name, topic=live.topic, ack_deadline_seconds=60, filter=live.filter)
    request.message_retention_duration.seconds = _LEAST_TTL
    request.expiration_policy.ttl.seconds = _LEAST_TTL
    request.labels["purpose"] = "loader-plan"
    try:
        stub.create_subscription(request)
    except grpc.RpcError as error:
        code, details = fault(error)
        refused = (
            grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.UNIMPLEMENTED,
            grpc.StatusCode.NOT_FOUND,
        )
        if code in refused:
            raise _NotPermitted(f"a temporary subscription may not be made ({code.name}: {details})") from error
        # The answer may be lost and the subscription made all the same.
        _delete(stub, name)
        raise LoaderError(f"cannot make a temporary subscription on {live.topic}: {code.name}: {details}") from error
    except BaseException:
        _delete(stub, name)
        raise
    try:
        yield name
    finally:
        _delete(stub, name)


def _delete(stub: Stub, name: str) -> None:
    try:
        stub.delete_subscription(pb.DeleteSubscriptionRequest(subscription=name))
    except grpc.RpcError as error:
        code, details = fault(error)
        if code is not grpc.StatusCode.NOT_FOUND:
            raise LoaderError(
                f"the temporary subscription {name} is left behind ({code.name}: {details}): delete it, "
                "or it expires within a day"
            ) from error


def _from_temporary(stub: Stub, name: str, live: Subscription, count: int, seconds: float) -> list[Message]:
    found: dict[str, Message] = {}
    retention = _topic_retention(stub, live.topic)
    spans = [span for span in _SPANS if span < retention] + ([retention] if retention else [])
    for span in spans:
        found.clear()  # what comes again lies within the longer span, in the order of publishing
        request = pb.SeekRequest(subscription=name)
        request.time.FromDatetime(datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=span))
        stub.seek(request)
        _collect(stub, name, found, count, min(seconds, _QUIET_SECONDS), quiet_ends=True)
        if len(found) >= count:
            break
    if len(found) < count:
        _collect(stub, name, found, count, seconds, quiet_ends=bool(found))
    return list(found.values())[:count]


def _topic_retention(stub: Stub, topic: str) -> float:
    try:
        answer = stub.get_topic(pb.GetTopicRequest(topic=topic))
    except grpc.RpcError:
        return 0.0  # the right to read the topic is a separate one; then only what comes now is seen
    return float(answer.message_retention_duration.seconds)


def _collect(stub: Stub, name: str, found: dict[str, Message], count: int, seconds: float, *, quiet_ends: bool) -> None:
    """Pull until there are `count`, or nothing came for `seconds` (all in all, unless `quiet_ends`)."""
    held = sum(len(message.data) for message in found.values())
    deadline = time.monotonic() + seconds
    while len(found) < count and held < _HELD_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        request = pb.PullRequest(subscription=name, max_messages=min(count - len(found), _PER_PULL))
        try:
            response = stub.pull(request, timeout=max(0.2, min(left, _PULL_SECONDS)))
        except grpc.RpcError as error:
            code, details = fault(error)
            if code in _EMPTY_ANSWERS:
                continue
            raise LoaderError(f"cannot pull from {name}: {code.name}: {details}") from error
        taken, size = read_messages(response)
        held += size
        for message in taken:
            found.setdefault(message.message_id, message)
        if taken and quiet_ends:
            deadline = time.monotonic() + seconds


def _from_live(
    stub: Stub,
    path: str,
    count: int,
    seconds: float,
    live: Subscription | None,
    remark: Callable[[str], None],
    reason: str,
) -> list[Message]:
    text = f"peeking at {path} itself, for {reason}: this counts as a delivery attempt for each message that is seen"
    if live is not None and live.dead_letter is not None:
        text += (
            f"; after {live.dead_letter.max_delivery_attempts} attempts Pub/Sub moves a message to "
            f"{live.dead_letter.topic}"
        )
    remark(text)
    found: dict[str, Message] = {}
    try:
        _collect(stub, path, found, count, seconds, quiet_ends=False)
    finally:
        _give_back(stub, path, [message.ack_id for message in found.values()])
    return list(found.values())[:count]


def _give_back(stub: Stub, path: str, ack_ids: list[str]) -> None:
    for start in range(0, len(ack_ids), _PER_PULL):
        stub.modify_ack_deadline(
            pb.ModifyAckDeadlineRequest(
                subscription=path, ack_ids=ack_ids[start : start + _PER_PULL], ack_deadline_seconds=0
            )
        )
