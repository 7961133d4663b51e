"""The gRPC channel to Pub/Sub, or to an emulator, and the calls that the project makes on it."""

from __future__ import annotations

import os
from typing import Any

# gRPC's C core writes warnings to stderr past Python's logging, where they break lines of JSON.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc

from loader.errors import ConfigurationError
from loader.pull import protocol as pb

EMULATOR_VARIABLE = "PUBSUB_EMULATOR_HOST"
SERVICE = "pubsub.googleapis.com:443"
SCOPE = "https://www.googleapis.com/auth/pubsub"
TIMEOUT_SECONDS = 15.0
"""Default deadline of a unary call."""

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # A response holds up to 1,000 messages of up to 10 MB; the service ends a response well below this.
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    # A connection whose packets are dropped says nothing: a ping finds out. 30 s is the least that servers allow.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Channels share a TCP connection unless told otherwise: then a new channel could not leave a dead connection.
    ("grpc.use_local_subchannel_pool", 1),
    # A fixed window: gRPC would widen it to tens of megabytes of messages that flow control has counted already.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1 << 20),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


def emulator() -> str | None:
    """`host:port` of the emulator named by PUBSUB_EMULATOR_HOST, None when there is none."""
    host = os.environ.get(EMULATOR_VARIABLE, "").strip()
    return host or None


def open_channel(endpoint: str | None = None) -> grpc.Channel:
    """A channel to Pub/Sub; no connection is made before the first call.

    `endpoint` (`host:port`, without TLS) wins over PUBSUB_EMULATOR_HOST; with neither it is the Google service, by TLS
    and Application Default Credentials. Open it after a fork, never before: gRPC's threads do not survive one.
    Raises ConfigurationError when the endpoint is no `host:port` or no credentials are found."""
    target = endpoint or emulator()
    if target is not None:
        host, colon, port = target.rpartition(":")
        if not colon or not host or not port.isdigit() or "/" in target:
            source = "The Pub/Sub endpoint" if endpoint else EMULATOR_VARIABLE
            raise ConfigurationError(f"{source} is {target!r}: give it as host:port, for example 127.0.0.1:8085")
        # A proxy of the environment would be asked for the loopback address of another machine.
        return grpc.insecure_channel(target, options=[*_OPTIONS, ("grpc.enable_http_proxy", 0)])
    return _service_channel()


def _service_channel() -> grpc.Channel:
    import google.auth
    import google.auth.exceptions
    import google.auth.transport.grpc
    import google.auth.transport.requests

    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except google.auth.exceptions.DefaultCredentialsError as error:
        raise ConfigurationError(
            "No Google credentials found for Pub/Sub: run `gcloud auth application-default login`, set "
            f"GOOGLE_APPLICATION_CREDENTIALS, or set {EMULATOR_VARIABLE} to use an emulator"
        ) from error
    return google.auth.transport.grpc.secure_authorized_channel(
        credentials,
        google.auth.transport.requests.Request(),
        SERVICE,
        ssl_credentials=grpc.ssl_channel_credentials(),
        options=list(_OPTIONS),
    )


class Stub:
    """Pub/Sub's calls on one channel, with plain protobuf requests (`loader.pull.protocol`).

    `stub.publish(request)` has a deadline of TIMEOUT_SECONDS unless `timeout=` is given, and raises grpc.RpcError.
    `stub.unary("publish")` is the bare multi-callable, for `.future()` and for loops."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self._unary: dict[str, Any] = {}
        self.streaming_pull: Any = channel.stream_stream(
            "/google.pubsub.v1.Subscriber/StreamingPull",
            request_serializer=pb.StreamingPullRequest.SerializeToString,
            response_deserializer=pb.StreamingPullResponse.FromString,
        )

    def unary(self, name: str) -> Any:
        """The multi-callable of one unary call, by its name below."""
        call = self._unary.get(name)
        if call is None:
            path, request, response = _CALLS[name]
            call = self._unary[name] = self.channel.unary_unary(
                f"/google.pubsub.v1.{path}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
        return call

    def _call(self, name: str, request: Any, timeout: float) -> Any:
        return self.unary(name)(request, timeout=timeout)

    def create_topic(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("create_topic", request, timeout)

    def get_topic(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("get_topic", request, timeout)

    def update_topic(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("update_topic", request, timeout)

    def list_topics(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("list_topics", request, timeout)

    def delete_topic(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("delete_topic", request, timeout)

    def publish(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("publish", request, timeout)

    def create_subscription(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("create_subscription", request, timeout)

    def get_subscription(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("get_subscription", request, timeout)

    def update_subscription(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("update_subscription", request, timeout)

    def list_subscriptions(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("list_subscriptions", request, timeout)

    def delete_subscription(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("delete_subscription", request, timeout)

    def pull(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("pull", request, timeout)

    def acknowledge(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("acknowledge", request, timeout)

    def modify_ack_deadline(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("modify_ack_deadline", request, timeout)

    def seek(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("seek", request, timeout)

    def create_snapshot(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("create_snapshot", request, timeout)

    def get_snapshot(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("get_snapshot", request, timeout)

    def list_snapshots(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("list_snapshots", request, timeout)

    def delete_snapshot(self, request: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        return self._call("delete_snapshot", request, timeout)


_CALLS: dict[str, tuple[str, Any, Any]] = {
    "create_topic": ("Publisher/CreateTopic", pb.Topic, pb.Topic),
    "get_topic": ("Publisher/GetTopic", pb.GetTopicRequest, pb.Topic),
    "update_topic": ("Publisher/UpdateTopic", pb.UpdateTopicRequest, pb.Topic),
    "list_topics": ("Publisher/ListTopics", pb.ListTopicsRequest, pb.ListTopicsResponse),
    "delete_topic": ("Publisher/DeleteTopic", pb.DeleteTopicRequest, pb.Empty),
    "publish": ("Publisher/Publish", pb.PublishRequest, pb.PublishResponse),
    "create_subscription": ("Subscriber/CreateSubscription", pb.Subscription, pb.Subscription),
    "get_subscription": ("Subscriber/GetSubscription", pb.GetSubscriptionRequest, pb.Subscription),
    "update_subscription": ("Subscriber/UpdateSubscription", pb.UpdateSubscriptionRequest, pb.Subscription),
    "list_subscriptions": ("Subscriber/ListSubscriptions", pb.ListSubscriptionsRequest, pb.ListSubscriptionsResponse),
    "delete_subscription": ("Subscriber/DeleteSubscription", pb.DeleteSubscriptionRequest, pb.Empty),
    "pull": ("Subscriber/Pull", pb.PullRequest, pb.PullResponse),
    "acknowledge": ("Subscriber/Acknowledge", pb.AcknowledgeRequest, pb.Empty),
    "modify_ack_deadline": ("Subscriber/ModifyAckDeadline", pb.ModifyAckDeadlineRequest, pb.Empty),
    "seek": ("Subscriber/Seek", pb.SeekRequest, pb.SeekResponse),
    "create_snapshot": ("Subscriber/CreateSnapshot", pb.CreateSnapshotRequest, pb.Snapshot),
    "get_snapshot": ("Subscriber/GetSnapshot", pb.GetSnapshotRequest, pb.Snapshot),
    "list_snapshots": ("Subscriber/ListSnapshots", pb.ListSnapshotsRequest, pb.ListSnapshotsResponse),
    "delete_snapshot": ("Subscriber/DeleteSnapshot", pb.DeleteSnapshotRequest, pb.Empty),
}


def fault(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    """Status code and details of a failed call; UNKNOWN for an error that carries none."""
    if isinstance(error, grpc.Call):
        return error.code() or grpc.StatusCode.UNKNOWN, error.details() or ""
    return grpc.StatusCode.UNKNOWN, str(error)
