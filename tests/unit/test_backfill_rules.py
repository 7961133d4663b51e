from __future__ import annotations

import datetime
import io
import re

import grpc
import pytest

from loader.backfill.estimate import Estimate
from loader.backfill.order import Order, Sift
from loader.backfill.pace import Pace, ended, fruitless
from loader.backfill.plan import estimated
from loader.backfill.reach import check_since, check_subscription, check_takeover, reach_of
from loader.backfill.replay import Step
from loader.backfill.request import Request
from loader.backfill.service import Service
from loader.backfill.store import Backfill, Progress
from loader.commands.backfill import Display, progress_line
from loader.errors import LoaderError
from loader.message.message import Event, Message
from loader.pull import protocol as pb
from loader.pull.subscription import Subscription

NOW = datetime.datetime(2030, 1, 31, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def subscription(**values):
    usual = {
        "name": "projects/p/subscriptions/s",
        "topic": "projects/p/topics/t",
        "ack_deadline": 60,
        "retention": 7 * 86_400.0,
        "retain_acked": True,
        "exactly_once": False,
        "ordered": False,
        "filter": "",
        "dead_letter": None,
        "retry": None,
        "expires_after": None,
        "detached": False,
        "pulled": True,
    }
    return Subscription(**{**usual, **values})


def order(**values):
    usual = {
        "backfill_id": "b",
        "since": 100,
        "until": None,
        "ordered_at": 1_000,
        "settled_before": 900,
        "tables": None,
        "replace": False,
        "aside": False,
    }
    return Order(**{**usual, **values})


def event(published, table="order"):
    return Event(Message("a", "m", b"{}", {}, published, 1), "m", 1, table, {})


def progress(**values):
    usual = {
        "messages": 100,
        "events_new": 0,
        "rows_new": 0,
        "events_there": 100,
        "events_rewritten": 0,
        "events_skipped": 0,
        "dead_letters": 0,
        "waiting": 0,
        "quiet": 100.0,
        "unheard": 1.0,
        "workers": 3,
    }
    return Progress(**{**usual, **values})


def test_an_order_never_leaves_out_what_may_not_have_been_acked():
    scoped = order(until=500, tables=frozenset({"order"}))
    assert not scoped.skips(499, "order")
    assert scoped.skips(500, "order")
    assert scoped.skips(499, "invoice")
    for published in (50, 900, 999, 1_000, 5_000):  # before since, unacked then, new
        assert not scoped.skips(published, "invoice")


def test_aside_everything_out_of_scope_is_left_to_the_live_subscription():
    scoped = order(until=500, aside=True, settled_before=0)
    assert [scoped.skips(published, "order") for published in (50, 100, 499, 500, 999, 1_000)] == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]


def test_only_replayed_events_in_scope_are_replaced():
    scoped = order(until=950, tables=frozenset({"order"}), replace=True)
    assert [scoped.replaces(event(published)) for published in (50, 100, 949, 950, 1_000)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert not scoped.replaces(event(500, "invoice"))
    assert not order().replaces(event(500))


def test_a_sift_keeps_apart_what_is_left_out_and_says_whether_the_replay_was_met():
    sift = Sift(order(until=500))
    assert [one.message.published for one in sift.events([event(50), event(1_500)])] == [50, 1_500]
    assert not sift.met
    assert list(sift.events([event(600)])) == []
    assert [one.message.published for one in sift.skipped] == [600]
    assert sift.met


def test_the_reach_is_the_longer_retention_and_says_why():
    assert reach_of(subscription(), 0, NOW, False).oldest == NOW - 168 * HOUR
    assert reach_of(subscription(), 31 * 86_400, NOW, False).oldest == NOW - 31 * 24 * HOUR
    assert reach_of(subscription(retain_acked=False), 3_600, NOW, False).oldest == NOW - HOUR
    assert reach_of(subscription(retain_acked=False), 0, NOW, False).oldest is None
    assert reach_of(subscription(), 0, NOW, True).oldest is None
    assert "1 hour" in reach_of(subscription(), 3_600, NOW, True).why


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        (NOW + HOUR, None, "not in the past"),
        (NOW - HOUR, NOW - 2 * HOUR, "nothing is between"),
        (NOW - 169 * HOUR, None, "less than was asked for"),
    ],
)
def test_a_seek_that_brings_back_nothing_or_less_is_refused(since, until, said):
    with pytest.raises(LoaderError, match=said):
        check_since(reach_of(subscription(), 0, NOW, False), since, until, NOW, False)


def test_a_seek_within_reach_is_not_refused():
    check_since(reach_of(subscription(), 0, NOW, False), NOW - 168 * HOUR, NOW - HOUR, NOW, False)


@pytest.mark.parametrize(
    ("values", "aside", "said"),
    [
        ({"detached": True}, False, "detached"),
        ({"pulled": False}, False, "pull subscription"),
        ({"topic": "_deleted-topic_"}, True, "deleted"),
    ],
)
def test_a_subscription_that_cannot_be_replayed_is_refused(values, aside, said):
    with pytest.raises(LoaderError, match=said):
        check_subscription(subscription(**values), aside)


def test_a_takeover_counts_for_the_tables_that_are_asked_for_only():
    takeovers = {"order": NOW}
    check_takeover(takeovers, frozenset({"invoice"}), NOW - HOUR)
    check_takeover(takeovers, None, NOW)
    with pytest.raises(LoaderError, match="--allow-duplicates"):
        check_takeover(takeovers, None, NOW - HOUR)


def test_a_replay_has_ended_when_it_is_quiet_and_nothing_waits():
    pace = Pace(settle=60, quiet=60, lease=90, nothing=300)
    assert ended(pace, progress(), 200, 100)
    assert not ended(pace, progress(), 30, 100)  # the seek may not be true everywhere yet
    assert not ended(pace, progress(waiting=1), 200, 100)
    assert not ended(pace, progress(quiet=59.0), 200, 100)
    assert not ended(pace, progress(quiet=80.0, unheard=20.0), 200, 100)  # a worker was killed: its leases run yet
    assert ended(pace, progress(quiet=91.0, unheard=120.0), 200, 100)


def test_a_replay_that_brought_back_less_than_expected_is_waited_for_longer():
    pace = Pace(settle=60, quiet=60, lease=90, nothing=300)
    assert not ended(pace, progress(), 200, 1_000)
    assert ended(pace, progress(quiet=240.0), 300, 1_000)


def test_a_seek_that_brings_back_nothing_is_noticed():
    pace = Pace(settle=60, quiet=60, lease=90, nothing=300)
    nothing = progress(messages=0, quiet=None)
    assert not ended(pace, nothing, 200, 100)
    assert not fruitless(pace, nothing, 200)
    assert fruitless(pace, nothing, 300)
    assert ended(pace, nothing, 200, 0)
    assert not fruitless(pace, progress(), 300)


def test_an_emulator_is_not_waited_for_as_long_as_the_service():
    assert Pace.of(5.0, 60.0, True).quiet < 15
    assert Pace.of(5.0, 60.0, False).settle >= 60


def test_the_same_request_is_the_same_whatever_is_allowed():
    first = Request(since="2h", tables=("b", "a"), replace=True)
    again = Request(since="2h", tables=("a", "b"), replace=True, allow_duplicates=True)
    assert first.as_dict() == again.as_dict()
    assert first.as_dict() != Request(since="2h").as_dict()


def test_the_line_of_progress_says_how_far_how_fast_and_how_long_yet():
    found = Backfill(
        "b", {}, "s", False, None, None, None, True, None, 1_000, NOW, NOW, None, 0, 0, None, None
    )  # fmt: skip
    half = progress(messages=400, events_there=300, events_rewritten=200, rows_new=0, waiting=7)
    line = progress_line(Step(found, half, 3, 10.0, False), None, bar=True)
    assert line.startswith("[##########..........] 500 of about 1,000 events in 400 messages")
    for said in ("300 events there", "200 rewritten", "7 wait in workers", "50/s", "10 s left"):
        assert said in line
    assert "start `loader run`" in progress_line(Step(found, half, 0, 10.0, False), None, bar=False)
    assert progress_line(Step(found, half, 0, 10.0, True), None, bar=False).endswith("done")


class Screen(io.StringIO):
    """A stderr that is a terminal, or none."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def test_the_estimate_of_a_slow_feed_is_not_told_as_nothing_a_second():
    assert "1.6 minutes at 0.19/s" in estimated(Estimate(18, 0.1875))
    assert " at 1,250/s" in estimated(Estimate(5_000_000, 1250.4))
    assert estimated(Estimate(18, None)) == "about 18 events"


def test_a_terminal_gets_a_bar_that_renews_itself_and_a_log_a_line_now_and_then(monkeypatch):
    found = Backfill("b", {}, "s", False, None, None, None, True, None, 100, NOW, NOW, None, 0, 0, None, None)
    steps = [Step(found, progress(), 3, float(second), second == 12) for second in range(13)]
    terminal, log = Screen(True), Screen(False)
    for screen in (terminal, log):
        monkeypatch.setattr("sys.stderr", screen)
        clock = iter(range(100))
        display = Display(lambda clock=clock: float(next(clock)))
        for step in steps:
            display(step, None)
        display.end()
    assert terminal.getvalue().count("\r\x1b[K[") == 13
    assert terminal.getvalue().endswith("done\n")
    assert 2 <= len(log.getvalue().splitlines()) < 13
    assert "\x1b" not in log.getvalue()
    assert log.getvalue().endswith("done\n")


def test_the_time_that_a_refusal_suggests_is_not_refused_a_while_later():
    reach = reach_of(subscription(), 0, NOW, False)
    with pytest.raises(LoaderError) as refused:
        check_since(reach, NOW - 999 * HOUR, None, NOW, False)
    suggested = datetime.datetime.fromisoformat(re.search(r"Say --since (\S+),", str(refused.value))[1])
    later = NOW + datetime.timedelta(minutes=10)
    check_since(reach_of(subscription(), 0, later, False), suggested, None, later, False)


@pytest.mark.parametrize("name", ["", "bad name!", "-x", "a/b"])
def test_a_name_that_no_snapshot_can_have_is_refused_before_pubsub_is_asked(name):
    with pytest.raises(LoaderError, match="begins with a letter"):
        Service(None, "projects/p/subscriptions/s").snapshot_name(name)


class _Stub:
    """Answers for a subscription whose topic is gone; no topic may be asked for."""

    def get_subscription(self, request):
        name = "projects/p/subscriptions/s"
        if request.subscription != name:
            raise grpc.RpcError
        return pb.Subscription(name=name, topic="_deleted-topic_")


def test_a_subscription_whose_topic_is_gone_is_described_and_a_missing_one_is_named():
    found, retention = Service(_Stub(), "projects/p/subscriptions/s").describe()
    assert (found.topic, retention) == ("_deleted-topic_", 0.0)
    with pytest.raises(LoaderError, match=r"\(projects/p/subscriptions/t\)"):
        Service(_Stub(), "projects/p/subscriptions/t").describe()
