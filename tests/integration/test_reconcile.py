from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from status_harness import Dataset, message

from loader.reconcile.expected import compare_expected
from loader.reconcile.layout import read_layout
from loader.reconcile.offsets import find_gaps
from loader.reconcile.receipts import compare_receipts
from loader.reconcile.topic import compare_topic

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def dataset(database_url):
    found = Dataset(database_url)
    yield found
    found.conn.close()


def receipts(dataset, since=""):
    return compare_receipts(dataset.conn, read_layout(dataset.conn, "events"), since)


def order(number, **fields):
    return message(number, {"type": "order", "n": number, "items": [{"s": [1, 2]}, {"s": [3]}], **fields})


def test_one_row_deleted_behind_its_back_is_named_and_ends_with_1(dataset):
    dataset.load(*[order(number) for number in range(1, 6)])
    dataset.load(order(6))
    done = dataset.loader("reconcile", "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True), done.stderr
    load_id = dataset.rows('delete from events."order" where n = 3 returning _dlt_load_id')[0][0]
    done = dataset.loader("reconcile")
    assert done.returncode == 1
    assert f"load {load_id}, table order" in done.stdout
    # Its items are there still, and hang on no row any more.
    gaps = {gap.subject: (gap.expected, gap.found, gap.detail) for gap in receipts(dataset).gaps}
    assert gaps == {
        f"load {load_id}, table order": (5, 4, "1 row missing"),
        f"load {load_id}, table order__items": (10, 8, "2 rows without their parent"),
        f"load {load_id}, table order__items__s": (15, 12, "3 rows without their parent"),
    }
    dataset.conn.execute(
        "delete from events.order__items__s where value = 3 and _dlt_parent_id in"
        " (select i._dlt_id from events.order__items i join events.order o on o._dlt_id = i._dlt_parent_id where n = 1)"
    )
    details = {gap.subject: gap.detail for gap in receipts(dataset).gaps}
    assert details[f"load {load_id}, table order__items__s"] == (
        "4 rows missing or without parent (3 in the table are without one)"
    )


def test_a_child_row_alone_is_missed_and_a_row_too_many_is_seen(dataset):
    dataset.load(order(1))
    dataset.conn.execute("delete from events.order__items__s where value = 3")
    assert [(gap.expected, gap.found) for gap in receipts(dataset).gaps] == [(3, 2)]
    dataset.conn.execute(
        'insert into events."order" (_dlt_id, _dlt_load_id) select \'stranger\', _dlt_load_id from events."order"'
    )
    assert ("1 row too many") in {gap.detail for gap in receipts(dataset).gaps}


def test_a_dropped_table_is_a_gap_and_rows_without_receipts_are_none(dataset):
    dataset.load(order(1), message(2, {"type": "click"}))
    dataset.conn.execute("drop table events.click")
    dataset.conn.execute("insert into events.\"order\" (_dlt_id, _dlt_load_id) values ('old', '1.5')")
    (gap,) = receipts(dataset).gaps
    assert gap.subject == "table click"
    assert "gone" in gap.detail


def test_older_loads_are_left_out_and_a_negative_receipt_takes_rows_back(dataset):
    dataset.load(order(1))
    first = dataset.rows("select max(load_id) from events._receipts")[0][0]
    dataset.load(order(2))
    dataset.conn.execute('delete from events."order" where n = 1')
    assert {gap.subject.split(",")[0] for gap in receipts(dataset).gaps} == {f"load {first}"}
    assert receipts(dataset, first + "1").gaps == ()
    dataset.conn.execute(
        "insert into events._receipts select load_id, table_name, -row_count, 0, 0, 0, 0, null, null, 'x'"
        " from events._receipts where load_id = %s",
        (first,),
    )
    assert receipts(dataset).gaps == ()


def replayed(dataset, new, rewritten=0):
    dataset.conn.execute(
        "insert into events._backfill_progress (backfill_id, worker, lane, events_new, events_rewritten, replayed_at)"
        " values ('b', 'w', 'load', %s, %s, now())",
        (new, rewritten),
    )


def test_rows_that_a_backfill_brought_back_or_rewrote_are_no_gap_and_one_row_more_is(dataset):
    dataset.load(*[order(number) for number in range(1, 6)])
    first = dataset.rows("select max(load_id) from events._receipts")[0][0]
    dataset.conn.execute('delete from events."order" where n in (2, 3)')
    assert len(receipts(dataset).gaps) == 3
    dataset.load(order(2), order(3))
    replayed(dataset, new=2)
    found = receipts(dataset)
    assert found.gaps == ()
    assert "of 1 loads are under newer loads since a backfill" in found.compared
    dataset.conn.execute('delete from events."order" where n = 4')
    assert f"load {first}, table order" in {gap.subject for gap in receipts(dataset).gaps}


def test_a_load_after_the_backfill_has_no_excuse(dataset):
    dataset.load(order(1))
    replayed(dataset, new=100)
    dataset.load(order(2))
    dataset.conn.execute('delete from events."order" where n = 2')
    assert len(receipts(dataset).gaps) == 3


def bridged(number, partition, offset, tail="", prefix="c/t", age=3600.0, **fields):
    identity = {"event_id": f"{prefix}/{partition}/{offset}{tail}"}
    return message(number, {"type": f"k{offset % 3}", "n": offset, **fields}, identity, age)


def offsets(dataset, since=None, settled=NOW):
    return find_gaps(dataset.conn, read_layout(dataset.conn, "events"), since, settled)


def load(dataset, *messages):
    dataset.load(*messages, event_id_attribute="event_id")


def test_offsets_missing_in_all_tables_are_named_by_partition(dataset):
    load(dataset, *[bridged(n, 0, n) for n in range(100, 110)], *[bridged(50 + n, 1, n) for n in range(5)])
    load(dataset, *[bridged(200 + n, 7, 3, f"/pipe/{n}") for n in range(2)], bridged(300, 7, 5, prefix="e2/c/t"))
    assert offsets(dataset).gaps == ()
    dataset.conn.execute("delete from events.k1 where n in (103)")
    dataset.conn.execute("delete from events.k2 where n = 104")
    (gap,) = offsets(dataset).gaps
    assert (gap.subject, gap.expected, gap.detail) == ("c/t partition 0", 2, "offsets 103 to 104 missing")
    done = dataset.loader("reconcile", "--no-offsets", LOADER_EVENT_ID_ATTRIBUTE="event_id")
    assert "offsets" not in done.stderr


def test_a_dead_letter_fills_its_offset_and_a_young_gap_may_still_fill(dataset):
    load(dataset, bridged(1, 0, 1), bridged(3, 0, 3), bridged(5, 0, 5, age=30.0))
    load(dataset, message(2, b"nonsense", {"event_id": "c/t/0/2"}, 3600))
    # What was never understood has its message's id; the letter of an understood one keeps the publisher's.
    dataset.conn.execute("update events._dead_letters set _event_id = 'c/t/0/2'")
    now = datetime.datetime.now(datetime.UTC)  # the module's NOW is as old as the whole run of the tests
    settled = now - datetime.timedelta(minutes=10)
    found = offsets(dataset, settled=settled)
    assert found.gaps == ()
    assert "1 gap may still fill" in found.compared
    (gap,) = offsets(dataset, settled=now + datetime.timedelta(minutes=1)).gaps
    assert gap.detail == "offset 4 missing"


def test_expected_ids_are_stored_or_letters_or_named(dataset, tmp_path):
    dataset.load(message(1, {"type": "a"}), message(2, {"type": "b"}), message(3, b"nonsense"))
    found = compare_expected(dataset.conn, read_layout(dataset.conn, "events"), ["m1", "m2", "m3", "m4", "m1"])
    assert [gap.subject for gap in found.gaps] == ["event m4"]
    assert "2 stored, 1 dead letters or discards, 1 missing" in found.compared
    file = tmp_path / "ids"
    file.write_text("m1\nm2\n\nm3\n")
    assert dataset.loader("reconcile", "--expect", str(file)).returncode == 0
    file.write_text("m1\nm9\n")
    done = dataset.loader("reconcile", "--expect", str(file))
    assert done.returncode == 1
    assert "event m9" in done.stdout


def test_the_topic_may_have_no_more_messages_than_are_loaded_or_wait(dataset):
    dataset.load(*[message(n, {"type": "a"}) for n in range(5)])
    since = NOW - datetime.timedelta(hours=1)

    def compare(published, backlog, status=200):
        body = {"timeSeries": [{"points": [{"value": {"distributionValue": {"count": str(published)}}}]}]}
        later = NOW + datetime.timedelta(minutes=10)
        return compare_topic(
            dataset.conn,
            "events",
            "projects/p/topics/t",
            since,
            later,
            "",
            backlog,
            lambda url: (status, json.dumps(body).encode()),
        )

    assert compare(7, 2).gaps == ()
    (gap,) = compare(8, 2).gaps
    assert gap.detail == "1 message neither loaded nor waiting"
    assert "needs monitoring.viewer" in compare(8, 2, 403).compared
