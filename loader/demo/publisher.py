"""Publishes the samples at an even pace in a thread, and counts what the service confirmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import grpc

from loader.demo.events import ROUTED, Sample
from loader.errors import LoaderError
from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault

_REQUESTS_A_SECOND = 20
_MOST_A_REQUEST = 1_000
_RETRY_SECONDS = 30.0
_RETRIED = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "RESOURCE_EXHAUSTED"})


@dataclass(slots=True)
class Published:
    """What the publisher sent: one side of the receipt."""

    messages: int = 0
    repeats: int = 0
    """Of the messages: sent a second time under the same event id, on purpose."""
    poison: int = 0
    """Of the messages: broken on purpose."""
    bytes: int = 0
    seconds: float = 0.0
    links: int = 0
    """Road links that vehicles sent by Kafka beside the messages; each is a message behind the bridge."""

    @property
    def total(self) -> int:
        """Messages that are to arrive."""
        return self.messages + self.links


class Publishing(threading.Thread):
    """Publishes until the samples end or `stop` is set. `fault` is why it ended early, None when all is well.

    A message whose answer is lost is sent again under the same event id: if it is there twice then, one is recognised
    as a duplicate."""

    def __init__(
        self,
        stub: Stub,
        topic: str,
        samples: Iterator[Sample],
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        route: Callable[[Sequence[Sample]], None] | None = None,
    ) -> None:
        super().__init__(name="publish", daemon=True)
        self.published = Published()
        self.fault: BaseException | None = None
        self._stub = stub
        self._topic = topic
        self._samples = samples
        self._rate = rate
        self._clock = clock
        self._route = route
        self._ending = threading.Event()

    def stop(self) -> None:
        """Ends it after the request that is on its way."""
        self._ending.set()

    def run(self) -> None:
        """The thread's work."""
        try:
            self._publish()
        except BaseException as error:  # shown and raised by whoever watches the thread
            self.fault = error

    def _publish(self) -> None:
        size = max(1, min(_MOST_A_REQUEST, int(self._rate / _REQUESTS_A_SECOND)))
        started = self._clock()
        sent = 0
        batch: list[Sample] = []
        for sample in self._samples:
            batch.append(sample)
            if len(batch) < size:
                continue
            # By the whole distance since the start: a slow request is caught up with.
            if self._ending.wait(max(0.0, started + sent / self._rate - self._clock())):
                return
            self._send(batch)
            sent += len(batch)
            batch = []
            self.published.seconds = self._clock() - started
        if batch and not self._ending.is_set():
            self._send(batch)
        self.published.seconds = self._clock() - started

    def _send(self, batch: list[Sample]) -> None:
        direct = batch
        if self._route is not None:
            routed = [one for one in batch if one.type == ROUTED and one.kind == "event"]
            direct = [one for one in batch if one.type != ROUTED or one.kind != "event"]
            self._route(routed)
        if direct:
            self._request(direct)
        published = self.published
        published.messages += len(batch)
        published.repeats += sum(one.kind == "repeat" for one in batch)
        published.poison += sum(one.kind == "poison" for one in batch)
        published.bytes += sum(len(one.body) for one in batch)

    def _request(self, batch: list[Sample]) -> None:
        messages = [pb.PubsubMessage(data=one.body, attributes={"event_id": one.event_id}) for one in batch]
        request = pb.PublishRequest(topic=self._topic, messages=messages)
        deadline = self._clock() + _RETRY_SECONDS
        while True:
            try:
                self._stub.publish(request)
                break
            except grpc.RpcError as error:
                code, detail = fault(error)
                if code.name not in _RETRIED or self._clock() > deadline or self._ending.wait(0.2):
                    raise LoaderError(f"Publishing to {self._topic} failed: {code.name} {detail[:200]}") from error
