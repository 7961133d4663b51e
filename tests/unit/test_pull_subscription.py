"""Names of subscriptions and topics, and their description."""

from __future__ import annotations

import pytest

from loader.errors import ConfigurationError
from loader.pull import protocol as pb
from loader.pull.subscription import DeadLetterPolicy, RetryPolicy, from_proto, parse_subscription, parse_topic


@pytest.mark.parametrize(
    "text",
    [
        "projects/my-project/subscriptions/events",
        "projects/example.com:my-project/subscriptions/a-b_c.d~e+f%25",
        "projects/p/subscriptions/" + "s" * 255,
    ],
)
def test_a_full_name_is_taken_apart_and_put_together(text: str) -> None:
    name = parse_subscription(text)
    assert name.path == str(name) == text
    assert name.kind == "subscriptions"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "events",
        "projects/p/topics/events",
        "projects/p/subscriptions/",
        "projects//subscriptions/events",
        "projects/p/subscriptions/ab",
        "projects/p/subscriptions/1events",
        "projects/p/subscriptions/google-events",
        "projects/p/subscriptions/eve nts",
        "projects/p/subscriptions/events\n",
        " projects/p/subscriptions/events",
        "projects/p/subscriptions/" + "s" * 256,
    ],
)
def test_anything_else_is_refused_with_the_form_to_use(text: str) -> None:
    with pytest.raises(ConfigurationError, match="projects/PROJECT/subscriptions/NAME") as raised:
        parse_subscription(text)
    assert repr(text) in str(raised.value)
    assert "LOADER_SUBSCRIPTION" in str(raised.value)


def test_a_topic_is_refused_under_the_name_of_its_setting() -> None:
    assert parse_topic("projects/p/topics/events").id == "events"
    with pytest.raises(ConfigurationError, match="LOADER_DEAD_LETTER_TOPIC is 'x'"):
        parse_topic("x", "LOADER_DEAD_LETTER_TOPIC")


def test_a_bare_subscription_is_described_with_the_defaults_of_the_service() -> None:
    described = from_proto(pb.Subscription(name="projects/p/subscriptions/events", topic="projects/p/topics/events"))
    assert described.ack_deadline == 10
    assert described.retention == 7 * 86_400
    assert described.expires_after == 31 * 86_400
    assert described.pulled
    assert (described.dead_letter, described.retry, described.exactly_once) == (None, None, False)


def test_what_is_set_is_described() -> None:
    subscription = pb.Subscription(enable_exactly_once_delivery=True, filter="attributes:a", ack_deadline_seconds=60)
    subscription.dead_letter_policy.dead_letter_topic = "projects/p/topics/dead"
    subscription.retry_policy.minimum_backoff.nanos = 500_000_000
    subscription.expiration_policy.SetInParent()
    subscription.push_config.push_endpoint = "https://example.com"
    described = from_proto(subscription)
    assert described.exactly_once
    assert described.filter == "attributes:a"
    assert described.dead_letter == DeadLetterPolicy("projects/p/topics/dead", 5)
    assert described.retry == RetryPolicy(0.5, 600.0)
    assert described.expires_after is None
    assert not described.pulled
