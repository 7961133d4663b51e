"""Topics, subscriptions and snapshots of the in-memory Pub/Sub server: a state machine without threads or I/O.

The clock is given: microseconds since the epoch, never going back. Limits and defaults are those of the service, as
its reference documents them. Nothing unacked is ever dropped to save memory: at `max_bytes` a publish is refused.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from loader.local import protocol
from loader.local.lease import Stored
from loader.local.refusal import Refusal, already_exists, invalid, not_found
from loader.local.subscription import DEFAULT_RETENTION, SECOND, Subscription, _micros

DELETED_TOPIC = "_deleted-topic_"
MAX_MESSAGES = 1_000
MAX_REQUEST_BYTES = 10_000_000
_NAME = re.compile(r"projects/[^/]+/(topics|subscriptions|snapshots)/([A-Za-z][A-Za-z0-9._~+%-]{2,254})")


def _check_name(name: str, kind: str) -> None:
    match = _NAME.fullmatch(name)
    if not match or match[1] != kind or match[2].startswith("goog"):
        raise invalid(
            f"{name!r} is no name of the form projects/PROJECT/{kind}/ID (ID: 3 to 255 letters, digits, -._~+%)."
        )


def _check_range(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise invalid(f"{what} must be between {low} and {high} seconds, not {value}.")


class TopicState:
    """A topic: its settings, who is subscribed, and what its own retention keeps."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.subscriptions: list[Subscription] = []
        self.snapshots: list[SnapshotState] = []
        self.log: deque[Stored] = deque()
        self.bytes = 0
        self.published = 0

    @property
    def retention(self) -> int:
        """Microseconds; 0 when the topic itself keeps nothing."""
        return _micros(self.config.message_retention_duration)

    def trim(self, now: int) -> None:
        """Drops what is older than the topic's retention."""
        oldest = now - self.retention
        while self.log and self.log[0].published < oldest:
            self.bytes -= self.log.popleft().size


class SnapshotState:
    """What was unacked when it was made, and everything published since."""

    def __init__(self, config: Any, unacked: list[Stored], expires: int) -> None:
        self.config = config
        self.messages = unacked
        self.expires = expires
        self.bytes = sum(message.size for message in unacked)

    def add(self, messages: list[Stored], size: int) -> None:
        """Keeps messages that were published after the snapshot was made."""
        self.messages.extend(messages)
        self.bytes += size


class Store:
    """Everything the server knows. Raises Refusal with the code that the service answers."""

    def __init__(self, clock: Callable[[], int], max_bytes: int = 2_000_000_000) -> None:
        self.clock = clock
        self.max_bytes = max_bytes
        # Ids start at the time: message ids and ack ids of a server that ran before are not met again.
        self.numbers = itertools.count(clock())
        self.topics: dict[str, TopicState] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.snapshots: dict[str, SnapshotState] = {}

    # Topics

    def create_topic(self, config: Any) -> Any:
        """Makes a topic."""
        _check_name(config.name, "topics")
        if config.name in self.topics:
            raise already_exists(config.name)
        self._check_topic(config)
        self.topics[config.name] = TopicState(config)
        return config

    def _check_topic(self, config: Any) -> None:
        if config.HasField("message_retention_duration"):
            seconds = _micros(config.message_retention_duration) / SECOND
            _check_range("message_retention_duration", seconds, 600, 31 * 86_400)

    def update_topic(self, config: Any, mask: Any) -> Any:
        """Changes the fields in `mask`."""
        topic = self.topic(config.name)
        changed = protocol.Topic()
        changed.CopyFrom(topic.config)
        _merge(mask, config, changed)
        self._check_topic(changed)
        topic.config = changed
        topic.trim(self.clock())
        return changed

    def topic(self, name: str) -> TopicState:
        """The topic with this name."""
        topic = self.topics.get(name)
        if topic is None:
            raise not_found(name)
        return topic

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; its subscriptions keep what they have."""
        for subscription in self.topic(name).subscriptions:
            subscription.config.topic = DELETED_TOPIC
        del self.topics[name]

    def publish(self, name: str, messages: Iterable[Any]) -> tuple[list[str], list[Subscription]]:
        """Publishes PubsubMessages; returns their ids and the subscriptions that have something new."""
        topic = self.topic(name)
        now = self.clock()
        time_field = protocol.publish_time_field(now)
        stored: list[Stored] = []
        ids: list[str] = []
        size = 0
        for message in messages:
            if not message.data and not message.attributes:
                raise invalid("A message needs data or at least one attribute.")
            number = next(self.numbers)
            digits = str(number)
            content = message.SerializeToString() + protocol.publish_fields(digits.encode(), time_field)
            kept = Stored(number, now, protocol.message_field(content), message.ordering_key)
            size += kept.size
            stored.append(kept)
            ids.append(digits)
        if not 0 < len(stored) <= MAX_MESSAGES:
            raise invalid(f"A request holds 1 to {MAX_MESSAGES} messages, not {len(stored)}.")
        self._make_room(topic, size, now)
        for subscription in topic.subscriptions:
            subscription.add(stored, size)
        for snapshot in topic.snapshots:
            snapshot.add(stored, size)
        if topic.retention:
            topic.log.extend(stored)
            topic.bytes += size
            topic.trim(now)
        topic.published += len(stored)
        return ids, topic.subscriptions

    def _make_room(self, topic: TopicState, size: int, now: int) -> None:
        copies = len(topic.subscriptions) + len(topic.snapshots) + bool(topic.retention)
        if self.bytes() + size * copies <= self.max_bytes:
            return
        for subscription in self.subscriptions.values():
            subscription.expire(now)
        for one in self.topics.values():
            one.trim(now)
        self._expire_snapshots(now)
        if self.bytes() + size * copies > self.max_bytes:
            raise Refusal(
                "RESOURCE_EXHAUSTED",
                f"The in-memory server keeps at most {self.max_bytes} bytes (a message counts for each that keeps it: "
                "subscription, snapshot, topic). Ack messages, shorten a retention or start it with more --max-bytes.",
            )

    def bytes(self) -> int:
        """Bytes kept; a message counts once for each that keeps it."""
        kept: Iterable[Any] = itertools.chain(
            self.subscriptions.values(), self.topics.values(), self.snapshots.values()
        )
        return sum(one.bytes for one in kept)

    # Subscriptions

    def create_subscription(self, config: Any) -> Any:
        """Makes a subscription. Refuses what this server does not offer: push, export, filters."""
        _check_name(config.name, "subscriptions")
        if config.name in self.subscriptions:
            raise already_exists(config.name)
        topic = self.topic(config.topic)
        if not config.ack_deadline_seconds:
            config.ack_deadline_seconds = 10
        if not config.HasField("message_retention_duration"):
            config.message_retention_duration.seconds = DEFAULT_RETENTION // SECOND
        if not config.HasField("expiration_policy"):
            config.expiration_policy.ttl.seconds = 31 * 86_400
        config.state = 1
        self._check_subscription(config)
        subscription = Subscription(config, self.numbers, self.clock())
        self.subscriptions[config.name] = subscription
        topic.subscriptions.append(subscription)
        return config

    def _check_subscription(self, config: Any) -> None:
        for field in ("push_config", "bigquery_config", "cloud_storage_config"):
            if config.HasField(field) and getattr(config, field).ByteSize():
                raise Refusal("UNIMPLEMENTED", f"The in-memory server has pull subscriptions only: leave {field} out.")
        if config.filter:
            raise Refusal("UNIMPLEMENTED", f"The in-memory server has no filters: leave filter={config.filter!r} out.")
        _check_range("ack_deadline_seconds", config.ack_deadline_seconds, 10, 600)
        seconds = _micros(config.message_retention_duration) / SECOND
        _check_range("message_retention_duration", seconds, 600, 31 * 86_400)
        attempts = config.dead_letter_policy.max_delivery_attempts
        if attempts and not 5 <= attempts <= 100:
            raise invalid(f"max_delivery_attempts must be between 5 and 100, not {attempts}.")

    def subscription(self, name: str) -> Subscription:
        """The subscription with this name; one that was unused for its expiration time is gone."""
        now = self.clock()
        subscription = self.subscriptions.get(name)
        if subscription is None:
            raise not_found(name)
        if subscription.expires_after and now - subscription.touched > subscription.expires_after:
            self.delete_subscription(name)
            raise not_found(name)
        subscription.touched = now
        return subscription

    def update_subscription(self, config: Any, mask: Any) -> Any:
        """Changes the fields in `mask`."""
        subscription = self.subscription(config.name)
        fixed = {"name", "topic", "enable_message_ordering", "filter"} & set(mask.paths)
        if fixed or not mask.paths:
            raise invalid(f"update_mask must name fields that can change, not {sorted(fixed)}.")
        changed = protocol.Subscription()
        changed.CopyFrom(subscription.config)
        _merge(mask, config, changed)
        self._check_subscription(changed)
        subscription.configure(changed)
        return changed

    def delete_subscription(self, name: str) -> Subscription:
        """Deletes a subscription and what it keeps."""
        subscription = self.subscriptions.pop(name, None)
        if subscription is None:
            raise not_found(name)
        subscription.deleted = True
        topic = self.topics.get(subscription.config.topic)
        if topic is not None:
            topic.subscriptions.remove(subscription)
        return subscription

    def forward_exhausted(self, subscription: Subscription) -> list[Subscription]:
        """Publishes messages that used up their deliveries to the dead-letter topic, as the service does.

        Without that topic they stay in the subscription. Returns the subscriptions that have something new.
        """
        told: list[Subscription] = []
        topic = self.topics.get(subscription.dead_letter_topic)
        if topic is None:
            return told
        for lease in subscription.exhausted():
            message = protocol.message_of(lease.message.field)
            message.attributes["CloudPubSubDeadLetterSourceSubscription"] = subscription.name.rpartition("/")[2]
            message.attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = subscription.name.split("/")[1]
            message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = str(lease.deliveries)
            told += self.publish(topic.config.name, [message])[1]
            subscription.drop(lease)
        return told

    # Snapshots and seek

    def create_snapshot(self, name: str, subscription_name: str, labels: Any) -> Any:
        """Keeps the subscription's backlog of now, and what is published from now on, under a name."""
        _check_name(name, "snapshots")
        subscription = self.subscription(subscription_name)
        now = self.clock()
        self._expire_snapshots(now)
        if name in self.snapshots:
            raise already_exists(name)
        topic = self.topics.get(subscription.config.topic)
        if topic is None:
            raise Refusal("FAILED_PRECONDITION", f"The topic of {subscription_name} was deleted.")
        unacked = subscription.unacked_messages()
        oldest = unacked[0].published if unacked else now
        expires = oldest + 7 * 86_400 * SECOND
        if expires - now < 3_600 * SECOND:
            raise Refusal("FAILED_PRECONDITION", f"A snapshot of {subscription_name} would expire within an hour.")
        config = protocol.Snapshot(name=name, topic=topic.config.name)
        config.expire_time.FromMicroseconds(expires)
        config.labels.update(labels)
        self.snapshots[name] = snapshot = SnapshotState(config, unacked, expires)
        topic.snapshots.append(snapshot)
        return config

    def snapshot(self, name: str) -> SnapshotState:
        """The snapshot with this name."""
        self._expire_snapshots(self.clock())
        snapshot = self.snapshots.get(name)
        if snapshot is None:
            raise not_found(name)
        return snapshot

    def delete_snapshot(self, name: str) -> None:
        """Deletes a snapshot."""
        snapshot = self.snapshots.pop(name, None)
        if snapshot is None:
            raise not_found(name)
        topic = self.topics.get(snapshot.config.topic)
        if topic is not None:
            topic.snapshots.remove(snapshot)

    def _expire_snapshots(self, now: int) -> None:
        for name in [name for name, snapshot in self.snapshots.items() if snapshot.expires <= now]:
            self.delete_snapshot(name)

    def seek_to_time(self, name: str, instant: int) -> Subscription:
        """Everything retained that was published at `instant` (microseconds) or later is unacked, the rest acked."""
        subscription, known = self._known(name)
        unacked = [message for message in known if message.published >= instant]
        subscription.replace(unacked, [message for message in known if message.published < instant])
        return subscription

    def seek_to_snapshot(self, name: str, snapshot_name: str) -> Subscription:
        """What the snapshot keeps is unacked, the rest acked."""
        subscription, known = self._known(name)
        snapshot = self.snapshot(snapshot_name)
        if snapshot.config.topic != subscription.config.topic:
            raise invalid(f"{snapshot_name} belongs to another topic than {name}.")
        kept = {message.number for message in snapshot.messages}
        subscription.replace(list(snapshot.messages), [message for message in known if message.number not in kept])
        return subscription

    def _known(self, name: str) -> tuple[Subscription, list[Stored]]:
        """The subscription and all that it could see again: its own messages and its topic's log, in publish order."""
        subscription = self.subscription(name)
        now = self.clock()
        subscription.expire(now)
        messages = {message.number: message for message in (*subscription.unacked_messages(), *subscription.acked)}
        topic = self.topics.get(subscription.config.topic)
        if topic is not None:
            topic.trim(now)
            messages.update((message.number, message) for message in topic.log)
        return subscription, [messages[number] for number in sorted(messages)]


def _merge(mask: Any, source: Any, target: Any) -> None:
    """Copies the fields in `mask`, replacing whole messages and lists; a field that `source` lacks is cleared."""
    for path in mask.paths:
        if path not in target.DESCRIPTOR.fields_by_name:
            raise invalid(f"update_mask names {path!r}, which is no field of {target.DESCRIPTOR.name}.")
        target.ClearField(path)
        single = protocol_field(source, path)
        if single is not None:
            target.MergeFrom(single)


def protocol_field(source: Any, path: str) -> Any:
    """A message of `source`'s class that holds only the field `path`; None when `source` does not set it."""
    if path not in {field.name for field, _ in source.ListFields()}:
        return None
    single = type(source)()
    single.CopyFrom(source)
    for field, _ in source.ListFields():
        if field.name != path:
            single.ClearField(field.name)
    return single
