"""`bench fleet`: a backlog, a fleet that is shot at, and the receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import psycopg

from loader.bench.fleet import stored
from loader.bench.fleet.backlog import publish
from loader.bench.fleet.broker import Broker
from loader.bench.fleet.ceiling import undisturbed_rate
from loader.bench.fleet.controller import Controller
from loader.bench.fleet.course import Ages
from loader.bench.fleet.dataset import Dataset
from loader.bench.fleet.events import ATTRIBUTE, KEY, TABLES, Events
from loader.bench.fleet.faults import Pending, schedule
from loader.bench.fleet.group import Group
from loader.bench.fleet.ledger import Ledger
from loader.bench.fleet.outage import Outages
from loader.bench.fleet.plan import FleetPlan
from loader.bench.fleet.preemption import Preemptions
from loader.bench.fleet.receipt import Receipt
from loader.bench.fleet.workers import Hold, Workers
from loader.bench.pubsub import fresh_subscription
from loader.bench.server import Server

DATASET = "bench_fleet"
REFERENCE = {
    "workers": 10,
    "messages_per_second_a_worker": 700,
    "backlog_messages": 13_500_000,
    "minutes": 25,
}
"""What the reference (pubsub-dlt-stream) tells of itself: 15 hours at 200 to 300 messages a second, cleared."""


def run_fleet(
    server: Server,
    broker: Broker,
    plan: FleetPlan,
    note: Callable[[str], None] = lambda text: None,
    hold: Hold = nullcontext,
) -> dict[str, Any]:
    """The record's `results`. `hold` keeps interrupts away from moments in which a process would be lost.

    Raises LoaderError when the fleet hangs; a receipt that does not balance is no error here, but a result."""
    with Workers(hold) as workers:
        undisturbed = _measure(server.url, broker, plan, note, hold)
        events = Events(plan.messages, plan.twice, plan.poison, plan.seed)
        ledger = Ledger(events.distinct)
        topic, subscription = fresh_subscription(broker.endpoint)
        note(f"publishing {events.messages:,} messages: {events.twice:,} twice, {events.poison:,} poison")
        published = publish(broker.endpoint, topic, events, ledger, note)
        settings = _environment(server.url, broker.endpoint, plan)
        ages = Ages()
        group = Group(
            lambda number: workers.start(settings(DATASET, subscription), ages.hear),
            Preemptions(plan.preemptions_per_hour, plan.outright, plan.seed),
            plan.boot_seconds,
            plan.grace_seconds,
        )
        outages = Outages(server.ours)
        faults = Pending(schedule(plan, restarts=outages.possible, breaks=broker.breaks))
        with Dataset(server.url, DATASET) as dataset:

            def unacked() -> int:
                counted = broker.unacked(subscription)
                return counted if counted is not None else events.distinct - dataset.accounted()

            controller = Controller(plan, group, broker, unacked, faults, outages, ages, note)
            note(f"{plan.workers_min} to {plan.workers_max} workers against the backlog")
            try:
                controller.drain()
                controller.stop()
            finally:
                outages.wait()
            left = unacked()
        note("every message is loaded: comparing each event's content with what was published")
        receipt = _receipt(server.url, events, ledger, group, published, left)
    return _results(plan, controller, group, outages, receipt, undisturbed, broker)


def _environment(url: str, endpoint: str, plan: FleetPlan) -> Callable[[str, str], Mapping[str, str]]:
    def settings(dataset: str, subscription: str) -> Mapping[str, str]:
        return {
            "PUBSUB_EMULATOR_HOST": endpoint,
            "LOADER_SUBSCRIPTION": subscription,
            "LOADER_DATABASE_URL": url,
            "LOADER_DATASET": dataset,
            "LOADER_TABLE_KEY": KEY,
            "LOADER_EVENT_ID_ATTRIBUTE": ATTRIBUTE,
            "LOADER_WINDOW_SECONDS": f"{plan.window_seconds:g}",
            "LOADER_LEASE_SECONDS": str(plan.lease_seconds),
            "LOADER_MAX_BUNDLE_MESSAGES": str(plan.bundle_messages),
            "LOADER_HTTP_PORT": "0",
        }

    return settings


def _measure(url: str, broker: Broker, plan: FleetPlan, note: Callable[[str], None], hold: Hold) -> dict[int, float]:
    """Messages a second of undisturbed workers, by their number; empty when that is not wanted."""
    if not plan.calibration:
        return {}
    settings = _environment(url, broker.endpoint, plan)
    return {
        workers: undisturbed_rate(url, broker, plan, workers, plan.calibration * min(2, workers), settings, note, hold)
        for workers in sorted({1, plan.workers_max})
    }


def _receipt(url: str, events: Events, ledger: Ledger, group: Group, published: int, unacked: int) -> Receipt:
    with psycopg.connect(url, autocommit=True, application_name="bench") as conn:
        stored.read_rows(conn, DATASET, events, ledger)
        content = ledger.compare(events.identity)
        letters = stored.read_letters(conn, DATASET, events)
        noted = stored.read_notes(conn, DATASET)
        gaps = stored.read_gaps(conn, DATASET)
    twice_loadable = sum(
        events.is_published_twice(number) and not events.is_poison(number) for number in range(events.distinct)
    )
    return Receipt(
        published,
        events.messages,
        events.twice,
        twice_loadable,
        ledger.rows,
        content,
        letters,
        noted,
        gaps,
        tuple(group.unasked),
        unacked,
    )


def _results(
    plan: FleetPlan,
    controller: Controller,
    group: Group,
    outages: Outages,
    receipt: Receipt,
    undisturbed: dict[int, float],
    broker: Broker,
) -> dict[str, Any]:
    seconds = controller.drain_seconds
    serving = controller.course.serving_seconds
    fleet_hours, process_hours = controller.hours
    happened = controller.happened
    return {
        "receipt": receipt.as_dict(),
        "drain": {
            "seconds": round(seconds, 2),
            "fleet_minutes": round(seconds * plan.compress / 60, 1),
            "messages_per_second": round(plan.messages / seconds),
            "messages_per_second_a_worker": round(plan.messages / serving) if serving else None,
            "workers_most": max((sample.workers for sample in controller.course.samples), default=0),
            "worker_hours_fleet": round(fleet_hours, 2),
            "worker_seconds_real": round(process_hours * 3600, 1),
            "age_most_seconds": round(max((sample.age for sample in controller.course.samples), default=0.0), 1),
        },
        "reference": REFERENCE | {"minutes_at_our_rate_a_worker": minutes_for_the_reference(plan.messages, serving)},
        "ideal": ideal(plan.messages, plan.workers_max, undisturbed, seconds),
        "faults": {
            "workers_created": group.counts["created"],
            "preempted_with_warning": group.counts["preempted"],
            "killed_outright": group.counts["killed"],
            "killed_after_grace": group.counts["killed_after_grace"],
            "scaled_in": group.counts["scaled_in"],
            "drained": group.counts["drained"],
            "ended_unasked": len(group.unasked),
            "postgres_restarts": happened["restart"],
            "postgres_kills": happened["crash"],
            "postgres_away_seconds": outages.seconds,
            "streams_cut": happened["cut"],
            "deliveries_doubled": happened["redeliver"],
            "not_happened": controller.left,
        },
        "tables": len(TABLES),
        "pubsub": broker.version,
        "over_time": controller.course.as_dict(),
    }


def minutes_for_the_reference(messages: int, serving_seconds: float) -> float | None:
    """Minutes in which the reference's number of workers clear its backlog at the rate that a worker had here."""
    if not serving_seconds:
        return None
    return round(REFERENCE["backlog_messages"] / (REFERENCE["workers"] * messages / serving_seconds) / 60, 1)


def ideal(messages: int, workers: int, undisturbed: Mapping[int, float], seconds: float) -> dict[str, Any] | None:
    """Time to drain with all workers there from the start and nothing that breaks; None when nothing was measured.

    `one`: each loads what one alone did, as if it had a machine of its own. `machine`: what that many loaded together
    on this machine, whose cores they share with Postgres and the Pub/Sub server. The ideal is the slower of the two.
    """
    if not undisturbed:
        return None
    one, machine = undisturbed[1] * workers, undisturbed[workers]
    slower = min(one, machine)
    return {
        "one_worker_messages_per_second": round(undisturbed[1]),
        "workers_together_messages_per_second": round(machine),
        "workers": workers,
        "bound_by": "machine" if machine < one else "workers",
        "seconds": round(messages / slower, 2),
        "seconds_if_workers_had_machines": round(messages / one, 2),
        "times_ideal": round(seconds / (messages / slower), 2),
    }


def parameters(plan: FleetPlan) -> dict[str, Any]:
    """For the record: what was asked for, and what was derived from it."""
    derived = {
        "bundle": plan.bundle_messages,
        "calibrate": plan.calibration,
        "assignment": plan.policy().assignment,
        "redeliveries": plan.doubled_deliveries,
    }
    return asdict(plan) | derived
