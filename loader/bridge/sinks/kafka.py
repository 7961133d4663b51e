"""Kafka as a sink: an idempotent producer; the client itself retries for ever, in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from loader.bridge.engine.bucket import Share
from loader.bridge.engine.timer import Timer
from loader.bridge.frame import Frame, Undecodable
from loader.bridge.identity import suffix
from loader.bridge.outage import Outage
from loader.bridge.sinks.dispatch import Backoff
from loader.bridge.sinks.sink import Delivery, identity_of
from loader.bridge.sources.kafka_options import make_client
from loader.errors import ConfigurationError

log = logging.getLogger(__name__)

_REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""Only these blame a message. An unknown topic or missing rights are troubles of the sink."""
_FULL_SECONDS = 0.05
_ASK_SECONDS = 5.0
_ANSWER_SECONDS = 1.0
IDENTITY_HEADER = "event_id"


class KafkaSink:
    """One topic. Key, headers and time go along; the identity is the header `event_id` if there is none yet."""

    def __init__(
        self,
        name: str,
        topic: str,
        settings: Mapping[str, Any],
        delivery: Delivery,
        timer: Timer,
        *,
        pipeline: str | None = None,
    ) -> None:
        self.name = name
        self.trouble: str | None = None
        self._topic = topic
        self._settings = {**settings, "error_cb": self._failed}
        self._delivery = delivery
        self._timer = timer
        self._end = suffix(pipeline).encode()
        self._backoff = Backoff()
        self._outstanding = 0
        self._lock = threading.Condition()
        self._closed = threading.Event()
        self._outage = Outage(f"the sink {name}", log)
        try:
            self._producer: Any = make_client(Producer, self._settings, self._outage)
        except ConfigurationError as error:
            raise ConfigurationError(f"the endpoint {name}: {error}") from error
        self._thread = threading.Thread(target=self._poll, name=f"kafka {name}", daemon=True)
        self._thread.start()

    @property
    def backoff_seconds(self) -> float:
        return self._backoff.spent

    def send(self, frames: Sequence[Frame], share: Share, size: float) -> None:
        """Hand frames to the client. Waits while its queue is full, which the pipeline's bound makes rare."""
        each = size / len(frames)
        with self._lock:
            self._outstanding += len(frames)
        for frame in frames:
            self._produce(frame, share, each)

    def _produce(self, frame: Frame, share: Share, size: float) -> None:
        try:
            value = frame.value()
        except Undecodable as error:
            self._settle(partial(self._delivery.refuse, share, frame, str(error), size))
            return
        while not self._closed.is_set():
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    frame.key,
                    headers=self._headers(frame),
                    timestamp=frame.timestamp,
                    on_delivery=partial(self._delivered, frame, share, size),
                )
                return
            except BufferError:
                self._producer.poll(_FULL_SECONDS)
            except KafkaException as error:
                self._outcome(error.args[0], frame, share, size)
                return

    def _headers(self, frame: Frame) -> list[tuple[str, bytes | None]]:
        headers = list(frame.headers)
        if not any(name == IDENTITY_HEADER for name, _ in headers):
            headers.append((IDENTITY_HEADER, identity_of(frame, self._end)))
        return headers

    def _delivered(self, frame: Frame, share: Share, size: float, error: KafkaError | None, message: Any) -> None:
        if error is None:
            if self.trouble is not None:
                self._works()
            self._settle(partial(self._delivery.confirm, share, 1, size))
        else:
            self._outcome(error, frame, share, size)

    def _outcome(self, error: KafkaError, frame: Frame, share: Share, size: float) -> None:
        if error.code() in _REFUSALS:
            self._settle(partial(self._delivery.refuse, share, frame, error.str(), size))
            return
        if self._closed.is_set():
            return  # unconfirmed: it comes again
        self.trouble = error.str()
        self._timer.after(self._backoff.fail(time.monotonic(), None), partial(self._produce, frame, share, size))

    def _settle(self, tell: Callable[[], None]) -> None:
        tell()
        with self._lock:
            self._outstanding -= 1
            if not self._outstanding:
                self._lock.notify_all()

    def _failed(self, error: KafkaError) -> None:
        self.trouble = error.str()
        self._outage.trouble(error.str())

    def _works(self) -> None:
        self.trouble = None
        self._backoff.succeed()
        self._outage.over()

    def _poll(self) -> None:
        due = 0.0
        while not self._closed.is_set():
            self._producer.poll(0.1)
            if self.trouble is not None and not self._outstanding and time.monotonic() >= due:
                self._ask()
                due = time.monotonic() + _ASK_SECONDS

    def _ask(self) -> None:
        """Whether it is over, though there is no message to show it."""
        try:
            found = self._producer.list_topics(self._topic, timeout=_ANSWER_SECONDS).topics[self._topic]
        except KafkaException:
            return
        if found.partitions and all(each.leader >= 0 for each in found.partitions.values()):
            self._works()

    def flush(self) -> None:
        """Nothing: the client sends by itself."""

    def close(self, deadline: float) -> bool:
        with self._lock:
            done = self._lock.wait_for(lambda: not self._outstanding, max(0.0, deadline - time.monotonic()))
        self._closed.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(0.5)
        return done
