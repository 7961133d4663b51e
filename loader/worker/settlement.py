"""Which messages may be acked: those whose every event is stored, is a duplicate, a dead letter or discarded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from loader.message.message import Event, Message


class Settlement:
    """Acks messages as their events are settled. Thread-safe: two lanes settle, one subscription is acked."""

    def __init__(self, ack: Callable[[Sequence[Message]], None], nack: Callable[[Sequence[Message]], None]) -> None:
        self._ack = ack
        self._nack = nack
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}
        """ack id → events not settled yet, of messages with several events only."""
        self._returned: set[str] = set()
        """Those of them that were given back: never to be acked, whatever becomes of their other events."""

    def expect(self, message: Message, events: int) -> None:
        """Note that a message has several events, which may be settled by different loads."""
        with self._lock:
            self._open[message.ack_id] = events

    def settle(self, events: Iterable[Event]) -> None:
        """These events need no further care."""
        self.settle_messages([event.message for event in events])

    def settle_messages(self, messages: Sequence[Message]) -> None:
        """Each message once for each of its events that is settled."""
        if not messages:
            return
        with self._lock:
            if self._open:
                messages = [message for message in messages if self._last(message)]
            if messages:
                self._ack(messages)

    def give_back(self, messages: Iterable[Message]) -> None:
        """Nack messages whose events were not all stored; what was stored is recognised when it comes again.

        As `settle_messages`, each message once for each of its events that is given up. One whose other events are
        stored later must not be acked by that: the event that was given up would be lost.
        """
        with self._lock:
            distinct: dict[str, Message] = {}
            for message in messages:
                if message.ack_id not in self._returned:
                    distinct[message.ack_id] = message
                if message.ack_id in self._open:
                    self._returned.add(message.ack_id)
                    self._last(message)
            if distinct:
                self._nack(list(distinct.values()))

    def _last(self, message: Message) -> bool:
        left = self._open.get(message.ack_id)
        if left is None:
            return True
        if left > 1:
            self._open[message.ack_id] = left - 1
            return False
        del self._open[message.ack_id]
        if message.ack_id in self._returned:
            self._returned.discard(message.ack_id)
            return False
        return True
