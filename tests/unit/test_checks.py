from __future__ import annotations

from dataclasses import replace

import pytest

from loader.checks.database import Facts, judge_database, missing_grants
from loader.checks.finding import exit_code
from loader.checks.flow import judge_flow
from loader.checks.subscription import judge_subscription
from loader.pull import protocol as pb
from loader.pull.subscription import from_proto
from loader.settings.declaration import Settings

GOOD = {
    "name": "projects/p/subscriptions/s",
    "topic": "projects/p/topics/t",
    "ack_deadline_seconds": 60,
    "message_retention_duration": {"seconds": 7 * 86_400},
    "expiration_policy": {},
}


def judged(**changes):
    findings = judge_subscription(from_proto(pb.Subscription(**{**GOOD, **changes})))
    return {finding.subject: finding for finding in findings}


def test_a_subscription_as_it_should_be_has_no_remarks():
    assert {finding.status for finding in judged().values()} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "subject", "status", "said"),
    [
        ({"topic": "_deleted-topic_"}, "exists", "fault", "topic was deleted"),
        ({"detached": True}, "exists", "fault", "detached"),
        ({"push_config": {"push_endpoint": "https://x"}}, "delivery", "fault", "push"),
        ({"bigquery_config": {"table": "t"}}, "delivery", "fault", "BigQuery"),
        ({"message_retention_duration": {"seconds": 1200}}, "retention", "warning", "20 min"),
        ({"expiration_policy": {"ttl": {"seconds": 302_400}}}, "expiration", "warning", "3.5 d"),
        ({"retry_policy": {"minimum_backoff": {"seconds": 10}}}, "retry policy", "warning", "10 s"),
        ({"enable_message_ordering": True}, "ordering", "warning", "1 MB/s"),
        (
            {"dead_letter_policy": {"dead_letter_topic": "projects/p/topics/d", "max_delivery_attempts": 5}},
            "dead-letter policy",
            "warning",
            "after 5 attempts",
        ),
    ],
)
def test_what_takes_messages_away_is_found(changes, subject, status, said):
    finding = judged(**changes)[subject]
    assert finding.status == status
    assert said in finding.found
    assert finding.advice


def test_a_contradiction_of_settings_is_exit_78():
    assert exit_code(judge_flow(Settings())) == 0
    findings = judge_flow(Settings(max_outstanding_messages=1))
    assert [finding.status for finding in findings] == ["configuration"]
    assert exit_code(findings) == 78


FACTS = Facts(
    version=150_018,
    encoding="UTF8",
    user='we"ird',
    database="db-1",
    read_only=False,
    standby=False,
    encrypted=True,
    local=False,
    pooled=False,
    schema_exists=True,
    may_create_schema=True,
    may_use_schema=True,
    may_create_in_schema=True,
    tables=3,
    not_readable=0,
    foreign_owners=(),
    superusers_tables=(),
    without_identity=0,
)


def test_a_database_as_it_should_be_has_no_remarks():
    assert {finding.status for finding in judge_database(FACTS, "events")} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"version": 110_022}, "fault", "11.22"),
        ({"encoding": "SQL_ASCII"}, "fault", "SQL_ASCII"),
        ({"standby": True, "read_only": True}, "fault", "standby"),
        ({"read_only": True}, "fault", "read-only"),
        ({"encrypted": False}, "warning", "in the clear"),
        ({"without_identity": 2}, "warning", "another dlt pipeline"),
    ],
)
def test_what_keeps_rows_out_is_found(changes, status, said):
    [finding] = [f for f in judge_database(replace(FACTS, **changes), "events") if f.status != "ok"]
    assert finding.status == status
    assert said in finding.found


@pytest.mark.parametrize(
    ("changes", "grants"),
    [
        ({"schema_exists": False}, []),
        (
            {"schema_exists": False, "may_create_schema": False},
            ['GRANT CREATE ON DATABASE "db-1" TO "we""ird";'],
        ),
        ({"may_create_in_schema": False}, ['GRANT CREATE ON SCHEMA "Ev" TO "we""ird";']),
        (
            {"may_use_schema": False, "may_create_in_schema": False, "not_readable": 1},
            [
                'GRANT USAGE, CREATE ON SCHEMA "Ev" TO "we""ird";',
                'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA "Ev" TO "we""ird";',
            ],
        ),
        ({"foreign_owners": ("other",)}, ['GRANT "other" TO "we""ird";']),
        ({"superusers_tables": ("T",)}, ['ALTER TABLE "Ev"."T" OWNER TO "we""ird";']),
    ],
)
def test_a_missing_right_comes_with_its_grant(changes, grants):
    assert [grant for _found, grant in missing_grants(replace(FACTS, **changes), "Ev")] == grants
