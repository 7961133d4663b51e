"""What workers load that nobody disturbs, on this machine: one alone, and as many as the fleet may have.

All are started and have learned every table before deliveries begin. The rate is of the first nine tenths of the
messages: the last bundles wait for their window."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from loader.bench.fleet.backlog import publish
from loader.bench.fleet.broker import Broker
from loader.bench.fleet.dataset import Dataset
from loader.bench.fleet.events import Events
from loader.bench.fleet.ledger import Ledger
from loader.bench.fleet.plan import FleetPlan
from loader.bench.fleet.worker import Worker
from loader.bench.fleet.workers import Hold, Workers
from loader.bench.pubsub import fresh_subscription
from loader.errors import LoaderError

_TEACHING = 10_000
_SHARE = 0.9
_LOOK = 0.05
_START_SECONDS = 60.0


def undisturbed_rate(
    url: str,
    broker: Broker,
    plan: FleetPlan,
    workers: int,
    messages: int,
    environment: Callable[[str, str], Mapping[str, str]],
    note: Callable[[str], None],
    hold: Hold,
) -> float:
    """Messages a second of so many workers together. `environment` makes their settings from dataset and subscription.
    Raises LoaderError when they do not load all."""
    note(f"measuring {workers} undisturbed workers" if workers > 1 else "measuring one undisturbed worker")
    topic, subscription = fresh_subscription(broker.endpoint)
    taught = Events(_TEACHING, 0.0, 0.0, plan.seed + 1_000)
    events = Events(messages, plan.twice, plan.poison, plan.seed + 1_001)
    publish(broker.endpoint, topic, taught, Ledger(taught.distinct), note)
    with Dataset(url, f"bench_fleet_{workers}") as dataset:
        settings = environment(dataset.name, subscription)
        try:
            with Workers(hold) as started:
                running = [started.start(settings, lambda at, age: None) for _ in range(workers)]
                return _rate(broker, topic, events, running, dataset, plan, note)
        finally:
            broker.silence(False)
            dataset.drop()


def _rate(
    broker: Broker,
    topic: str,
    events: Events,
    running: list[Worker],
    dataset: Dataset,
    plan: FleetPlan,
    note: Callable[[str], None],
) -> float:
    _until(lambda: all(worker.ready for worker in running), running, _START_SECONDS, "the workers do not start")
    _until(lambda: dataset.accounted() >= _TEACHING, running, plan.patience_seconds, "teaching does not end")
    broker.silence(True)
    started = time.time()
    publish(broker.endpoint, topic, events, Ledger(events.distinct), note)
    if broker.breaks:  # else nothing was held back: the time of publishing counts, too
        started = time.time()
    broker.silence(False)
    _until(
        lambda: dataset.accounted() >= _TEACHING + events.distinct,
        running,
        plan.patience_seconds + events.messages / 1_000,
        "the measured messages are not all loaded",
    )
    return rate(dataset.commits(), started, events.distinct)


def rate(commits: list[tuple[float, int]], started: float, events: int) -> float:
    """Events a second from `started` (seconds since the epoch) to the commit with which nine tenths are there."""
    done = 0
    for at, count in commits:
        if at < started:
            continue
        done += count
        if done >= _SHARE * events:
            return done / max(at - started, 1e-3)
    raise LoaderError(f"{done:,} events of {events:,} were committed: no rate can be told")


def _until(condition: Callable[[], bool], running: list[Worker], seconds: float, complaint: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        ended = next((worker for worker in running if worker.poll() is not None), None)
        if ended is not None:
            raise LoaderError(f"a worker ended with exit code {ended.poll()}: {ended.said()}")
        if time.monotonic() > deadline:
            raise LoaderError(f"{complaint} within {seconds:g} s: {running[0].said()}")
        time.sleep(_LOOK)
