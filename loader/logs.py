"""Logging as Cloud Logging reads it: one JSON document a line on stdout, or sent by its own client.

Fields given with `extra={...}` become fields of the document; passwords and tokens are taken out of every one."""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO
from urllib.parse import quote

import orjson

# The client of Cloud Logging, and what it is made of, must not log into itself: each line would cause the next.
SELF_LOGGING = ("google", "grpc", "urllib3", "requests")
LABELS = "logging.googleapis.com/labels"
SOURCE_LOCATION = "logging.googleapis.com/sourceLocation"
HIDDEN = "***"

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SEVERITIES = {"WARN": "WARNING", "FATAL": "CRITICAL", "NOTSET": "DEFAULT"}
_SECRETS = (
    # From the first colon of the user's part to the last @ of the word: a password may hold an @ itself.
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:/@?#]*:)\S*(?=@)"), rf"\1{HIDDEN}"),
    (
        re.compile(r"(?i)(password[\"']?\s*[=:]\s*)(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^\s,;&})]+)"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\bya29\.[A-Za-z0-9._-]+"), HIDDEN),
)


class Redaction:
    """Takes secrets out of texts: what looks like one, and the known ones wherever they stand."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: frozenset[str] = frozenset()
        self._known: re.Pattern[str] | None = None
        self._learning = threading.Lock()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Take these out as well, from the next text on, of any thread. What is known stays known: a line may still
        hold a password that was replaced."""
        # Shorter ones would take common words out of every line; the patterns see them where they stand.
        forms = {form for secret in secrets if len(secret) >= 6 for form in (secret, quote(secret, safe=""))}
        with self._learning:
            if forms <= self._forms:
                return
            self._forms |= forms
            self._known = re.compile("|".join(map(re.escape, sorted(self._forms, key=len, reverse=True))))

    def text(self, text: str) -> str:
        """The text with each secret replaced by `***`."""
        known = self._known
        if known is not None:
            text = known.sub(HIDDEN, text)
        for pattern, replacement in _SECRETS:
            text = pattern.sub(replacement, text)
        return text

    def value(self, value: Any) -> Any:
        """The same for the texts within lists and mappings; what JSON has no type for becomes text."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(item) for item in value]
        return self.text(str(value))


def _document(record: logging.LogRecord, redaction: Redaction) -> dict[str, Any]:
    document: dict[str, Any] = {
        redaction.text(key): redaction.value(value)
        for key, value in vars(record).items()
        if key not in _STANDARD and not key.startswith("_") and key != "labels"
    }
    document["logger"] = record.name
    if record.exc_info and record.exc_info[0] is not None:
        document["exception"] = redaction.text("".join(traceback.format_exception(*record.exc_info)).rstrip())
    if record.stack_info:
        document["stack"] = redaction.text(record.stack_info)
    return document


class JsonFormatter(logging.Formatter):
    """One record as one line of Cloud Logging's structured format."""

    def __init__(self, redaction: Redaction | None = None, labels: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._redaction = redaction or Redaction()
        self._labels = dict(labels or {})

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "severity": _SEVERITIES.get(record.levelname, record.levelname),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "message": self._redaction.text(record.getMessage()),
        }
        labels = {**self._labels, **self._redaction.value(getattr(record, "labels", {}))}
        if labels:
            document[LABELS] = {key: str(value) for key, value in labels.items()}
        if record.levelno >= logging.WARNING:
            document[SOURCE_LOCATION] = {
                "file": record.pathname,
                "line": str(record.lineno),
                "function": record.funcName or "",
            }
        for key, value in _document(record, self._redaction).items():
            document.setdefault(key, value)
        try:
            return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS).decode()
        except (TypeError, ValueError):  # a lone surrogate, or an integer beyond 64 bit
            return orjson.dumps(_plain(document)).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def _of_the_client(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in SELF_LOGGING


def _cloud_record(record: logging.LogRecord, redaction: Redaction) -> logging.LogRecord:
    """The record in the terms of Cloud Logging's handler, redacted; a copy, for others must see it as it was."""
    copy = logging.makeLogRecord({key: value for key, value in vars(record).items() if key in _STANDARD})
    copy.msg, copy.args = redaction.text(record.getMessage()), ()
    copy.exc_info = copy.exc_text = copy.stack_info = None
    vars(copy)["json_fields"] = _document(record, redaction)
    labels = redaction.value(getattr(record, "labels", {}))
    if labels:
        vars(copy)["labels"] = {key: str(value) for key, value in labels.items()}
    return copy


def configure(
    level: str = "INFO",
    to: str = "stdout",
    *,
    stream: TextIO | None = None,
    labels: Mapping[str, str] | None = None,
    secrets: Iterable[str] | Redaction = (),
    cloud_client: Callable[[], Any] | None = None,
) -> Callable[[], None]:
    """Set up the root logger and return what flushes and closes it; call that before the interpreter ends.

    `to` is `stdout` (or the `stream` given, for commands whose stdout is their result) or `cloud`. `secrets` are kept
    out of every line; a Redaction may learn more of them later. `cloud_client` stands in for google-cloud-logging's
    client. Lines of the client's own libraries go to stderr in `cloud` mode."""
    redaction = secrets if isinstance(secrets, Redaction) else Redaction(secrets)
    root = logging.getLogger()
    previous, previous_level = root.handlers[:], root.level
    handlers: list[logging.Handler] = []
    cloud: logging.Handler | None = None
    if to == "cloud":
        cloud = _cloud_handler(redaction, labels, cloud_client)
        own = logging.StreamHandler(sys.stderr)
        own.addFilter(_of_the_client)
        own.setFormatter(JsonFormatter(redaction, labels))
        handlers += [cloud, own]
    else:
        handler = logging.StreamHandler(stream or sys.stdout)
        handler.setFormatter(JsonFormatter(redaction, labels))
        handlers.append(handler)
    root.handlers[:] = handlers
    root.setLevel(level)
    quiet = [logging.getLogger(name) for name in SELF_LOGGING]
    levels = [logger.level for logger in quiet]
    for logger in quiet:
        logger.setLevel(logging.WARNING)  # at DEBUG they print requests with their headers
    logging.captureWarnings(True)

    closed = False

    def close() -> None:
        nonlocal closed
        if closed:
            return
        closed = True
        # First out of the root logger, so that no line arrives at a handler that is closed.
        root.handlers[:] = previous
        root.setLevel(previous_level)
        for logger, former in zip(quiet, levels, strict=True):
            logger.setLevel(former)
        logging.captureWarnings(False)
        for handler in handlers:
            if handler is not cloud:
                # The cloud handler's flush waits without end for a sender that is stuck; its close sends what is
                # queued too, and waits for five seconds at most.
                handler.flush()
            handler.close()

    return close


def _cloud_handler(
    redaction: Redaction, labels: Mapping[str, str] | None, client: Callable[[], Any] | None
) -> logging.Handler:
    from google.cloud.logging_v2.handlers import CloudLoggingHandler

    class Handler(CloudLoggingHandler):
        # A filter that returns another record would do from Python 3.12 on.
        def handle(self, record: logging.LogRecord) -> bool:
            return not _of_the_client(record) and bool(super().handle(_cloud_record(record, redaction)))

    if client is None:
        from google.cloud.logging_v2 import Client

        client = Client
    handler: logging.Handler = Handler(client(), name="loader", labels=dict(labels or {}) or None)
    return handler
