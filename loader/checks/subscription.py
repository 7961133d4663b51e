"""The subscription: does it exist, does it keep messages through an outage, does anything take them away."""

from __future__ import annotations

import grpc

from loader.checks.finding import Finding
from loader.pull.channel import Stub, emulator, fault
from loader.pull.subscription import Subscription, describe

AREA = "subscription"
DAY = 86_400
GOOD_RETENTION = 7 * DAY
DELETED_TOPIC = "_deleted-topic_"


def inspect_subscription(stub: Stub, name: str, timeout: float = 15.0) -> list[Finding]:
    """Ask Pub/Sub for the subscription and judge it; an answer that says no is a finding, not an error."""
    try:
        described = describe(stub, name, timeout)
    except grpc.RpcError as error:
        code, details = fault(error)
        return [_unanswered(name, code, details)]
    return judge_subscription(described)


def judge_subscription(described: Subscription) -> list[Finding]:
    """Findings about what Pub/Sub says of a subscription."""
    name, topic = described.name, described.topic
    if topic == DELETED_TOPIC:
        first = Finding(AREA, "exists", "fault", f"{name}, but its topic was deleted", "make a new subscription")
    elif described.detached:
        first = Finding(AREA, "exists", "fault", f"{name}, but detached from {topic}", "make a new subscription")
    else:
        first = Finding(AREA, "exists", "ok", f"{name} of {topic}")
    return [first, *_delivery(described), *_keeping(described), *_taking_away(described)]


def _delivery(described: Subscription) -> list[Finding]:
    if described.pulled:
        findings = [Finding(AREA, "delivery", "ok", "pull")]
    else:
        found = "it delivers by itself (push, BigQuery, Cloud Storage or Bigtable)"
        findings = [Finding(AREA, "delivery", "fault", found, "make a pull subscription")]
    findings.append(
        Finding(AREA, "ack deadline", "ok", f"{described.ack_deadline} s; the loader takes leases of its own")
    )
    if described.exactly_once:
        found = "on: acks are confirmed; rows are exactly once without it too, and it costs throughput"
    else:
        found = "off: repeats are recognized by the event's identity"
    findings.append(Finding(AREA, "exactly-once", "ok", found))
    if described.ordered:
        findings.append(
            Finding(
                AREA,
                "ordering",
                "warning",
                "on: publishing is limited to 1 MB/s a key, and tables do not keep the order",
                "a subscription without ordering serves better; order by a column of the events",
            )
        )
    if described.filter:
        findings.append(Finding(AREA, "filter", "ok", f"only messages with {described.filter}"))
    return findings


def _keeping(described: Subscription) -> list[Finding]:
    span = _span(described.retention)
    if described.retention >= GOOD_RETENTION or emulator():  # what an emulator keeps goes with it anyway
        findings = [Finding(AREA, "retention", "ok", span)]
    else:
        found = f"{span}: a longer outage of the database loses messages"
        findings = [Finding(AREA, "retention", "warning", found, _update(described, "message-retention-duration=7d"))]
    if described.expires_after is not None and not emulator():  # emulators never expire one, whatever they say
        found = f"deleted, messages and all, after {_span(described.expires_after)} without a subscriber"
        findings.append(Finding(AREA, "expiration", "warning", found, _update(described, "expiration-period=never")))
    return findings


def _taking_away(described: Subscription) -> list[Finding]:
    policy, retry = described.dead_letter, described.retry
    if policy is None:
        findings = [Finding(AREA, "dead-letter policy", "ok", "none: bad messages go to the table _dead_letters")]
    else:
        found = (
            f"{policy.topic} after {policy.max_delivery_attempts} attempts: an outage or a preemption counts as an "
            "attempt, so good messages would leave"
        )
        advice = f"{_update(described, 'clear-dead-letter-policy')}: bad ones are kept in the table _dead_letters"
        findings = [Finding(AREA, "dead-letter policy", "warning", found, advice)]
    if retry is None:
        findings.append(Finding(AREA, "retry policy", "ok", "none: what a worker gives back is delivered at once"))
    else:
        found = f"a message given back waits {retry.minimum_backoff:g} s and longer for another worker"
        findings.append(Finding(AREA, "retry policy", "warning", found, _update(described, "clear-retry-policy")))
    return findings


def _update(described: Subscription, option: str) -> str:
    return f"gcloud pubsub subscriptions update {described.name} --{option}"


def _unanswered(name: str, code: grpc.StatusCode, details: str) -> Finding:
    project, short = name.split("/")[1], name.split("/")[3]
    if code is grpc.StatusCode.NOT_FOUND:
        make = (
            "loader run --create makes it"
            if emulator()
            else f"gcloud pubsub subscriptions create {short} --project={project} --topic=TOPIC "
            "--message-retention-duration=7d --expiration-period=never"
        )
        return Finding(AREA, "exists", "fault", f"{name} does not exist", make)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        grant = (
            f"gcloud pubsub subscriptions add-iam-policy-binding {short} --project={project} --member=serviceAccount:"
            "ACCOUNT --role=roles/pubsub.viewer, and the same with roles/pubsub.subscriber"
        )
        return Finding(AREA, "exists", "fault", f"{name}: this account may not see it", grant)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        advice = "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS"
        return Finding(AREA, "reachable", "fault", f"Pub/Sub does not accept the credentials: {details}", advice)
    where, advice = "Pub/Sub", "can this machine reach pubsub.googleapis.com:443?"
    if emulator():
        where = f"the emulator at {emulator()} (PUBSUB_EMULATOR_HOST)"
        advice = "start it (`loader local up`), or correct or unset PUBSUB_EMULATOR_HOST"
    return Finding(AREA, "reachable", "fault", f"{where} does not answer: {code.name}: {details}", advice)


def _span(seconds: float) -> str:
    for unit, size in (("d", DAY), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}" if seconds % size == 0 else f"{seconds / size:.1f} {unit}"
    return f"{seconds:g} s"
