"""What a backfill asks of Pub/Sub: snapshots, seeks and subscriptions for a while. Errors say what to do about them."""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from loader.backfill.reach import DELETED_TOPIC, SNAPSHOT_LIFETIME
from loader.errors import LoaderError
from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault
from loader.pull.subscription import Subscription, from_proto

_TRIES = 4
_AGAIN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED})
_RIGHTS = {
    "create_snapshot": "pubsub.snapshots.create on the project and pubsub.subscriptions.consume on the subscription",
    "seek": "pubsub.subscriptions.consume on the subscription and pubsub.snapshots.seek on the snapshot",
    "create_subscription": "pubsub.subscriptions.create on the project, pubsub.topics.attachSubscription on the topic",
    "list_snapshots": "pubsub.snapshots.list on the project",
}
_SPARE_SECONDS = 86_400
_LONGEST_RETENTION = 31 * 86_400
_LABEL = "loader-subscription"
_NAME = re.compile(r"projects/[^/]+/snapshots/[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a subscription."""

    name: str
    topic: str
    expires: datetime.datetime
    mark: str = ""
    """Of the subscription that the loader made it from, see `mark_of`; empty for one that was made otherwise."""

    @property
    def oldest(self) -> datetime.datetime:
        """Publish time of the oldest message that was unacked; when it was made if none was. Snapshots live 7 days,
        less the age of that message."""
        return self.expires - SNAPSHOT_LIFETIME


def mark_of(subscription: str) -> str:
    """What a snapshot's label says of its subscription, whose name a label could not hold."""
    return hashlib.blake2b(subscription.encode(), digest_size=16).hexdigest()


class Service:
    """Calls about one subscription. Every method raises LoaderError when Pub/Sub refuses or cannot be reached."""

    def __init__(self, stub: Stub, subscription: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._stub = stub
        self._sleep = sleep
        self.subscription = subscription
        self.project = subscription.split("/")[1]

    def describe(self) -> tuple[Subscription, float]:
        """The subscription, and the seconds for which its topic retains messages (0: it does not)."""
        found = self._call("get_subscription", pb.GetSubscriptionRequest(subscription=self.subscription))
        # Filled in by the service, where reading a subscription is allowed and reading its topic may not be.
        told = float(found.topic_message_retention_duration.seconds)
        if not told and found.topic != DELETED_TOPIC:
            try:
                topic = self._stub.get_topic(pb.GetTopicRequest(topic=found.topic))
                told = float(topic.message_retention_duration.seconds)
            except grpc.RpcError as error:
                if fault(error)[0] not in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND):
                    raise _refused("get_topic", error) from error
        return from_proto(found), told

    def snapshot_name(self, name: str) -> str:
        """The full name of a snapshot."""
        full = name if "/" in name else f"projects/{self.project}/snapshots/{name}"
        if not _NAME.fullmatch(full):
            raise LoaderError(
                f"{name!r} is no name of a snapshot: it begins with a letter and has 3 to 255 letters, digits and "
                "-_.~+% (or projects/P/snapshots/NAME)"
            )
        return full

    def keeps_labels(self) -> bool:
        """False for an emulator that forgets the labels of snapshots, the official one."""
        name = f"probe-{secrets.token_hex(6)}"
        try:
            return bool(self.create_snapshot(name).mark)
        finally:
            self.delete_snapshot(name)

    def create_snapshot(self, name: str) -> Snapshot:
        """A snapshot of the subscription; one of that name that is there is kept as it is."""
        full = self.snapshot_name(name)
        request = pb.CreateSnapshotRequest(name=full, subscription=self.subscription)
        request.labels[_LABEL] = mark_of(self.subscription)
        try:
            return _snapshot(self._call("create_snapshot", request))
        except _Exists:
            return self.snapshot(full)

    def snapshot(self, name: str) -> Snapshot:
        """The snapshot."""
        full = self.snapshot_name(name)
        for found in self.snapshots():
            if found.name == full:
                return found
        raise LoaderError(f"there is no snapshot {full} (they live 7 days at most): `loader snapshot list` shows them")

    def snapshots(self, topic: str | None = None) -> list[Snapshot]:
        """The project's snapshots, or those of a topic, the oldest first."""
        found: list[Snapshot] = []
        token = ""
        while True:
            request = pb.ListSnapshotsRequest(project=f"projects/{self.project}", page_token=token)
            page = self._call("list_snapshots", request)
            found += [_snapshot(one) for one in page.snapshots if topic is None or one.topic == topic]
            token = page.next_page_token
            if not token:
                return sorted(found, key=lambda one: (one.expires, one.name))

    def delete_snapshot(self, name: str) -> None:
        """Delete it; nothing happens when it is gone."""
        try:
            self._call("delete_snapshot", pb.DeleteSnapshotRequest(snapshot=self.snapshot_name(name)))
        except _Missing:
            return

    def seek(self, since: datetime.datetime | None, snapshot: str | None, subscription: str | None = None) -> None:
        """Seek to a time or to a snapshot (full name)."""
        request = pb.SeekRequest(subscription=subscription or self.subscription)
        if snapshot is not None:
            request.snapshot = snapshot
        elif since is not None:
            request.time.FromDatetime(since)
        self._call("seek", request)

    def create_aside(self, name: str, like: Subscription, since: datetime.datetime, now: datetime.datetime) -> None:
        """A subscription of the same topic and filter, gone by itself when it is forgotten. Kept if it is there."""
        made = pb.Subscription(name=name, topic=like.topic, ack_deadline_seconds=60, filter=like.filter)
        # What is brought back must not run out before it is loaded; a subscription may not expire before its messages.
        wanted = int((now - since).total_seconds()) + _SPARE_SECONDS
        made.message_retention_duration.seconds = min(wanted, _LONGEST_RETENTION)
        made.expiration_policy.ttl.seconds = min(wanted, _LONGEST_RETENTION)
        try:
            self._call("create_subscription", made)
        except _Exists:
            return

    def delete_subscription(self, name: str) -> None:
        """Delete it; nothing happens when it is gone."""
        try:
            self._call("delete_subscription", pb.DeleteSubscriptionRequest(subscription=name))
        except _Missing:
            return

    def _call(self, name: str, request: Any) -> Any:
        for attempt in range(_TRIES):
            try:
                return getattr(self._stub, name)(request)
            except grpc.RpcError as error:
                if fault(error)[0] not in _AGAIN or attempt == _TRIES - 1:
                    raise _refused(name, error, _subject(request)) from error
                self._sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable")


class _Exists(LoaderError):
    """ALREADY_EXISTS."""


class _Missing(LoaderError):
    """NOT_FOUND."""


class Refused(LoaderError):
    """Pub/Sub will not do it however often it is asked."""


def _subject(request: Any) -> str:
    """What a request is about, if it has one name."""
    return next((str(value) for field in ("subscription", "snapshot") if (value := getattr(request, field, ""))), "")


def _refused(name: str, error: grpc.RpcError, subject: str = "") -> LoaderError:
    code, details = fault(error)
    text = f"Pub/Sub answered {name} with {code.name}: {details}"
    if subject and isinstance(details, str) and subject not in details:
        text += f" ({subject})"
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return _Exists(text)
    if code is grpc.StatusCode.NOT_FOUND:
        return _Missing(text)
    if code in _AGAIN:
        return LoaderError(f"{text}; run the same command again")
    if code is grpc.StatusCode.PERMISSION_DENIED and name in _RIGHTS:
        text += f"; it takes {_RIGHTS[name]} (roles/pubsub.editor has them)"
    return Refused(text)


def _snapshot(made: Any) -> Snapshot:
    expires = made.expire_time.ToDatetime(tzinfo=datetime.UTC)
    return Snapshot(made.name, made.topic, expires, made.labels.get(_LABEL, ""))
