"""The subscription's backlog from Cloud Monitoring, by REST: Pub/Sub itself tells nobody how much waits.

No host is contacted unless this machine has Google credentials of its own, and none beside an emulator."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from loader.status.picture import Backlog

Fetch = Callable[[str], tuple[int, bytes]]
"""GET a URL with credentials: status and body. Raises OSError when there is no answer."""

NEEDED = "needs monitoring.viewer"
_SCOPE = "https://www.googleapis.com/auth/monitoring.read"
HOST = "https://monitoring.googleapis.com"
_SECONDS = 5.0
# Figures are sampled each minute and come up to four minutes late.
# https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-pubsub
_LOOK_BACK = datetime.timedelta(minutes=10)
_MESSAGES = "num_undelivered_messages"
_OLDEST = "oldest_unacked_message_age"


def read_backlog(subscription: str | None, now: datetime.datetime, fetch: Fetch | None = None) -> Backlog:
    """The newest figures of `projects/P/subscriptions/S`. Never raises: what is unknown says why in `note`."""
    if not subscription:
        return Backlog(note="unknown (LOADER_SUBSCRIPTION is not set)")
    if fetch is None:
        if os.environ.get("PUBSUB_EMULATOR_HOST", "").strip():  # not by loader.pull: a supervisor does without gRPC
            return Backlog(note="unknown (an emulator has no Cloud Monitoring)")
        if not has_credentials():
            return Backlog(note=f"unknown ({NEEDED}; this machine has no Google credentials)")
        fetch = default_fetch
    try:
        messages = _newest(fetch, subscription, _MESSAGES, now)
        oldest = _newest(fetch, subscription, _OLDEST, now)
    except _Refused as error:
        return Backlog(note=str(error))
    except (OSError, ValueError) as error:
        return Backlog(note=f"unknown (Cloud Monitoring: {' '.join(str(error).split())[:200]})")
    note = "" if messages is not None else "unknown (Cloud Monitoring has no figure of the last ten minutes)"
    return Backlog(None if messages is None else int(messages), oldest, note)


class _Refused(Exception):
    pass


def _newest(fetch: Fetch, subscription: str, metric: str, now: datetime.datetime) -> float | None:
    _, project, _, name = subscription.split("/")
    query = {
        "filter": f'metric.type = "pubsub.googleapis.com/subscription/{metric}"'
        f' AND resource.labels.subscription_id = "{name}"',
        "interval.startTime": rfc3339(now - _LOOK_BACK),
        "interval.endTime": rfc3339(now),
    }
    status, body = fetch(f"{HOST}/v3/projects/{project}/timeSeries?{urlencode(query)}")
    if status in (401, 403):
        raise _Refused(f"unknown ({NEEDED})")
    if status != 200:
        raise _Refused(f"unknown (Cloud Monitoring answers {status})")
    points = [
        (point["interval"]["endTime"], value)
        for series in json.loads(body).get("timeSeries", ())
        for point in series.get("points", ())
        for value in point["value"].values()
    ]
    return float(max(points)[1]) if points else None


def has_credentials(environ: os._Environ[str] | dict[str, str] = os.environ) -> bool:
    """Whether default credentials are at hand without asking the network where this machine stands."""
    if environ.get("GOOGLE_APPLICATION_CREDENTIALS") or environ.get("GCE_METADATA_HOST"):
        return True
    folder = environ.get("CLOUDSDK_CONFIG")
    home = Path(folder) if folder else Path(environ.get("HOME", "/nonexistent")) / ".config" / "gcloud"
    if (home / "application_default_credentials.json").exists():
        return True
    try:
        return Path("/sys/class/dmi/id/product_name").read_text(encoding="ascii").strip().startswith("Google")
    except (OSError, ValueError):
        return False


def default_fetch(url: str) -> tuple[int, bytes]:
    """GET with this machine's credentials. Raises OSError."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    try:
        credentials, _project = google.auth.default(scopes=[_SCOPE])
        with AuthorizedSession(credentials) as session:  # type: ignore[no-untyped-call]
            answer = session.get(url, timeout=_SECONDS)
            return answer.status_code, answer.content
    except GoogleAuthError as error:
        raise OSError(str(error)) from error


def rfc3339(moment: datetime.datetime) -> str:
    """A time as Google's APIs write it."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
