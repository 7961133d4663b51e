"""Names of subscriptions and topics, and what the service says about a subscription."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from loader.errors import ConfigurationError
from loader.pull import protocol as pb
from loader.pull.channel import Stub

# Project ids of the service are narrower; emulators take any, and domain-scoped ones have dots and a colon.
_PROJECT = r"[a-z0-9][a-z0-9.:\-]{0,62}"
# https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names: 3 to 255 characters, a letter first, not goog….
_RESOURCE = r"(?!goog)[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}"


@dataclass(frozen=True)
class Name:
    """`projects/P/subscriptions/S` or `projects/P/topics/T`, taken apart."""

    project: str
    kind: str
    """`subscriptions` or `topics`."""
    id: str

    @property
    def path(self) -> str:
        return f"projects/{self.project}/{self.kind}/{self.id}"

    def __str__(self) -> str:
        return self.path


def parse_subscription(text: str) -> Name:
    """The name in `projects/P/subscriptions/S`. Raises ConfigurationError, which shows the form."""
    return _parse(text, "subscriptions", "subscription", "LOADER_SUBSCRIPTION")


def parse_topic(text: str, setting: str = "the topic") -> Name:
    """The name in `projects/P/topics/T`; `setting` is what to call it in an error. Raises ConfigurationError."""
    return _parse(text, "topics", "topic", setting)


def _parse(text: str, kind: str, noun: str, setting: str) -> Name:
    match = re.fullmatch(rf"projects/({_PROJECT})/{kind}/({_RESOURCE})", text)
    if match is None:
        raise ConfigurationError(
            f"{setting} is {text!r}, which names no {noun}: give it as projects/PROJECT/{kind}/NAME "
            "(NAME: 3 to 255 letters, digits and -_.~+%, a letter first, not starting with goog)"
        )
    return Name(match[1], kind, match[2])


@dataclass(frozen=True)
class DeadLetterPolicy:
    topic: str
    max_delivery_attempts: int
    """The service's default of 5 shows as 5."""


@dataclass(frozen=True)
class RetryPolicy:
    """Seconds that a nacked or expired message waits before it is delivered again."""

    minimum_backoff: float
    maximum_backoff: float


@dataclass(frozen=True)
class Subscription:
    """What the service says about a subscription. Durations are in seconds."""

    name: str
    topic: str
    """`_deleted-topic_` when the topic was deleted."""
    ack_deadline: int
    retention: float
    retain_acked: bool
    exactly_once: bool
    ordered: bool
    filter: str
    """Empty without one."""
    dead_letter: DeadLetterPolicy | None
    retry: RetryPolicy | None
    expires_after: float | None
    """Seconds without a subscriber after which it is deleted; None when it never is."""
    detached: bool
    pulled: bool
    """False when it delivers by itself: push, BigQuery, Cloud Storage or Bigtable."""


def describe(stub: Stub, path: str, timeout: float = 10.0) -> Subscription:
    """Ask the service about the subscription `path`. Needs pubsub.subscriptions.get; raises grpc.RpcError."""
    return from_proto(stub.get_subscription(pb.GetSubscriptionRequest(subscription=path), timeout=timeout))


def from_proto(subscription: Any) -> Subscription:
    """The plain description of a google.pubsub.v1.Subscription message."""
    dead_letter = retry = None
    if subscription.HasField("dead_letter_policy") and subscription.dead_letter_policy.dead_letter_topic:
        policy = subscription.dead_letter_policy
        dead_letter = DeadLetterPolicy(policy.dead_letter_topic, policy.max_delivery_attempts or 5)
    if subscription.HasField("retry_policy"):
        policy = subscription.retry_policy
        # Unset bounds mean the service's defaults.
        retry = RetryPolicy(
            _seconds(policy.minimum_backoff) if policy.HasField("minimum_backoff") else 10.0,
            _seconds(policy.maximum_backoff) if policy.HasField("maximum_backoff") else 600.0,
        )
    return Subscription(
        name=subscription.name,
        topic=subscription.topic,
        ack_deadline=subscription.ack_deadline_seconds or 10,
        retention=_seconds(subscription.message_retention_duration) or 7 * 86_400.0,
        retain_acked=subscription.retain_acked_messages,
        exactly_once=subscription.enable_exactly_once_delivery,
        ordered=subscription.enable_message_ordering,
        filter=subscription.filter,
        dead_letter=dead_letter,
        retry=retry,
        expires_after=_expiry(subscription),
        detached=subscription.detached,
        pulled=not any(
            _configured(subscription, name)
            for name in ("push_config", "bigquery_config", "cloud_storage_config", "bigtable_config")
        ),
    )


def _expiry(subscription: Any) -> float | None:
    # An absent policy is 31 days, a policy without ttl is never.
    if not subscription.HasField("expiration_policy"):
        return 31 * 86_400.0
    return _seconds(subscription.expiration_policy.ttl) or None


def _configured(subscription: Any, name: str) -> bool:
    # Services fill in empty messages for what is not configured.
    known = name in subscription.DESCRIPTOR.fields_by_name  # older releases of the classes know fewer
    return bool(known and subscription.HasField(name) and getattr(subscription, name).ByteSize())


def _seconds(duration: Any) -> float:
    return float(duration.seconds) + duration.nanos / 1e9
