"""How far back a seek can reach, and why it cannot reach further: plain rules on what Pub/Sub says of itself.

https://cloud.google.com/pubsub/docs/replay-overview: a seek brings back what is retained. Acked messages are retained
by the subscription with retain_acked_messages (for message_retention_duration), or by the topic with a retention of
its own; a snapshot retains what was unacked when it was made and all that came later."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from loader.errors import LoaderError
from loader.pull.subscription import Subscription

SNAPSHOT_LIFETIME = datetime.timedelta(days=7)
DELETED_TOPIC = "_deleted-topic_"
_TOLERANCE = datetime.timedelta(seconds=5)
_SPARE = datetime.timedelta(minutes=11)


@dataclass(frozen=True, slots=True)
class Reach:
    """What can be brought back."""

    oldest: datetime.datetime | None
    """Publish time of the oldest acked message that can still be had; None: acked messages are gone."""
    why: str


def span(seconds: float) -> str:
    """A duration in words for people: `7 days`, `20 minutes`."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = round(seconds / size, 1)
            return f"{count:g} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.0f} seconds"


def reach_of(subscription: Subscription, topic_retention: float, now: datetime.datetime, aside: bool) -> Reach:
    """Reach of a seek on the subscription, or (`aside`) on a new one of the same topic. Durations in seconds."""
    own = 0.0 if aside or not subscription.retain_acked else subscription.retention
    if topic_retention and topic_retention >= own:
        why = f"the topic retains messages for {span(topic_retention)}"
        return Reach(now - datetime.timedelta(seconds=topic_retention), why)
    if own:
        why = f"the subscription retains acked messages for {span(own)}"
        return Reach(now - datetime.timedelta(seconds=own), why)
    if aside:
        why = f"the topic {subscription.topic} retains no messages (message_retention_duration is not set)"
        return Reach(None, why)
    why = (
        f"acked messages are not retained: neither has {subscription.name} retain_acked_messages, nor has its topic a "
        "message_retention_duration"
    )
    return Reach(None, why)


def check_subscription(subscription: Subscription, aside: bool) -> None:
    """Raise LoaderError when nothing can be replayed whatever is asked for."""
    if subscription.detached or not subscription.pulled:
        what = "is detached" if subscription.detached else "delivers by itself (push or export)"
        raise LoaderError(f"{subscription.name} {what}: a backfill needs a pull subscription")
    if aside and subscription.topic == DELETED_TOPIC:
        raise LoaderError(f"the topic of {subscription.name} was deleted: --aside needs one; leave it out")


def check_since(
    reach: Reach, since: datetime.datetime, until: datetime.datetime | None, now: datetime.datetime, aside: bool
) -> None:
    """Raise LoaderError for a seek that would bring back nothing, or less than was asked for."""
    if since >= now:
        raise LoaderError(
            f"--since {since.isoformat()} is not in the past: such a seek replays nothing, and acks what waits"
        )
    if until is not None and until <= since:
        raise LoaderError(f"--until {until.isoformat()} is not after --since {since.isoformat()}: nothing is between")
    if reach.oldest is None:
        cure = (
            "set message_retention_duration on the topic"
            if aside
            else "set retain_acked_messages = true on the subscription or message_retention_duration on the topic"
        )
        raise LoaderError(
            f"a seek would replay nothing: {reach.why}. From now on: {cure}. For what was published before, use "
            "`loader backfill --from-raw`, or publish it again"
        )
    if since < reach.oldest - _TOLERANCE:
        oldest = reach.oldest.isoformat(timespec="seconds")
        # By the time that it is typed in, the oldest of now is gone.
        earliest = (reach.oldest + min(_SPARE, (now - reach.oldest) / 10)).isoformat(timespec="seconds")
        raise LoaderError(
            f"a seek would replay less than was asked for: {reach.why}, so it reaches back to {oldest} and not to "
            f"{since.isoformat(timespec='seconds')}. Say --since {earliest}, and raise message_retention_duration "
            "(31 days at most) for the next time"
        )


def check_takeover(
    takeovers: dict[str, datetime.datetime], tables: frozenset[str] | None, oldest: datetime.datetime
) -> None:
    """Raise LoaderError when rows of before a takeover, which have no event id, could be doubled."""
    for table, taken_over in sorted(takeovers.items()):
        if oldest < taken_over and (tables is None or table in tables):
            at, asked = taken_over.isoformat(timespec="seconds"), oldest.isoformat(timespec="seconds")
            raise LoaderError(
                f"table {table} was taken over at {at}; its rows of before have no event id, and messages published "
                f"since {asked} may be among them: they would be doubled. Say --since {at}, or --allow-duplicates"
            )
