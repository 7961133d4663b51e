"""Pub/Sub's plain protobuf classes: the proto-plus wrappers around them cost two thirds of the CPU of a pull."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import google
from google.protobuf import empty_pb2

_PACKAGE = "google.pubsub_v1"


def _load_types() -> Any:
    """The module with the message classes, without its package's `__init__`: that imports every client that Google
    has for Pub/Sub, 23 MB of resident memory in each worker. Whoever imports the package later gets all of it."""
    if _PACKAGE in sys.modules:
        return importlib.import_module(f"{_PACKAGE}.types.pubsub")
    spec = PathFinder.find_spec(_PACKAGE, google.__path__)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{_PACKAGE} is missing: install google-cloud-pubsub", name=_PACKAGE)
    folder = next(iter(spec.submodule_search_locations))
    bare = {_PACKAGE: folder, f"{_PACKAGE}.types": f"{folder}/types"}
    for name, path in bare.items():
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = [path]
    try:
        return importlib.import_module(f"{_PACKAGE}.types.pubsub")
    finally:
        for name in bare:
            del sys.modules[name]


_types = _load_types()

Empty: Any = empty_pb2.Empty

Topic: Any = _types.Topic.pb()
GetTopicRequest: Any = _types.GetTopicRequest.pb()
UpdateTopicRequest: Any = _types.UpdateTopicRequest.pb()
ListTopicsRequest: Any = _types.ListTopicsRequest.pb()
ListTopicsResponse: Any = _types.ListTopicsResponse.pb()
DeleteTopicRequest: Any = _types.DeleteTopicRequest.pb()
PubsubMessage: Any = _types.PubsubMessage.pb()
PublishRequest: Any = _types.PublishRequest.pb()
PublishResponse: Any = _types.PublishResponse.pb()

Subscription: Any = _types.Subscription.pb()
GetSubscriptionRequest: Any = _types.GetSubscriptionRequest.pb()
UpdateSubscriptionRequest: Any = _types.UpdateSubscriptionRequest.pb()
ListSubscriptionsRequest: Any = _types.ListSubscriptionsRequest.pb()
ListSubscriptionsResponse: Any = _types.ListSubscriptionsResponse.pb()
DeleteSubscriptionRequest: Any = _types.DeleteSubscriptionRequest.pb()
ReceivedMessage: Any = _types.ReceivedMessage.pb()
PullRequest: Any = _types.PullRequest.pb()
PullResponse: Any = _types.PullResponse.pb()
StreamingPullRequest: Any = _types.StreamingPullRequest.pb()
StreamingPullResponse: Any = _types.StreamingPullResponse.pb()
AcknowledgeRequest: Any = _types.AcknowledgeRequest.pb()
ModifyAckDeadlineRequest: Any = _types.ModifyAckDeadlineRequest.pb()

Snapshot: Any = _types.Snapshot.pb()
CreateSnapshotRequest: Any = _types.CreateSnapshotRequest.pb()
GetSnapshotRequest: Any = _types.GetSnapshotRequest.pb()
ListSnapshotsRequest: Any = _types.ListSnapshotsRequest.pb()
ListSnapshotsResponse: Any = _types.ListSnapshotsResponse.pb()
DeleteSnapshotRequest: Any = _types.DeleteSnapshotRequest.pb()
SeekRequest: Any = _types.SeekRequest.pb()
SeekResponse: Any = _types.SeekResponse.pb()
