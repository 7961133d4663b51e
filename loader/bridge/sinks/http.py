"""A REST endpoint as a sink: one message a request, lines or a JSON array; connections are kept, failures retried.

408, 425, 429 and 5xx are troubles of the host, retried for ever, not before what Retry-After says. So are 401, 403 and
407: they are about our credentials and not about a message. Every other 4xx refuses the message; a request of several
is halved to find which.
"""

from __future__ import annotations

import email.utils
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import urllib3

from loader.bridge.engine.bucket import Share
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.identity import suffix
from loader.bridge.sinks.dispatch import DELIVERED, Collector, Dispatcher, Outcome, Request
from loader.bridge.sinks.sink import Delivery, identity_of
from loader.errors import ConfigurationError

log = logging.getLogger(__name__)

Batching = Literal["single", "ndjson", "array"]

_TYPES: Mapping[Batching, str] = {
    "single": "application/octet-stream",
    "ndjson": "application/x-ndjson",
    "array": "application/json",
}
_RETRIED = frozenset({401, 403, 407, 408, 425, 429})
_LONGEST_REASON = 200
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = "!#$%&'()*+,/:;=?@[] "
"""What an identity keeps in a header, letters and digits apart; anything else is percent-encoded."""


class HttpSink:
    """One URL. A request of one message carries its identity in the header `Idempotency-Key`."""

    def __init__(
        self,
        name: str,
        url: str,
        delivery: Delivery,
        timer: Timer,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
        batch: Batching = "single",
        most_messages: int = 100,
        most_bytes: int = 1_000_000,
        concurrency: int = 8,
        timeout: float = 10.0,
        ca_file: str | None = None,
        pipeline: str | None = None,
    ) -> None:
        check_address(name, url, headers or {}, ca_file)
        self.name = name
        self._url = url
        self._method = method
        self._headers = {**(headers or {}), "Content-Type": content_type or _TYPES[batch]}
        self._batch = batch
        self._most = 1 if batch == "single" else most_messages
        self._most_bytes = most_bytes
        self._delivery = delivery
        self._end = suffix(pipeline).encode()
        self._collector = Collector()
        self._bytes = 0
        # A pool without TLS takes no such argument.
        authorities: dict[str, Any] = {"ca_certs": ca_file} if ca_file and url.lower().startswith("https:") else {}
        # Retries are the dispatcher's: one at a time while the host is down, and each with one look-up of its name.
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=concurrency,
            block=True,
            retries=False,
            timeout=urllib3.Timeout(total=timeout),
            **authorities,
        )
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix=f"http {name}")
        self._requests = Dispatcher(name, self._fire, delivery, timer, concurrency)

    @property
    def trouble(self) -> str | None:
        return self._requests.trouble

    @property
    def backoff_seconds(self) -> float:
        return self._requests.backoff_seconds

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        """Collect frames and send full requests."""
        each = size / len(frames)
        for frame in frames:
            try:
                value = frame.value() or b""
            except Undecodable as error:
                self._delivery.refuse(share, frame, str(error), each)
                continue
            if self._collector.count and self._bytes + len(value) > self._most_bytes:
                self.flush()
            self._collector.add([frame], share, each)
            self._bytes += len(value) + 1
            if self._collector.count >= self._most:
                self.flush()

    def flush(self) -> None:
        """Send what waits."""
        if self._collector.count:
            self._bytes = 0
            self._requests.submit(self._collector.take())

    def _fire(self, request: Request) -> None:
        try:
            self._threads.submit(self._call, request)
        except RuntimeError as error:  # closed
            self._requests.done(request, Outcome("retry", str(error)))

    def _call(self, request: Request) -> None:
        try:
            outcome = self._outcome(request)
        except Exception as error:  # nobody looks at this thread: a request that is never settled holds all, silently
            log.exception("the sink %s: a request cannot be made", self.name)
            outcome = Outcome("retry", f"{type(error).__name__}: {error}"[:_LONGEST_REASON])
        self._requests.done(request, outcome)

    def _outcome(self, request: Request) -> Outcome:
        headers = self._headers
        if request.count == 1:
            [frame] = request.frames
            headers = {**headers, "Idempotency-Key": quote(identity_of(frame, self._end), safe=_PLAIN)}
        try:
            # No redirects: a message must arrive where the file says.
            answer = self._pool.request(
                self._method, self._url, body=self._body(request.frames), headers=headers, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return Outcome("retry", f"{type(error).__name__}: {error}"[:_LONGEST_REASON])
        if 200 <= answer.status < 300:
            return DELIVERED
        reason = f"HTTP {answer.status} {answer.reason or ''}".strip()
        if 400 <= answer.status < 500 and answer.status not in _RETRIED:
            return Outcome("refused", f"{reason}: {answer.data[:_LONGEST_REASON].decode('utf-8', 'replace')}")
        return Outcome("retry", reason, retry_after(answer.headers.get("Retry-After"), time.time()))

    def _body(self, frames: Sequence[Frame]) -> bytes:
        values = [frame.value() or b"" for frame in frames]
        if self._batch == "array":
            return b"[" + b",".join(values) + b"]"
        if self._batch == "ndjson":
            return b"".join(value + b"\n" for value in values)
        return values[0]

    def close(self, deadline: float) -> bool:
        self.flush()
        done = self._requests.close(deadline)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.clear()
        return done


def check_address(name: str, url: str, headers: Mapping[str, str], ca_file: str | None) -> None:
    """Raises ConfigurationError for what no request can be made of."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:  # it is not shown: a part of it may be a secret
        raise ConfigurationError(f"the endpoint {name}: url must be http://HOST/… or https://HOST/…")
    for header, value in headers.items():
        if not _TOKEN.fullmatch(header):
            raise ConfigurationError(f"the endpoint {name}: {header!r} is no name of a header")
        if not value.isprintable() or not value.isascii():
            # The value may be a secret.
            raise ConfigurationError(f"the endpoint {name}: the value of the header {header} is not printable ASCII")
    if ca_file and not os.access(ca_file, os.R_OK):
        raise ConfigurationError(f"the endpoint {name}: ca_file {ca_file} cannot be read")


def retry_after(text: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3): a number or a date; None for anything else."""
    if not text:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return float(text.strip()[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except ValueError:
        return None
