"""Checks what Pub/Sub would refuse: https://cloud.google.com/pubsub/quotas#resource_limits."""

from __future__ import annotations

import re

from loader.bridge.config.endpoints import (
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTE_VALUE,
    MAX_ATTRIBUTES,
    MAX_BATCH_BYTES,
    MAX_BATCH_MESSAGES,
)
from loader.bridge.config.finding import Findings
from loader.bridge.config.model import Endpoint, Pipeline

OWN_ATTRIBUTES = 1
"""`event_id`, which the bridge sets itself."""

_NAME = re.compile(r"projects/[^/\s]+/(topics|subscriptions)/[A-Za-z][A-Za-z0-9._~%+-]{2,254}")


def check_endpoint(endpoint: Endpoint, findings: Findings) -> None:
    """Names and batch limits of a Pub/Sub endpoint."""
    options = endpoint.options
    for what in ("topic", "subscription"):
        name = options.get(what)
        if isinstance(name, str) and (not _NAME.fullmatch(name) or f"/{what}s/" not in name):
            example = f"projects/my-project/{what}s/my-{what}"
            rule = "; the last part has 3 to 255 letters, digits and -_.~+% and begins with a letter"
            rule = rule if name.startswith("projects/") else ""
            findings.error(endpoint.place, f"{what} must be a full name such as {example}, not {name!r}{rule}")
    if not options.get("topic") and not options.get("subscription"):
        findings.error(
            endpoint.place, f"endpoint {endpoint.name!r} needs a topic (sink), a subscription (source) or both"
        )
    if (options.get("batch_messages") or 0) > MAX_BATCH_MESSAGES:
        findings.error(endpoint.place, f"batch_messages: Pub/Sub takes at most {MAX_BATCH_MESSAGES} in a request")
    if (options.get("batch_bytes") or 0) > MAX_BATCH_BYTES:
        findings.error(endpoint.place, f"batch_bytes: Pub/Sub takes at most {MAX_BATCH_BYTES} (10 MB) in a request")


def check_headers(pipeline: Pipeline, findings: Findings) -> None:
    """Headers that the stages of a pipeline with a Pub/Sub sink set: they become attributes."""
    names: set[str] = set()
    for spec in pipeline.stages:
        if spec.kind == "copy_field" and spec.options.get("to_header"):
            headers = {spec.options["to_header"]: None}
        elif spec.kind == "trail":
            headers = {spec.options["header"]: None}
        elif spec.kind == "set":
            headers = spec.options.get("headers") or {}
        else:
            continue
        for name, value in headers.items():
            names.add(name)
            if not name or len(name.encode()) > MAX_ATTRIBUTE_NAME:
                findings.error(
                    spec.place, f"the header {name[:40]!r} has a name of 0 or over {MAX_ATTRIBUTE_NAME} bytes"
                )
            if name.startswith("goog"):
                findings.error(spec.place, f"the header {name!r}: Pub/Sub keeps names that begin with goog for itself")
            if name == "event_id":
                findings.error(spec.place, "the header event_id is the message's identity, which the bridge sets")
            if isinstance(value, str) and len(value.encode()) > MAX_ATTRIBUTE_VALUE:
                findings.error(spec.place, f"the header {name!r} has a value of over {MAX_ATTRIBUTE_VALUE} bytes")
    if len(names) + OWN_ATTRIBUTES > MAX_ATTRIBUTES:
        findings.error(
            pipeline.place,
            f"the stages set {len(names)} headers; a Pub/Sub message has at most {MAX_ATTRIBUTES} attributes, "
            "event_id among them",
        )
