"""A replay through Pub/Sub: order, seek, follow, end. Killed anywhere and asked for again, it comes to the same end.

1. A snapshot of the live subscription tells how old its oldest unacked message is: the seek must not ack that, and an
   order may leave out only what was acked before.
2. The order is committed, then the seek is made: whoever gets a replayed message finds the order.
3. Workers count what they do in the transactions in which they do it; `pace.py` says when it is over.
4. The order ends; the snapshot and a subscription of its own are deleted."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from loader.backfill.pace import Pace, ended, fruitless
from loader.backfill.plan import Plan
from loader.backfill.request import Request
from loader.backfill.service import Refused, Service
from loader.backfill.store import Backfill, BackfillStore, Progress
from loader.errors import LoaderError
from loader.words import counted

# The age of the oldest unacked message is not told to the second by the service.
_MARGIN = datetime.timedelta(minutes=10)
_EMULATOR_MARGIN = datetime.timedelta(seconds=1)
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Step:
    """What there is to see of a replay, about once a second."""

    backfill: Backfill
    progress: Progress
    alive: int
    """Workers of the subscription that were seen lately."""
    seconds: float
    """Since the seek."""
    done: bool


class Replay:
    """Replays of one subscription into one dataset. `emulator` says that Pub/Sub is one."""

    def __init__(self, service: Service, store: BackfillStore, pace: Pace, emulator: bool) -> None:
        self._service = service
        self._store = store
        self._pace = pace
        self._margin = _EMULATOR_MARGIN if emulator else _MARGIN

    def unfinished(self, request: Request) -> Backfill | None:
        """The backfill that this request began and did not end. Raises LoaderError when another one is on."""
        wanted = self._kept(request)
        for found in self._store.open(self._service.subscription):
            if dict(found.request) == wanted:
                return found
            asked = Request.from_dict(found.request).spelled()
            raise LoaderError(
                f"{found.backfill_id} of {self._service.subscription} is on: `loader backfill {asked}` follows it to "
                "its end, `loader backfill --cancel` ends it"
            )
        return None

    def begin(self, plan: Plan) -> Backfill:
        """Give the order and seek. Raises LoaderError; nothing is in force then, or it can be asked for again."""
        backfill_id = f"backfill-{self._store.now():%Y%m%dt%H%M%S}-{secrets.token_hex(3)}"
        values: dict[str, Any] = {
            "aside": plan.request.aside,
            "since": plan.since,
            "until": plan.until,
            "tables": sorted(plan.tables) if plan.tables is not None else None,
            "replace": plan.request.replace,
            "estimated_events": plan.estimate.events,
        }
        if plan.request.aside:
            values["subscription"] = self._aside_name(backfill_id)
        else:
            values |= {"subscription": self._service.subscription, "safety_snapshot": backfill_id}
            unacked = self._service.create_snapshot(backfill_id).oldest
            values["settled_before"] = unacked - self._margin
        try:
            self._store.insert(backfill_id, self._kept(plan.request), **values)
        except psycopg.errors.UniqueViolation:
            self._service.delete_snapshot(backfill_id)
            raise LoaderError(
                f"another backfill of {self._service.subscription} has just begun: ask again to see it"
            ) from None
        return self.seek(self._store.get(backfill_id), plan)

    def seek(self, backfill: Backfill, plan: Plan) -> Backfill:
        """Seek by an order that is in force. Raises LoaderError; a refusal ends the order."""
        assert backfill.subscription is not None
        snapshot = plan.snapshot.name if plan.snapshot is not None else None
        since = backfill.since
        try:
            if backfill.aside:
                self._service.create_aside(backfill.subscription, plan.subscription, plan.oldest, backfill.ordered_at)
            elif since is not None:
                unacked = self._service.create_snapshot(backfill.safety_snapshot or backfill.backfill_id).oldest
                since = min(since, unacked - self._margin)
            self._service.seek(since, snapshot, backfill.subscription)
        except Refused as error:
            self._close(backfill, f"refused: {error}")
            raise
        self._store.sought(backfill.backfill_id)
        return self._store.get(backfill.backfill_id)

    def follow(self, backfill: Backfill, wait: Callable[[], None]) -> Iterator[Step]:
        """Watch a replay to its end; `wait` is called between two looks. The last step is `done`, and the order ended.

        Raises LoaderError when the seek brings back nothing although there should be something."""
        assert backfill.subscription is not None
        assert backfill.sought_at is not None
        expected = backfill.estimated_events
        while True:
            progress = self._store.progress(backfill.backfill_id)
            alive = self._store.alive(backfill.subscription)
            seconds = (self._store.now() - backfill.sought_at).total_seconds()
            done = alive > 0 and ended(self._pace, progress, seconds, expected)
            if alive and not done and fruitless(self._pace, progress, seconds):
                if expected:
                    raise LoaderError(
                        f"the seek of {backfill.subscription} was answered and brought back nothing in {seconds:.0f} s "
                        f"of about {counted(expected, 'event')}. The order stays in force: ask for the same again to "
                        "follow on, or end it with `loader backfill --cancel`"
                    )
                done = True
            if done:
                self._close(backfill, "done")
                backfill = self._store.get(backfill.backfill_id)
            yield Step(backfill, progress, alive, seconds, done)
            if done:
                return
            wait()

    def cancel(self) -> list[Backfill]:
        """End what is on; messages of it that are still to come are loaded as any others."""
        found = self._store.open(self._service.subscription)
        for backfill in found:
            self._close(backfill, "cancelled")
        return found

    def _close(self, backfill: Backfill, outcome: str) -> None:
        # The order ends last: should this be interrupted, the same request finds it and does the rest.
        if backfill.safety_snapshot is not None:
            self._service.delete_snapshot(backfill.safety_snapshot)
        if backfill.aside and backfill.subscription is not None:
            self._service.delete_subscription(backfill.subscription)
        self._store.end(backfill.backfill_id, outcome)

    def _kept(self, request: Request) -> dict[str, object]:
        return {**request.as_dict(), "live": self._service.subscription}

    def _aside_name(self, backfill_id: str) -> str:
        live = self._service.subscription.rpartition("/")[2]
        short = f"{live[: _LONGEST_NAME - len(backfill_id) - 1]}-{backfill_id}"
        return f"projects/{self._service.project}/subscriptions/{short}"
