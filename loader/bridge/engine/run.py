"""Runs what a file says for this instance: starts, reloads on SIGHUP, and stops in order on SIGTERM and SIGINT."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from loader.bridge.config.instance import Instance
from loader.bridge.config.model import Configuration, Lookup
from loader.bridge.config.needs import lookups_of
from loader.bridge.config.plan import Consumer, make_plan
from loader.bridge.config.reference import Reference, secrets
from loader.bridge.engine.build import Running, build
from loader.bridge.engine.serve import Server
from loader.bridge.engine.timer import Timer
from loader.bridge.identity import shared_targets, target
from loader.bridge.lookups.lookups import Lookups
from loader.errors import ConfigurationError, LoaderError
from loader.logs import Redaction, configure
from loader.settings.declaration import Settings
from loader.settings.environment import load_settings
from loader.words import counted

log = logging.getLogger("loader.bridge")

TICK_SECONDS = 0.2


class Engine:
    """Consumers that run, by group. `start`, `apply` and `stop` are for one thread."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._timer = Timer()
        self._configuration: Configuration | None = None
        self._lookups: Lookups | None = None
        self._chosen: Mapping[str, Lookup] = {}
        self._key = os.urandom(32)
        """Of the digests of secrets: they say nothing to who sees one, and no two processes have the same."""
        self._digests: dict[str, bytes] = {}
        self.running: dict[str, Running] = {}

    @property
    def lookup_ages(self) -> Mapping[str, float]:
        """Ages of lookups by name."""
        return self._lookups.ages() if self._lookups is not None else {}

    def apply(self, configuration: Configuration, shutdown_seconds: float) -> None:
        """Run this configuration: consumers that it leaves as they are go on, the others end, and new ones start.

        Raises LoaderError when it cannot be run; then what ran before goes on unharmed."""
        plan = make_plan(configuration, self._instance)
        # Not those of other regions, whose secrets are not here either.
        names = {name for pipeline in plan.pipelines() for name in lookups_of(pipeline)}
        chosen = {name: lookup for name, lookup in configuration.lookups.items() if name in names}
        wanted = {consumer.group: consumer for consumer in plan.consumers}
        old = self._configuration
        # Before anything is made of them: what changes meanwhile is another value at the next reload.
        digests = {group: self._digest(configuration, consumer) for group, consumer in wanted.items()}
        same = {
            group
            for group, running in self.running.items()
            if group in wanted
            and old is not None
            and _alike(old, running.consumer, configuration, wanted[group])
            and digests[group] == self._digests[group]
        }
        keep_lookups = self._lookups is not None and self._chosen == chosen
        lookups = self._lookups
        if not keep_lookups or lookups is None:
            lookups = Lookups(chosen.values())
        # Stages hold on to their lookups: with other lookups everything that uses any is another.
        if not keep_lookups:
            same = {group for group in same if not any(each.stages for each in wanted[group].pipelines)}
        # The new ones are made first: what cannot be made must not end what runs.
        fresh: dict[str, Running] = {}
        try:
            for group, consumer in wanted.items():
                if group not in same:
                    fresh[group] = build(configuration, consumer, lookups.state, self._timer)
        except (LoaderError, OSError, ValueError) as error:
            for running in fresh.values():
                for flow in running.flows:
                    flow.close(time.monotonic())
            if isinstance(error, LoaderError):
                raise
            # A file that cannot be read, an address that is none.
            raise ConfigurationError(f"{configuration.file}: cannot be run: {error}") from error
        if not keep_lookups:
            lookups.start()
        previous, self._lookups, self._chosen = self._lookups, lookups, chosen
        ending = [running for group, running in self.running.items() if group not in same]
        _stop(ending, shutdown_seconds)
        if previous is not None and previous is not lookups:
            previous.stop()
        self.running = {group: fresh[group] if group in fresh else self.running[group] for group in wanted}
        for running in fresh.values():
            running.start()
        self._configuration = configuration
        self._digests = digests
        for name, why in plan.left.items():
            log.info("the pipeline %s does not run here: %s", name, why)
        log.info(
            "running %s by %s in %s/%s, %d of them as before",
            counted(len(plan.pipelines()), "pipeline"),
            counted(len(wanted), "consumer"),
            self._instance.region,
            self._instance.environment,
            len(same),
        )

    def _digest(self, configuration: Configuration, consumer: Consumer) -> bytes:
        """Of the values that the secrets of a consumer and of all that its pipelines use have now. Lookups read theirs
        anew at each fetch."""
        owners: list[Any] = [configuration.endpoints[name].options for name in _ends(consumer)]
        for pipeline in consumer.pipelines:
            owners += [pipeline.format_options, *(spec.options for spec in pipeline.stages)]
        digest = blake2b(key=self._key)
        for value in secrets(owners, os.environ):
            digest.update(b"%d:%b" % (len(value), value.encode("utf-8", "surrogatepass")))
        return digest.digest()

    @property
    def ended(self) -> bool:
        """Every source came to its end (files do)."""
        return bool(self.running) and all(each.reader.ended.is_set() for each in self.running.values())

    def stop(self, seconds: float) -> bool:
        """Deliver and commit what is in flight, within about `seconds`. False when something was left."""
        done = _stop(list(self.running.values()), seconds)
        if self._lookups is not None:
            self._lookups.stop()
        self._timer.close()
        self.running = {}
        return done


def _stop(ending: list[Running], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    done = True
    for running in ending:
        running.reader.stop(deadline - min(2.0, seconds / 5))
    for running in ending:
        done = running.reader.join(deadline) and done
    for running in ending:
        for flow in running.flows:
            done = flow.close(deadline) and done
    return done


def _alike(old: Configuration, before: Consumer, new: Configuration, after: Consumer) -> bool:
    """The consumer and all that its pipelines use say the same, wherever in the file they stand now."""
    return _said(old, before) == _said(new, after)


def _said(configuration: Configuration, consumer: Consumer) -> Any:
    shared = shared_targets(configuration.pipelines.values(), configuration.endpoints)
    return (
        consumer.start,
        [_without_place(pipeline) for pipeline in consumer.pipelines],
        [
            (_without_place(each), target(each) in shared)
            for each in (configuration.endpoints[name] for name in _ends(consumer))
        ],
    )


def _ends(consumer: Consumer) -> list[str]:
    """Endpoints that its pipelines use."""
    ends = {pipeline.source for pipeline in consumer.pipelines}
    for pipeline in consumer.pipelines:
        ends.update(pipeline.sinks)
        if pipeline.dead_letter is not None:
            ends.add(pipeline.dead_letter)
    return sorted(ends)


def _without_place(value: Any) -> Any:
    if isinstance(value, Reference):
        return value  # equal wherever it stands
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _without_place(getattr(value, each.name)) for each in fields(value) if each.name != "place"}
    if isinstance(value, Mapping):
        return {name: _without_place(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_place(each) for each in value]
    return value


def run(configuration: Configuration, instance: Instance, *, reload: Callable[[], Configuration]) -> int:
    """Run until SIGTERM or SIGINT, or until every source has ended; returns the exit code. `reload` reads the file
    again; it raises LoaderError for a bad one. HTTP server, time to stop and log are the loader's own settings
    (loader/settings/declaration.py). Raises LoaderError when it cannot start."""
    settings, warnings = load_settings(None, os.environ)
    token = settings.http_token.get_secret_value() if settings.http_token is not None else None
    redaction = Redaction([token or "", *_secrets(configuration)])
    close_logs = configure(settings.log_level, settings.log_to, secrets=redaction)

    def read_again() -> Configuration:
        # Before anything of the new file runs: new secrets, and those of which only the value is another.
        found = reload()
        redaction.learn(_secrets(found))
        return found

    for warning in warnings:
        log.warning("%s", warning)
    try:
        return _run(configuration, instance, read_again, settings, token)
    finally:
        close_logs()


def _secrets(configuration: Configuration) -> list[str]:
    """Values that no line of the log may hold, as they are now."""
    owners = [
        *(endpoint.options for endpoint in configuration.endpoints.values()),
        *(lookup.options for lookup in configuration.lookups.values()),
        *(pipeline.format_options for pipeline in configuration.pipelines.values()),
        *(spec.options for pipeline in configuration.pipelines.values() for spec in pipeline.stages),
    ]
    return secrets(owners, os.environ)


def _run(
    configuration: Configuration,
    instance: Instance,
    reload: Callable[[], Configuration],
    settings: Settings,
    token: str | None,
) -> int:
    stop, again = threading.Event(), threading.Event()
    wake = threading.Event()

    def on_stop(*_: Any) -> None:
        stop.set()
        wake.set()

    def on_reload(*_: Any) -> None:
        again.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_stop)
    signal.signal(signal.SIGHUP, on_reload)
    engine = Engine(instance)
    server = Server(engine, settings.http_host, settings.http_port, token)
    engine.apply(configuration, settings.shutdown_seconds)
    # Frames make no cycles; looking for them costs up to 40 % where thousands live at a time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    server.start()
    try:
        while not stop.is_set() and not engine.ended:
            server.beat()
            wake.wait(TICK_SECONDS)
            wake.clear()
            if again.is_set() and not stop.is_set():
                again.clear()
                _reload(engine, reload, settings.shutdown_seconds)
    finally:
        log.info("stopping")
        done = engine.stop(settings.shutdown_seconds)
        server.close()
    log.info("stopped" if done else "stopped; what was not delivered will be by whoever takes over")
    return 0


def _reload(engine: Engine, reload: Callable[[], Configuration], seconds: float) -> None:
    try:
        engine.apply(reload(), seconds)
    except LoaderError as error:
        log.error("the file is refused and the one before goes on: %s", error)
