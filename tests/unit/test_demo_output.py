from __future__ import annotations

import datetime
import io
from pathlib import Path

import pytest
from rich.console import Console

from loader.demo.ages import Ages
from loader.demo.demo import Outcome, Wish
from loader.demo.parts import Parts
from loader.demo.progress import Change, Dead, Progress
from loader.demo.publisher import Published
from loader.demo.report import as_document, print_report
from loader.demo.survey import Column, Letter, Survey, Table
from loader.demo.view import LiveView, PlainView

MOMENT = datetime.datetime(2026, 1, 5, 12, 30, 1, 250_000, tzinfo=datetime.UTC)
NEAR_HALF = pytest.approx(0.5, rel=0.01)
PARTS = Parts("the in-memory server", "PostgreSQL 18", "127.0.0.1:1", "postgresql://u:secret@h/d", "demo", "t", "s")


def console(**options):
    return Console(file=io.StringIO(), width=80, height=24, highlight=False, **options)


def progress():
    ages = Ages()
    ages.add(0.5, 97)
    return Progress(
        rows={"order_placed": 97, "order_placed__items": 180},
        events={"order_placed": 97},
        duplicates=1,
        dead_letters=2,
        changes=[
            Change("order_placed", "", "", False, "evt-000001", 15),
            Change("order_placed", "gift_note", "text", False, "evt-000050"),
            Change("order_placed", "battery__v_text", "text", True, "evt-000060"),
        ],
        dead=[Dead("evt-000009", "not JSON", "ends early at byte 58"), Dead("evt-000010", "not an object", "x" * 200)],
        ages={"order_placed": ages},
    )


def outcome(loaded=97, folder=None):
    columns = [
        Column("order_id", "bigint", False, False, ""),
        Column("placed_at", "timestamptz", False, False, ""),
        Column("a_name_that_is_long_" * 3, "varchar", False, False, ""),
        Column("gift_note", "varchar", True, False, "evt-000050"),
        Column("battery__v_text", "varchar", True, True, "evt-000060"),
    ]
    row = {column.name: "x" * 90 for column in columns} | {"order_id": 1_001, "placed_at": MOMENT, "gift_note": None}
    table = Table("order_placed", "", loaded, columns, [row])
    items = Table("order_placed__items", "order_placed", 180, [Column("sku", "varchar", False, False, "")], [])
    letters = [
        Letter("evt-000009", "not JSON", "ends early at byte 58", '{"type":"page\x1b[2J' + "y" * 300),
        Letter("evt-000010", "not an object", "the body is 1", "1"),
    ]
    found = Survey([table, items], letters, 1, 0)
    published = Published(messages=90, repeats=1, poison=2, links=10)
    parts = PARTS if folder is None else Parts(*list(vars(PARTS).values())[:7], folder, folder / "postgres")
    return Outcome(Wish(5, 20), parts, published, progress(), found, found.receipt(published), 0.5, 0.7, False)


def report(**options):
    screen = console()
    print_report(screen, outcome(**options))
    return screen.file.getvalue()


def test_the_report_keeps_within_80_columns():
    lines = report().splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "It balances: nothing lost, nothing doubled." in report()


def test_the_report_names_late_columns_variants_and_who_asked_for_them():
    text = report()
    assert "gift_note varchar ← new, evt-000050" in text
    assert "battery__v_text varchar ← variant, evt-000060" in text
    assert "rows 180, one for each element of a list in order_placed" in text


def test_a_null_looks_unlike_an_empty_text_and_a_moment_is_short():
    lines = report().splitlines()
    head = next(position for position, line in enumerate(lines) if line.lstrip().startswith("order_id  placed_at"))
    assert lines[head + 1].split()[:3] == ["1001", "12:30:01.250Z", "·"]


def test_control_characters_of_a_body_do_not_reach_the_terminal():
    assert "\x1b" not in report()
    assert "\\x1b[2J" in report()


def test_a_receipt_that_does_not_balance_is_told_with_the_number():
    assert "It does not balance: 2 published events are not accounted for." in report(loaded=95)


def test_kept_servers_are_told_with_how_to_use_and_stop_them():
    text = report(folder=Path("/tmp/kept"))
    assert "export LOADER_DATABASE_URL=postgresql://u:secret@h/d" in text
    assert "loader local down --dir /tmp/kept" in text
    assert "keeps its data in /tmp/kept/postgres" in text


def test_without_keep_no_address_is_told_to_people_or_programs():
    assert "secret" not in report()
    assert "secret" not in str(as_document(outcome()))


def test_the_document_has_what_the_help_promises():
    document = as_document(outcome(folder=Path("/tmp/kept")))
    assert document["receipt"]["balanced"] is True
    assert document["tables"][1]["parent"] == "order_placed"
    assert document["ages"]["order_placed"] == {"events": 97, "p50": NEAR_HALF, "p99": NEAR_HALF}
    assert document["kept"]["environment"]["LOADER_DATASET"] == "demo"


def test_plain_lines_tell_each_change_and_letter_once():
    screen = console()
    view = PlainView(screen)
    view.begin(Wish(5, 20))
    for second in (0.5, 1.0, 1.25, 2.1):
        view.show(Published(messages=100), progress(), second, True)
    view.end()
    text = screen.file.getvalue()
    assert text.count("+ column order_placed.gift_note text  (evt-000050)") == 1
    assert text.count("! dead letter evt-000009: ends early at byte 58") == 1
    assert text.count("published 100  loaded 97  age p50 0.50 s") == 2  # at 1.0 and 2.1 seconds
    assert "\x1b" not in text


def test_the_live_picture_fits_on_a_terminal_of_80_by_24():
    screen = console(force_terminal=True, color_system=None)
    view = LiveView(screen)
    view.begin(Wish(5, 20))
    many = progress()
    many.events |= {f"table_{number}": 1 for number in range(4)}
    many.changes *= 10
    with screen.capture() as captured:
        screen.print(view._draw(Published(messages=100, repeats=1), many, 3.0, True))
    view.end()
    lines = captured.get().splitlines()
    assert len(lines) <= 23
    assert max(len(line) for line in lines) <= 80
    assert any("publishing" in line for line in lines)
