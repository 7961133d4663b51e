"""One delivery that waits for its ack, and who holds it."""

from __future__ import annotations


class Stored:
    """A published message. Subscriptions, snapshots and topic logs share the one object."""

    __slots__ = ("field", "number", "ordering_key", "published", "size")

    def __init__(self, number: int, published: int, field: bytes, ordering_key: str) -> None:
        self.number = number
        """The message id as a number: in publish order."""
        self.published = published
        """Microseconds since the epoch."""
        self.field = field
        """The message with id and publish time, encoded as a field of a ReceivedMessage (protocol.py)."""
        self.size = len(field)
        self.ordering_key = ordering_key


class Consumer:
    """A stream, or one unary pull: its flow control and what it holds. A limit of 0 means none."""

    __slots__ = ("ack_deadline", "bytes", "max_bytes", "max_messages", "messages")

    def __init__(self, max_messages: int, max_bytes: int, ack_deadline: int) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.ack_deadline = ack_deadline
        """Microseconds."""
        self.messages = 0
        self.bytes = 0

    def room(self, limit: int) -> int:
        """How many messages may be sent now, at most `limit`."""
        if self.max_bytes and self.bytes >= self.max_bytes:
            return 0
        return min(limit, self.max_messages - self.messages) if self.max_messages else limit


class Batch:
    """Leases of one consumer that end at the same moment.

    Lets go of them once none is held, so that acked messages free their memory before the deadline."""

    __slots__ = ("consumer", "deadline", "leases", "live", "number")

    def __init__(self, deadline: int, number: int, consumer: Consumer) -> None:
        self.deadline = deadline
        self.number = number
        self.consumer = consumer
        self.live = 0
        self.leases: list[Lease] = []

    def __lt__(self, other: Batch) -> bool:
        return (self.deadline, self.number) < (other.deadline, other.number)

    def leave(self) -> None:
        """One lease of the batch ended or moved to another batch."""
        self.live -= 1
        if not self.live:
            self.leases = []


class Lease:
    """One delivery of one message to one consumer."""

    __slots__ = ("ack_id", "batch", "deliveries", "message")

    def __init__(self, message: Stored, ack_id: str, deliveries: int, batch: Batch) -> None:
        self.message = message
        self.ack_id = ack_id
        """16 hexadecimal digits (protocol.encode_received relies on the length)."""
        self.deliveries = deliveries
        self.batch = batch
