"""Builds a worker from the settings: the one place that knows all the parts."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import grpc

from loader.bundle.window import Window
from loader.copy.committer import Committer
from loader.copy.load_id import LoadIds
from loader.errors import ConfigurationError
from loader.learn.learner import Learner
from loader.learn.settled import Settled
from loader.message.decode import Decoder, DecodeRules
from loader.plan.book import PlanRules
from loader.plan.names import json_keys
from loader.plan.policy import Policy
from loader.pull.channel import emulator
from loader.pull.puller import Puller
from loader.settings.declaration import Settings
from loader.worker.control import Control
from loader.worker.heartbeat import Heartbeat
from loader.worker.intake import Intake
from loader.worker.lane import Connector, Health, Lane
from loader.worker.orders import Orders
from loader.worker.settlement import Settlement
from loader.worker.worker import Observer, Worker


def decode_rules(settings: Settings) -> DecodeRules:
    """The settings that decide how a message becomes events."""
    return DecodeRules(
        default_table=settings.default_table,
        table_prefix=settings.table_prefix,
        table_key=settings.table_key or "",
        table_attribute=settings.table_attribute or "",
        event_id_key=settings.event_id_key or "",
        event_id_attribute=settings.event_id_attribute or "",
        max_message_bytes=settings.max_message_bytes,
        max_array_elements=settings.max_array_elements,
        max_keys=settings.max_keys,
        emulator=emulator() is not None,
    )


def plan_rules(settings: Settings) -> PlanRules:
    """The settings that decide where a value goes."""
    return PlanRules(
        max_nesting=settings.max_nesting,
        max_columns=settings.max_columns,
        max_tables=settings.max_tables,
        default_table=Decoder(decode_rules(settings)).namer.default,
        keep_attributes=settings.keep_attributes,
        keep_raw=settings.keep_raw,
        json_keys=json_keys(settings.json_keys),
    )


def worker_name() -> str:
    """Names this process in dead letters, receipts and `pg_stat_activity`."""
    return f"{socket.gethostname()}/{os.getpid()}"


class Parts:
    """What a lane needs, shared by the worker and by commands that load without a subscription (replay)."""

    def __init__(self, settings: Settings, connector: Connector, health: Health) -> None:
        self.settings = settings
        self.rules = plan_rules(settings)
        self.contract = settings.schema_contract
        self.abort = threading.Event()
        self.name = worker_name()
        self.learner = Learner(settings.dataset, self.rules, self.contract, self.name)
        self._connector = connector
        self._health = health
        self._load_ids = LoadIds()
        self.decoders: list[Decoder] = []

    def intake(self, settlement: Settlement | None = None) -> Intake:
        """An intake of its own for one lane."""
        decoder = Decoder(decode_rules(self.settings))
        self.decoders.append(decoder)
        return Intake(
            decoder,
            settlement.expect if settlement is not None else lambda message, events: None,
            keep_attributes=self.settings.keep_attributes,
            keep_raw=self.settings.keep_raw,
        )

    def lane(
        self,
        purpose: str,
        intake: Intake,
        policy: Callable[[], Policy] | None = None,
        orders: Orders | None = None,
    ) -> Lane:
        """A lane with a connection of its own, which shows as `loader PURPOSE`."""
        committer = Committer(self.settings.dataset, self.name, intake.source.exact)
        return Lane(
            self._connector,
            self.learner,
            committer,
            self.rules,
            intake.source,
            self._health,
            self.abort,
            f"loader {purpose}",
            self._load_ids,
            policy,
            orders,
        )

    def settled(self) -> Policy:
        """The policy for events whose lesson has been learned."""
        return Settled(self.rules, self.contract)


def build_puller(settings: Settings, endpoint: str | Callable[[], grpc.Channel] | None = None) -> Puller:
    """The puller that the settings describe. Raises ConfigurationError without a subscription."""
    if settings.subscription is None:
        raise ConfigurationError("LOADER_SUBSCRIPTION is not set: give projects/P/subscriptions/S")
    return Puller(
        endpoint,
        settings.subscription,
        streams=settings.streams,
        max_outstanding_messages=settings.outstanding_messages,
        max_outstanding_bytes=settings.outstanding_bytes,
        client_id=worker_name(),
        lease_seconds=settings.lease_seconds,
    )


def build_worker(parts: Parts, puller: Puller, observer: Observer, control: Control | None = None) -> Worker:
    """A worker that is ready to run, once."""
    settings = parts.settings
    settlement = Settlement(puller.ack, puller.nack)
    intake, learning_intake = parts.intake(settlement), parts.intake(settlement)
    orders = Orders(settings.dataset, puller.subscription, parts.name)
    return Worker(
        puller,
        Window(settings.window_seconds, settings.max_bundle_messages, settings.max_bundle_bytes),
        parts.lane("load", intake, orders=orders),
        intake,
        parts.lane("learn", learning_intake, parts.settled, orders),
        learning_intake,
        parts.abort,
        settlement,
        observer,
        settings.shutdown_seconds,
        control,
        Heartbeat(settings.dataset, parts.name, settings.subscription or ""),
        orders,
    )
