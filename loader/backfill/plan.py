"""What a backfill will do, worked out and said before anything is done; what cannot be done is refused here."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from loader.adopt.inventory import takeover_times
from loader.backfill import reach as rules
from loader.backfill.estimate import Estimate, estimate, known_tables
from loader.backfill.references import check_references
from loader.backfill.request import Request, moment
from loader.backfill.service import Service, Snapshot, mark_of
from loader.errors import LoaderError
from loader.pull.channel import emulator
from loader.pull.subscription import Subscription
from loader.words import counted


@dataclass(frozen=True, slots=True)
class Plan:
    """A replay that can be had."""

    request: Request
    dataset: str
    subscription: Subscription
    since: datetime.datetime | None
    """None for a snapshot."""
    snapshot: Snapshot | None
    until: datetime.datetime | None
    tables: frozenset[str] | None
    reach: rules.Reach
    estimate: Estimate

    @property
    def oldest(self) -> datetime.datetime:
        """Publish time of the oldest message that can come."""
        if self.since is not None:
            return self.since
        assert self.snapshot is not None
        return self.snapshot.oldest

    def lines(self) -> list[str]:
        """What will happen, in sentences."""
        request = self.request
        target = f"snapshot {self.snapshot.name}" if self.snapshot else f"{self.oldest.isoformat(timespec='seconds')}"
        said = [f"{self.subscription.name} → dataset {self.dataset}: replay from {target}"]
        retained = (
            "acked messages are retained" if self.subscription.retain_acked else "acked messages are not retained"
        )
        said.append(f"retention: {rules.span(self.subscription.retention)}, {retained}; {self.reach.why}")
        if self.reach.oldest is not None:
            said.append(f"a seek reaches back to {self.reach.oldest.isoformat(timespec='seconds')} at most")
        said.append(f"estimate: {estimated(self.estimate)}")
        if self.until is not None:
            said.append(f"what was published from {self.until.isoformat(timespec='seconds')} on is passed over")
        if self.tables is not None:
            said.append(f"only tables {', '.join(sorted(self.tables))} are loaded, other events are passed over")
        if request.replace:
            said.append("rows of replayed events are rewritten, child rows included, wherever they are")
        else:
            said.append("rows that are there stay as they are; rows that are missing come back")
        if request.aside:
            said.append("the live subscription is not touched: this command loads a subscription of its own")
            said.append("with these settings of LOADER_*, which should be the workers' own")
        else:
            wait = self.estimate.seconds
            about = f"about {rules.span(max(1.0, wait))}" if wait is not None else "as long as it takes"
            said.append(f"workers keep running; new messages wait behind the replay, {about}: Pub/Sub has no priority")
            said.append("what is unacked stays unacked; messages since the oldest of these may come again, too")
        if self.subscription.filter:
            said.append(f"the subscription has a filter: {self.subscription.filter}")
        return said

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "request": self.request.as_dict(),
            "subscription": self.subscription.name,
            "dataset": self.dataset,
            "since": self.since,
            "snapshot": self.snapshot.name if self.snapshot else None,
            "until": self.until,
            "reaches_back_to": self.reach.oldest,
            "reach": self.reach.why,
            "estimated_events": self.estimate.events,
            "estimated_seconds": self.estimate.seconds,
        }


def _made_of(snapshot: Snapshot, subscription: Subscription, service: Service) -> bool:
    """Whether it marks a place in this subscription. The official emulator keeps no labels to tell it by, and is no
    place where a message can be lost."""
    if snapshot.mark or emulator() is None:
        return snapshot.mark == mark_of(subscription.name)
    return not service.keeps_labels()


def estimated(found: Estimate) -> str:
    """How much will come, and for how long, in words."""
    if found.events is None:
        return "unknown, there are no receipts of earlier loads"
    text = f"about {counted(found.events, 'event')}"
    if found.seconds is not None and found.rate is not None:
        rate = f"{found.rate:,.0f}" if found.rate >= 10 else f"{found.rate:.2g}"  # a slow feed is not 0/s
        text += f", {rules.span(max(1.0, found.seconds))} at {rate}/s, the best minute of the last day"
    return text


def make_plan(
    conn: psycopg.Connection[Any],
    service: Service,
    request: Request,
    dataset: str,
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
) -> Plan:
    """Ask Pub/Sub and the database what a replay would bring. Raises LoaderError for one that would bring nothing or
    less than was asked for, psycopg.Error."""
    at = now()
    subscription, topic_retention = service.describe()
    rules.check_subscription(subscription, request.aside)
    found = rules.reach_of(subscription, topic_retention, at, request.aside)
    until = moment(request.until, at, "--until") if request.until else None
    since: datetime.datetime | None = None
    snapshot: Snapshot | None = None
    if request.snapshot is not None:
        snapshot = service.snapshot(request.snapshot)
        if snapshot.topic != subscription.topic:
            raise LoaderError(
                f"snapshot {snapshot.name} is of topic {snapshot.topic}, {subscription.name} of {subscription.topic}"
            )
        if not request.aside and not _made_of(snapshot, subscription, service):
            # A seek to it acks what had been acked there: of another subscription that may be what waits here.
            raise LoaderError(
                f"snapshot {snapshot.name} was not made of {subscription.name} by `loader snapshot create`: a seek to "
                "it might ack messages that were never loaded. Say --aside, which does not touch the live subscription"
            )
        oldest = snapshot.oldest
        if until is not None and until <= oldest:
            raise LoaderError(f"--until {until.isoformat()}: the snapshot has nothing from before {oldest.isoformat()}")
    else:
        assert request.since is not None
        since = oldest = moment(request.since, at, "--since")
        rules.check_since(found, since, until, at, request.aside)
    tables = frozenset(request.tables) or None
    if request.into is None:
        known = known_tables(conn, dataset)
        children = [table for table in request.tables if table.partition("__")[0] in known and "__" in table]
        if children:
            root = children[0].partition("__")[0]
            raise LoaderError(
                f"table {children[0]} holds parts of the events of {root}, and no event of its own: say --table {root}"
            )
        unknown = sorted(set(request.tables) - known)
        if unknown:
            raise LoaderError(
                f"dataset {dataset} has and had no table {', '.join(unknown)}: nothing would be loaded. "
                f"Known: {', '.join(sorted(known)[:20]) or 'none'}"
            )
        if request.replace:
            check_references(conn, dataset, tables)
        if not request.allow_duplicates:
            rules.check_takeover(takeover_times(conn, dataset), tables, oldest)
    return Plan(request, dataset, subscription, since, snapshot, until, tables, found, estimate(conn, dataset, oldest))
