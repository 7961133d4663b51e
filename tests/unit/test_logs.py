from __future__ import annotations

import io
import json
import logging
from datetime import datetime

import pytest

from loader.logs import JsonFormatter, Redaction, configure

SECRET = "hun" + "ter-2!x"


@pytest.fixture
def lines():
    """Lines logged as JSON, parsed; the root logger is put back afterwards."""
    stream = io.StringIO()
    close = configure("DEBUG", stream=stream, labels={"worker": "w1"}, secrets=[SECRET])
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    close()


def test_a_line_has_the_fields_that_cloud_logging_reads(lines):
    logging.getLogger("loader.bundle").info("loaded %d rows", 3, extra={"rows": 3, "tables": ["a"], "labels": {"t": 1}})
    [line] = lines()
    assert (line["severity"], line["message"], line["rows"], line["tables"]) == ("INFO", "loaded 3 rows", 3, ["a"])
    assert line["logging.googleapis.com/labels"] == {"worker": "w1", "t": "1"}
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
    assert line["logger"] == "loader.bundle"


def test_an_exception_is_one_line_with_its_stack(lines):
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("loader").exception("failed")
    [line] = lines()
    assert line["severity"] == "ERROR"
    assert "Traceback" in line["exception"]
    assert "two\nlines" in line["exception"]
    assert line["logging.googleapis.com/sourceLocation"]["function"] == "test_an_exception_is_one_line_with_its_stack"


def test_an_extra_field_cannot_replace_the_message(lines):
    logging.getLogger("loader").warning("real", extra={"severity": "DEBUG", "time": "never"})
    [line] = lines()
    assert (line["severity"], line["message"]) == ("WARNING", "real")


@pytest.mark.parametrize("value", ["\ud800", 2**70, float("nan"), b"x", object, {"k": {1, 2}}, {1: "\udfff"}])
def test_whatever_a_value_is_the_line_is_written(lines, value):
    logging.getLogger("loader").info("odd", extra={"value": value})
    assert lines()[0]["message"] == "odd"


def test_a_known_secret_is_taken_out_wherever_it_stands(lines):
    logger = logging.getLogger("loader")
    logger.info("said %s", SECRET, extra={"a": [SECRET], SECRET: {"b": SECRET}, "labels": {"l": SECRET}})
    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("failed")
    assert SECRET not in json.dumps(lines())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("to postgresql://u:p@ss:w/rd%@host/db failed", "to postgresql://u:***@host/db failed"),
        ("to postgres+psycopg2://u:pw@h", "to postgres+psycopg2://u:***@h"),
        ("host=h password=pw user=u", "host=h password=*** user=u"),
        ("host=h password='p w\\'x' user=u", "host=h password=*** user=u"),
        ('{"password": "pw", "user": "u"}', '{"password": ***, "user": "u"}'),
        ("PGPASSWORD=pw", "PGPASSWORD=***"),
        ("DESTINATION__POSTGRES__CREDENTIALS__PASSWORD=pw", "DESTINATION__POSTGRES__CREDENTIALS__PASSWORD=***"),
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"),
        ("token ya29.a0Af_x-y", "token ***"),
        ("password authentication failed for user x", "password authentication failed for user x"),
        ("see https://example.com/a:b and user@host", "see https://example.com/a:b and user@host"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text, left):
    assert Redaction().text(text) == left


def test_what_is_learned_later_is_taken_out_too_and_what_was_known_stays_known():
    stream, redaction = io.StringIO(), Redaction(["old-" + SECRET])
    close = configure("INFO", stream=stream, secrets=redaction)
    try:
        redaction.learn([SECRET, "", "short"])
        logging.getLogger("loader").info("old-%s, new %s, short", SECRET, SECRET)
    finally:
        close()
    assert json.loads(stream.getvalue())["message"] == "***, new ***, short"


def test_the_libraries_of_the_client_keep_their_details_to_themselves(lines):
    logging.getLogger("urllib3.connectionpool").debug("GET /")
    logging.getLogger("google.auth").info("token")
    logging.getLogger("grpc").warning("seen")
    assert [line["message"] for line in lines()] == ["seen"]


def test_closing_puts_the_root_logger_back():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    close = configure("DEBUG", stream=io.StringIO())
    assert root.handlers != before[0]
    close()
    close()
    assert (root.handlers, root.level) == before


class FakeLogger:
    def __init__(self, entries):
        self.entries = entries

    def batch(self):
        return FakeBatch(self.entries)


class FakeBatch:
    def __init__(self, entries):
        self.all, self.entries = entries, []

    def log(self, message, **fields):
        self.entries.append((message, fields))

    def commit(self):
        self.all.extend(self.entries)
        self.entries.clear()


class FakeClient:
    project = "p"

    def __init__(self):
        self._handlers, self.entries = set(), []

    def logger(self, name, **_fields):
        return FakeLogger(self.entries)


@pytest.fixture
def cloud_client(monkeypatch):
    from google.cloud.logging_v2.handlers import handlers
    from google.cloud.logging_v2.resource import Resource

    # It would look for a metadata server.
    monkeypatch.setattr(handlers, "detect_resource", lambda project="": Resource(type="global", labels={}))
    return FakeClient()


def test_all_lines_reach_cloud_logging_before_the_close_returns(cloud_client, capsys):
    close = configure("DEBUG", "cloud", secrets=[SECRET], cloud_client=lambda: cloud_client)
    logger = logging.getLogger("loader.worker")
    for i in range(500):
        logger.info("line %d %s", i, SECRET, extra={"rows": i})
    logger.error("bad", exc_info=ValueError(SECRET))
    logging.getLogger("google.cloud.logging").error("self")
    logging.getLogger("grpc._channel").warning("self")
    close()
    payloads = [payload for payload, _fields in cloud_client.entries]
    assert len(payloads) == 501
    assert payloads[7] == {"message": "line 7 ***", "rows": 7, "logger": "loader.worker"}
    assert payloads[-1]["message"] == "bad"
    assert "ValueError: ***" in payloads[-1]["exception"]
    assert capsys.readouterr().err.count('"message":"self"') == 2


def test_the_record_itself_is_left_as_it_was():
    record = logging.makeLogRecord({"msg": "pass %s", "args": (SECRET,), "levelno": logging.INFO})
    JsonFormatter(Redaction([SECRET])).format(record)
    assert record.getMessage() == f"pass {SECRET}"
