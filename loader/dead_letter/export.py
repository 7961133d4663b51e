"""Exports dead letters to a Pub/Sub topic, at least once. The table stays the record; the topic tells of it.

A letter is committed first and published afterwards, so a crash in between leaves it unexported, and the next worker
publishes it. Letters are claimed in a short transaction and published with no transaction open: a load that resolves
a letter never waits for Pub/Sub. A claim whose worker died runs out."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import grpc
import psycopg
from psycopg import sql

from loader.pull import protocol as pb
from loader.pull.channel import Stub, fault

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
_CLAIM_SECONDS = 120
_CLAIM_LETTERS = 100
_REQUEST_BYTES = 8_000_000
_LARGEST_BODY = 9_000_000
# https://cloud.google.com/pubsub/quotas#resource_limits: attributes a message, bytes of a key and of a value.
_MOST_ATTRIBUTES = 100
_LONGEST_KEY = 256
_LONGEST_VALUE = 1024
_PREFIX = "original."

_CLAIM = """
update {table} set export_claimed_until = now() + make_interval(secs => %s)
where letter_id in (
    select letter_id from {table}
    where exported_at is null and resolved_at is null
        and (export_claimed_until is null or export_claimed_until < now())
    order by created_at limit %s for update skip locked)
returning letter_id, _event_id, reason, detail, sqlstate, table_name, column_name, message_id, published_at,
    attributes, body_encoding, case when octet_length(body) <= %s then body end, octet_length(body), is_record,
    _event_digest
"""
_DONE = """
update {table} set exported_at = now(), export_claimed_until = null
where letter_id in (select letter_id from {table} where letter_id = any(%s) order by letter_id for update)
"""
_RELEASE = """
update {table} set export_claimed_until = null
where letter_id in (select letter_id from {table} where letter_id = any(%s) order by letter_id for update)
"""


class Connector(Protocol):
    """Opens connections; loader/database/connection.py has the real one."""

    def connect(self, application_name: str, *, autocommit: bool = False) -> psycopg.Connection[Any]: ...


class Exporter:
    """Publishes the letters of one dataset that were not published yet. For one thread."""

    def __init__(self, dataset: str, topic: str, stub: Stub) -> None:
        table = sql.Identifier(dataset, "_dead_letters")
        self._claim = sql.SQL(_CLAIM).format(table=table)
        self._done = sql.SQL(_DONE).format(table=table)
        self._release = sql.SQL(_RELEASE).format(table=table)
        self._topic = topic
        self._stub = stub

    def export(self, conn: psycopg.Connection[Any]) -> int:
        """Publish all open letters that are not exported and that no other worker is at; returns how many.

        `conn` is in autocommit mode. Raises grpc.RpcError or psycopg.Error; what was not marked comes again.
        """
        exported = 0
        while True:
            rows = conn.execute(self._claim, (_CLAIM_SECONDS, _CLAIM_LETTERS, _LARGEST_BODY * 4 // 3)).fetchall()
            if not rows:
                return exported
            try:
                exported += self._publish_all(conn, rows)
            except grpc.RpcError:
                # Free for the next try at once, here or elsewhere; if this fails too the claim runs out.
                conn.execute(self._release, ([row[0] for row in rows],))
                raise

    def _publish_all(self, conn: psycopg.Connection[Any], rows: Sequence[tuple[Any, ...]]) -> int:
        for chunk in _chunks((row[0], message_of_row(row)) for row in rows):
            self._publish(chunk)
            conn.execute(self._done, ([letter_id for letter_id, _ in chunk],))
        return len(rows)

    def _publish(self, chunk: Sequence[tuple[str, Any]]) -> None:
        request = pb.PublishRequest(topic=self._topic, messages=[message for _, message in chunk])
        try:
            self._stub.publish(request)
        except grpc.RpcError as error:
            code, details = fault(error)
            if code is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            if len(chunk) > 1:
                for pair in chunk:
                    self._publish([pair])
                return
            # Refused as it is, it would stand in the way of all others for ever: told without what Pub/Sub refuses.
            letter_id, message = chunk[0]
            if not message.data and not any(name.startswith(_PREFIX) for name in message.attributes):
                raise
            log.warning("dead letter %s is exported without its body: %s", letter_id, details)
            bare = {name: value for name, value in message.attributes.items() if not name.startswith(_PREFIX)}
            bare["body_omitted"] = "Pub/Sub refuses it"
            self._publish([(letter_id, pb.PubsubMessage(attributes=bare))])


class ExportThread:
    """Exports beside the loads, in a thread of its own: an outage of the topic never holds up a load."""

    def __init__(self, connector: Connector, exporter: Exporter, poll_seconds: float = POLL_SECONDS) -> None:
        self._connector = connector
        self._exporter = exporter
        self._poll_seconds = poll_seconds
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="export", daemon=True)
        self.exported = 0
        self.alert: str | None = None
        """Why letters cannot be exported; None when all is well."""

    def start(self) -> None:
        """Begin; letters that earlier workers left are exported first."""
        self._wake.set()
        self._thread.start()

    def notify(self) -> None:
        """Letters were committed."""
        self._wake.set()

    def stop(self, seconds: float) -> None:
        """End within `seconds`; what is not exported by then, the next worker exports."""
        self._stop.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        conn: psycopg.Connection[Any] | None = None
        try:
            while not self._stop.is_set():
                self._wake.wait(self._poll_seconds)
                self._wake.clear()
                try:
                    if conn is None or conn.closed or conn.broken:
                        conn = self._connector.connect("loader export", autocommit=True)
                    self.exported += self._exporter.export(conn)
                    self.alert = None
                except (grpc.RpcError, psycopg.Error) as error:
                    self._failed(error)
        finally:
            if conn is not None:
                conn.close()

    def _failed(self, error: grpc.RpcError | psycopg.Error) -> None:
        text = " ".join(": ".join(map(str, fault(error))).split()) if isinstance(error, grpc.RpcError) else str(error)
        if self.alert is None:
            log.error("dead letters cannot be exported; tried again every %g s: %s", self._poll_seconds, text)
        self.alert = text
        self._stop.wait(1.0)


def message_of_row(row: tuple[Any, ...]) -> Any:
    """The Pub/Sub message of a claimed row: the body as data, what is known about it as attributes."""
    (letter_id, event_id, reason, detail, sqlstate, table, column, message_id, published_at, attributes) = row[:10]
    encoding, body, length, is_record, digest = row[10:]
    ours = {
        "letter_id": letter_id,
        "event_id": event_id,
        "reason": reason,
        "detail": detail,
        "sqlstate": sqlstate,
        "table": table,
        "column": column,
        "message_id": message_id,
        "published_at": published_at.isoformat(),
        "is_record": "true" if is_record else "false",
        # Of an array's element only that is here: a replay from the topic could not work the digest out.
        "event_digest": str(digest),
    }
    data = b""
    if body is not None:
        data = base64.b64decode(body) if encoding == "base64" else body.encode()
    if body is None or len(data) > _LARGEST_BODY:
        ours["body_omitted"] = f"{length} bytes are more than a message takes: loader dead-letters show {letter_id}"
        data = b""
    kept = {name: _cut(value) for name, value in ours.items() if value}
    omitted = 0
    for name, value in (attributes if isinstance(attributes, dict) else json.loads(attributes)).items():
        key = _PREFIX + name
        fits = len(key.encode()) <= _LONGEST_KEY and len(value.encode()) <= _LONGEST_VALUE
        if fits and len(kept) < _MOST_ATTRIBUTES - 1:
            kept[key] = value
        else:
            omitted += 1
    if omitted:
        kept["attributes_omitted"] = str(omitted)
    return pb.PubsubMessage(data=data, attributes=kept)


def _cut(text: str) -> str:
    data = text.encode()
    return text if len(data) <= _LONGEST_VALUE else data[:_LONGEST_VALUE].decode(errors="ignore")


def _chunks(pairs: Iterable[tuple[str, Any]]) -> Iterable[list[tuple[str, Any]]]:
    chunk: list[tuple[str, Any]] = []
    size = 0
    for letter_id, message in pairs:
        length = message.ByteSize() + 16
        if chunk and size + length > _REQUEST_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append((letter_id, message))
        size += length
    if chunk:
        yield chunk


def make_export_thread(
    connector: Connector, dataset: str, topic: str, open_channel: Callable[[], grpc.Channel]
) -> ExportThread:
    """The export of a dataset to LOADER_DEAD_LETTER_TOPIC; `start` it after a fork, never before."""
    return ExportThread(connector, Exporter(dataset, topic, Stub(open_channel())))
