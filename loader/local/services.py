"""The unary methods of Pub/Sub's Publisher and Subscriber services on a Broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import any_pb2, empty_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from loader.local import protocol
from loader.local.broker import MAX_DELIVERY, Broker
from loader.local.lease import Consumer
from loader.local.refusal import invalid
from loader.local.store import MAX_REQUEST_BYTES
from loader.local.subscription import Subscription

PULL_WAIT = 20.0
"""Seconds that a Pull without messages waits before it answers with none, unless its deadline is earlier."""


def _page(items: Sequence[str], request: Any) -> tuple[list[str], str]:
    """One page of names in order; the token is the last name of the page before."""
    size = request.page_size or 100
    later = sorted(name for name in items if name > request.page_token)
    page = later[:size]
    return page, page[-1] if len(later) > size else ""


class Publisher:
    """google.pubsub.v1.Publisher; every method takes a request and its context and returns the response."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store

    def CreateTopic(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.create_topic(request)

    def UpdateTopic(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.update_topic(request.topic, request.update_mask)

    def GetTopic(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.topic(request.topic).config

    def ListTopics(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            topics = self._store.topics
            page, token = _page([name for name in topics if name.startswith(request.project + "/")], request)
            configs = [topics[name].config for name in page]
        return protocol.PUBLISHER_METHODS["ListTopics"][1](topics=configs, next_page_token=token)

    def ListTopicSubscriptions(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            page, token = _page([one.name for one in self._store.topic(request.topic).subscriptions], request)
        return protocol.PUBLISHER_METHODS["ListTopicSubscriptions"][1](subscriptions=page, next_page_token=token)

    def ListTopicSnapshots(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            page, token = _page([one.config.name for one in self._store.topic(request.topic).snapshots], request)
        return protocol.PUBLISHER_METHODS["ListTopicSnapshots"][1](snapshots=page, next_page_token=token)

    def DeleteTopic(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            self._store.delete_topic(request.topic)
        return empty_pb2.Empty()

    def Publish(self, request: Any, _: grpc.ServicerContext) -> Any:
        if request.ByteSize() > MAX_REQUEST_BYTES:
            raise invalid(f"A publish request holds at most {MAX_REQUEST_BYTES} bytes, not {request.ByteSize()}.")
        with self._broker.lock:
            ids, subscriptions = self._store.publish(request.topic, request.messages)
            self._broker.wake(subscriptions)
        return protocol.PublishResponse(message_ids=ids)


class Subscriber:
    """google.pubsub.v1.Subscriber without its stream; every method takes a request and its context."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store

    def CreateSubscription(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.create_subscription(request)

    def GetSubscription(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.subscription(request.subscription).config

    def UpdateSubscription(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.update_subscription(request.subscription, request.update_mask)

    def ListSubscriptions(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            every = self._store.subscriptions
            page, token = _page([name for name in every if name.startswith(request.project + "/")], request)
            configs = [every[name].config for name in page]
        return protocol.SUBSCRIBER_METHODS["ListSubscriptions"][1](subscriptions=configs, next_page_token=token)

    def DeleteSubscription(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            self._broker.wake([self._store.delete_subscription(request.subscription)])
        return empty_pb2.Empty()

    def _subscription(self, name: str) -> Subscription:
        with self._broker.lock:
            return self._store.subscription(name)

    def Acknowledge(self, request: Any, context: grpc.ServicerContext) -> Any:
        subscription = self._subscription(request.subscription)
        refused = self._broker.acknowledge(subscription, request.ack_ids)
        if refused and subscription.exactly_once:
            _abort_ack_ids(context, refused)
        return empty_pb2.Empty()

    def ModifyAckDeadline(self, request: Any, context: grpc.ServicerContext) -> Any:
        if not 0 <= request.ack_deadline_seconds <= 600:
            raise invalid(f"ack_deadline_seconds must be between 0 and 600, not {request.ack_deadline_seconds}.")
        subscription = self._subscription(request.subscription)
        refused = self._broker.modify(subscription, request.ack_ids, request.ack_deadline_seconds)
        if refused and subscription.exactly_once:
            _abort_ack_ids(context, refused)
        return empty_pb2.Empty()

    def Pull(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.max_messages <= 0:
            raise invalid(f"max_messages must be above 0, not {request.max_messages}.")
        broker = self._broker
        with broker.lock:
            subscription = self._store.subscription(request.subscription)
            consumer = Consumer(0, 0, subscription.ack_deadline)
            limit = min(request.max_messages, MAX_DELIVERY)
            leases = broker.deliver(subscription, consumer, limit)
            condition = broker.condition(subscription)
            # An answer on the caller's last moment would reach nobody and leave its messages leased.
            remaining = context.time_remaining()
            until = broker.clock() + int(min(PULL_WAIT, (remaining or PULL_WAIT) * 0.9) * 1_000_000)
            while not (leases or request.return_immediately or broker.stopped or subscription.deleted):
                left = (until - broker.clock()) / 1_000_000
                if left <= 0 or not context.is_active():
                    break
                wake = broker.seconds_to_wait(subscription)
                condition.wait(left if wake is None else min(left, wake))
                leases = broker.deliver(subscription, consumer, limit)
        return protocol.encode_received(leases, subscription.counts)

    def CreateSnapshot(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.create_snapshot(request.name, request.subscription, request.labels)

    def GetSnapshot(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            return self._store.snapshot(request.snapshot).config

    def UpdateSnapshot(self, request: Any, _: grpc.ServicerContext) -> Any:
        if list(request.update_mask.paths) != ["labels"]:
            raise invalid("update_mask: the in-memory server changes a snapshot's labels only.")
        with self._broker.lock:
            config = self._store.snapshot(request.snapshot.name).config
            config.labels.clear()
            config.labels.update(request.snapshot.labels)
            return config

    def ListSnapshots(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            every = self._store.snapshots
            page, token = _page([name for name in every if name.startswith(request.project + "/")], request)
            configs = [every[name].config for name in page]
        return protocol.SUBSCRIBER_METHODS["ListSnapshots"][1](snapshots=configs, next_page_token=token)

    def DeleteSnapshot(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            self._store.delete_snapshot(request.snapshot)
        return empty_pb2.Empty()

    def Seek(self, request: Any, _: grpc.ServicerContext) -> Any:
        with self._broker.lock:
            if request.HasField("time"):
                instant = request.time.seconds * 1_000_000 + request.time.nanos // 1_000
                subscription = self._store.seek_to_time(request.subscription, instant)
            elif request.snapshot:
                subscription = self._store.seek_to_snapshot(request.subscription, request.snapshot)
            else:
                raise invalid("Seek needs a time or a snapshot.")
            self._broker.wake([subscription])
        return protocol.SUBSCRIBER_METHODS["Seek"][1]()


def _abort_ack_ids(context: grpc.ServicerContext, ack_ids: list[str]) -> None:
    """Ends the call as the service does on an exactly-once subscription: a reason for each ack id that was refused."""
    info = error_details_pb2.ErrorInfo(
        reason="EXACTLY_ONCE_ACKID_FAILURE",
        domain="pubsub.googleapis.com",
        metadata=dict.fromkeys(ack_ids, "PERMANENT_FAILURE_INVALID_ACK_ID"),
    )
    detail = any_pb2.Any()
    detail.Pack(info)
    status = status_pb2.Status(
        code=grpc.StatusCode.INVALID_ARGUMENT.value[0],
        message="Some acknowledgement ids in the request were invalid: expired, acked before, or malformed.",
        details=[detail],
    )
    context.abort_with_status(rpc_status.to_status(status))
