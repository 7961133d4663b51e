"""What must hold for any message whatever: understood or refused by name, and then stored without loss or change.

Nothing here needs a server. `check_message` looks at decoding, `check_rows` at the whole way from messages to the
lines of COPY."""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from psycopg._copy_base import TextFormatter
from psycopg.adapt import Transformer

from loader.dead_letter.letter import Letter
from loader.learn.preview import Preview, empty_ground
from loader.message.decode import Decoder, DecodeRules
from loader.message.message import Event, Message, Refused
from loader.plan import names
from loader.plan.book import Book, PlanRules, Table
from loader.plan.fit import Rows
from loader.plan.fitting import Fitted, fit_events
from loader.settings.contract import SchemaContract
from loader.worker.intake import Intake
from loader.worker.learning import _LESSONS

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "integration" / "core"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from copy_text import parse_row  # noqa: E402
from json_oracle import Reading, cleaned, read  # noqa: E402
from leaves import _alike, _cell, sent  # noqa: E402

REASONS = {
    "not JSON", "not UTF-8", "empty body", "not an object", "number too long", "too deep", "too many keys",
    "too many elements", "body too large", "bad gzip", "bad CloudEvent",
}  # fmt: skip
PUBLISHED = 1_764_504_000_000_000
OWN = {
    names.DLT_ID, names.DLT_LOAD_ID, names.DLT_PARENT_ID, names.DLT_LIST_IDX, names.EVENT_ID, names.EVENT_DIGEST,
    names.PUBLISHED_AT, names.ATTRIBUTES, names.RAW, names.WANTED_TABLE,
}  # fmt: skip
LOAD_ID = "1764504000.1234567"
_REPAIRED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|\x1f\x8b")


def message(attributes: Mapping[str, str], body: bytes, number: int = 0) -> Message:
    """A delivery; `number` makes it another message."""
    return Message(f"ack{number}", f"{10_000 + number}", body, attributes, PUBLISHED + number, 0)


# --- decoding -----------------------------------------------------------------------------------------------------


def check_message(attributes: Mapping[str, str], body: bytes, rules: DecodeRules) -> list[Event]:
    """Decode one message and judge the outcome by another parser; its events, none when it was refused."""
    decoder = Decoder(rules)
    delivery = message(attributes, body)
    before = dict(attributes)
    events = _decoded(decoder, delivery, exactly=False)
    exact = _decoded(decoder, delivery, exactly=True)
    assert _same(events, _decoded(Decoder(rules), delivery, exactly=False)), "the same message gave other events"
    assert attributes == before, "decoding changed the message"
    reading = _reading(decoder, delivery)
    if isinstance(events, Refused):
        assert isinstance(exact, Refused), f"refused ({events}), but not when it is read exactly"
        assert exact.reason == events.reason, f"refused with two reasons: {events} and {exact}"
        _check_refusal(decoder, delivery, events, reading)
        return []
    assert isinstance(exact, list), f"understood, but refused when it is read exactly: {exact}"
    assert [event[:4] for event in events] == [event[:4] for event in exact]
    assert len({event.identity for event in events}) == len(events)
    _check_sizes(rules, delivery, events, reading)
    if reading is not None and reading.value is not None and not _is_binary(delivery):
        records = reading.value if type(reading.value) is list else [reading.value]
        assert sent(_records(exact)) == sent(cleaned(records)), "a value was lost or changed by decoding"
    for event in (*events, *exact):
        _check_texts(event.record)
        assert event.table, "no table"
        assert len(event.table.encode()) <= names.MAX_IDENTIFIER
        assert not event.table.startswith("_")
        assert "__" not in event.table
    return events


def _decoded(decoder: Decoder, delivery: Message, exactly: bool) -> list[Event] | Refused:
    try:
        return decoder.decode_exactly(delivery) if exactly else decoder.decode(delivery)
    except Refused as refused:
        return refused


def _same(first: list[Event] | Refused, second: list[Event] | Refused) -> bool:
    if isinstance(first, Refused) or isinstance(second, Refused):
        return str(first) == str(second)
    return first == second


def _is_gzip(attributes: Mapping[str, str]) -> bool:
    encoding = attributes.get("content-encoding") or attributes.get("Content-Encoding") or ""
    return encoding.strip().lower() in ("gzip", "x-gzip")


def _content_type(delivery: Message) -> str:
    attributes = delivery.attributes
    return (attributes.get("content-type") or attributes.get("Content-Type") or "").lower()


def _is_cloudevent(delivery: Message) -> bool:
    return _is_binary(delivery) or _content_type(delivery).startswith("application/cloudevents")


def _is_binary(delivery: Message) -> bool:
    required = ("ce-specversion", "ce-id", "ce-source", "ce-type")
    return not _content_type(delivery).startswith("application/cloudevents") and all(
        delivery.attributes.get(name) for name in required
    )


def _reading(decoder: Decoder, delivery: Message) -> Reading | None:
    """The body by another parser; None when it cannot be inflated."""
    if not _is_gzip(delivery.attributes) or not delivery.data:
        return read(delivery.data)
    try:
        return read(gzip.decompress(delivery.data))
    except (OSError, EOFError, zlib.error):
        return None


def _check_refusal(decoder: Decoder, delivery: Message, refused: Refused, reading: Reading | None) -> None:
    assert refused.reason in REASONS, f"a reason that is not documented: {refused.reason!r}"
    assert refused.detail.strip(), "refused without saying what was wrong"
    letter = Intake(decoder, lambda each, events: None).letter(delivery, refused)
    _check_letter(letter, delivery)
    if reading is None or reading.why or refused.reason == "body too large":
        return
    # It is JSON: then it is refused for its size, for what it is, or as a CloudEvent.
    rules = decoder.rules
    if refused.reason == "not an object":
        assert type(reading.value) is not dict
        if type(reading.value) is list:
            assert not reading.value or not all(type(item) is dict for item in reading.value)
    elif refused.reason == "bad CloudEvent":
        assert _is_cloudevent(delivery)
    elif refused.reason == "bad gzip":
        # gzip.decompress passes over zeros after the data, which we do not.
        assert _is_gzip(delivery.attributes)
    else:
        assert reading.exceeds(rules.max_keys, rules.max_array_elements), (
            f"JSON within all limits is refused: {refused}"
        )


def _check_letter(letter: Letter, delivery: Message) -> None:
    texts = [letter.letter_id, letter.event_id, letter.reason, letter.detail, letter.body]
    assert all("\0" not in text and text.encode() is not None for text in texts), "a letter that no column takes"
    if letter.body_encoding == "text":
        assert letter.body.encode() == delivery.data, "a dead letter is not the message"


def _check_sizes(rules: DecodeRules, delivery: Message, events: list[Event], reading: Reading | None) -> None:
    assert len(delivery.data) <= rules.max_message_bytes or _is_gzip(delivery.attributes)
    if reading is None or _is_binary(delivery):
        return
    assert not reading.why, f"what is not JSON ({reading.why}) was understood"
    keys = elements = 0
    level: list[Any] = [event.record for event in events]
    depth = 0
    while level:
        depth += 1
        deeper: list[Any] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                deeper += [each for each in item.values() if type(each) in (dict, list)]
            else:
                elements += len(item)
                assert len(item) <= rules.max_array_elements
                deeper += [each for each in item if type(each) in (dict, list)]
        level = deeper
    assert keys <= rules.max_keys
    assert elements <= 10 * rules.max_array_elements
    assert depth <= 200
    assert len(events) <= rules.max_array_elements or type(reading.value) is dict


def _records(events: Iterable[Event]) -> list[dict[str, Any]]:
    return [event.record for event in events if event.record is not None]


def _check_texts(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if type(item) is str:
            assert "\0" not in item
            item.encode()  # no lone surrogate
        elif type(item) is dict:
            stack += [*item.keys(), *item.values()]
        elif type(item) is list:
            stack += item


# --- rows ---------------------------------------------------------------------------------------------------------


def check_rows(
    messages: Sequence[Message], decode: DecodeRules, plan: PlanRules, split: int | None = None
) -> dict[str, Table]:
    """Learn what the messages need (in two lessons when `split` says where), fit them and look at every row."""
    if plan.keep_raw:  # `_raw` is the body, and that of a CloudEvent in binary mode is not the event
        messages = [each for each in messages if not _is_binary(each)]
    intake = Intake(
        Decoder(decode), lambda each, events: None, keep_attributes=plan.keep_attributes, keep_raw=plan.keep_raw
    )
    events = list(intake.events(messages))
    lessons = [events] if split is None else [events[:split], events[split:]]
    preview = Preview(empty_ground(), "d", plan, SchemaContract())
    for lesson in lessons:
        _study(preview, lesson, intake)
    tables = preview.tables
    fitted = fit_events(Book(tables, plan), events, LOAD_ID, intake.source)
    for _ in range(_LESSONS - 1):
        # What an event asks for may show only once the columns of others are there: a worker learns again, too.
        if fitted.misfits:
            _study(preview, fitted.misfits, intake)
            fitted = fit_events(Book(tables, plan), events, LOAD_ID, intake.source)
    _check_tables(tables, plan)
    book = Book(tables, plan)
    assert fitted.refused == [], "an event was refused by fitting"
    assert fitted.misfits == [], "an event that was learned does not fit"
    assert fitted.discarded_values == 0
    assert len(fitted.events) + len(fitted.duplicates) + len(fitted.reused) == len(events)
    exact = [record for each in messages for record in _exact(intake, each, fitted)]
    rows = _rows(fitted)
    _check_keys(fitted.tables)
    stored = _check_copy(fitted.tables, exact if plan.keep_raw else None, messages)
    wanted = _numbers(sent(exact))
    assert (wanted - stored, stored - wanted) == (Counter(), Counter()), "(missing, extra) values in the rows"
    # Alone or among others, an event has the same rows.
    alone: dict[str, list[list[Any]]] = {}
    for event in events:
        if any(event.identity == kept.identity and event.message is kept.message for kept in fitted.events):
            for name, some in _rows(fit_events(Book(tables, plan), [event], LOAD_ID, intake.source)).items():
                alone.setdefault(name, []).extend(some)
    assert _sorted(alone) == _sorted(rows), "events in one bundle have other rows than alone"
    # The same book again: what is remembered of keys and shapes must not change a row. And a book that knows nothing.
    for again in (book, book, Book(tables, plan)):
        assert _rows(fit_events(again, events, LOAD_ID, intake.source)) == rows, "the same events gave other rows"
    return tables


def _study(preview: Preview, events: Sequence[Event], intake: Intake) -> None:
    stopped = preview.study(events, intake.source, {})
    assert stopped == [], f"the default contract stops an event: {stopped}"


def _exact(intake: Intake, delivery: Message, fitted: Fitted) -> list[dict[str, Any]]:
    """The exact records of a message that became rows."""
    stored = {event.identity for event in fitted.events if event.message is delivery}
    try:
        events = intake.decoder.decode_exactly(delivery)
    except Refused:
        return []
    return [event.record for event in events if event.identity in stored and event.record is not None]


def _rows(fitted: Fitted) -> dict[str, list[list[Any]]]:
    return {name: rows.rows for name, rows in fitted.tables.items() if rows.rows}


def _sorted(tables: Mapping[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


def _numbers(leaves: Counter[str]) -> Counter[str]:
    """Integers of thousands of digits stand in text columns as texts."""
    found: Counter[str] = Counter()
    for leaf, count in leaves.items():
        kind, _, value = leaf.partition(" ")
        digits = kind == "text" and 4_000 <= len(value) <= 4_301 and value.removeprefix("-").isdigit()
        found[f"number {value}" if digits else leaf] += count
    return found


def _check_tables(tables: Mapping[str, Table], plan: PlanRules) -> None:
    # The default table may be made beyond the limit: it takes what is left over.
    assert len(tables) <= plan.max_tables + 1, f"{len(tables)} tables, of {plan.max_tables}"
    for name, table in tables.items():
        assert len(name.encode()) <= names.MAX_IDENTIFIER
        payload = [column for column in table.columns if column not in OWN | {names.OVERFLOW}]
        assert len(payload) <= plan.max_columns, f"{len(payload)} columns of {name}, of {plan.max_columns}"
        for column in table.columns:
            assert len(column.encode()) <= names.MAX_IDENTIFIER
            assert column not in ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid")


def _check_keys(tables: Mapping[str, Rows]) -> None:
    ids: set[str] = set()
    for name, rows in tables.items():
        here = [row[0] for row in rows.rows]
        assert len(set(here)) == len(here), f"two rows of {name} have one _dlt_id"
        ids.update(here)
    for name, rows in tables.items():
        if rows.plan.path[1:]:
            assert all(row[1] in ids for row in rows.rows), f"a row of {name} has no parent"


def _check_copy(
    tables: Mapping[str, Rows], raw: list[dict[str, Any]] | None, messages: Sequence[Message]
) -> Counter[str]:
    """Encode every row as COPY does, read it back, and count the leaves of what is there."""
    found: Counter[str] = Counter()
    kept: list[Any] = []
    for rows in tables.values():
        columns = rows.plan.columns
        for row in rows.rows:
            assert len(row) == len(columns)
            formatter = TextFormatter(Transformer())
            line = bytes(formatter.write_row(row)) + bytes(formatter.end())
            fields = parse_row(line)
            assert len(fields) == len(row), "a stray tab"
            for name, value, text in zip(columns, row, fields, strict=True):
                assert _text(value) == text, f"column {name} gives back {text!r} for {value!r}"
                if text is None:
                    continue
                if name == names.RAW:
                    kept.append(json.loads(text))
                if name in OWN:
                    continue
                kind = rows.plan.table.columns[name].kind.data_type
                found.update(map(_alike, _cell(*_as_postgres(kind, text))))
    if raw is not None:
        missing, extra = sent(raw) - sent(kept), sent(kept) - sent(raw)
        assert not extra, "_raw holds what the event does not"
        # Of keys that only U+0000 or a lone surrogate tells apart, jsonb keeps one.
        assert not missing or any(_REPAIRED.search(each.data) for each in messages), "_raw is not the event"
    return _numbers(found)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if value.__class__ is bool:
        return "t" if value else "f"
    return repr(value) if value.__class__ is float else str(value)


def _as_postgres(data_type: str, text: str) -> tuple[str, str]:
    """Type and text as Postgres would give them back for what was sent."""
    if data_type == "bool":
        return "boolean", {"t": "true", "f": "false"}[text]
    if data_type == "timestamp":
        return "text", text  # an instant of any spelling: compared as the instant that it is
    return {"text": "text", "bigint": "bigint", "double": "double precision", "json": "jsonb"}[data_type], text
