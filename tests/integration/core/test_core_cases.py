"""Small hostile inputs from public reports, each from message to rows: nothing lost, nothing changed, nobody harmed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from loading_harness import Loading

Case = Callable[[str], list[bytes]]


def load_case(loading: Loading, lines: list[bytes]) -> None:
    loading.assert_settled(loading.load(lines))


def by_id(loading: Loading, table: str) -> dict[int, dict[str, Any]]:
    """Rows by the payload's `id`, without it and the routing key."""
    return {
        row["id"]: {key: value for key, value in row.items() if key not in ("id", "event_name")}
        for row in loading.rows(table, "id")
    }


def test_nul_is_removed_from_text(loading: Loading, case: Case) -> None:
    load_case(loading, case("01-nul-in-text"))
    assert by_id(loading, "nul_text") == {
        1: {"note": "beforeafter"},
        2: {"note": ""},
        3: {"note": "clean row that must not be lost"},
    }
    assert loading.letters() == []


def test_nul_is_removed_from_nested_values_and_keys(loading: Loading, case: Case) -> None:
    load_case(loading, case("02-nul-in-nested-json"))
    assert by_id(loading, "nul_json") == {
        1: {"ctx__ua": "Agent/1.0"},
        2: {"ctx__key": "v"},
        3: {"ctx__literal": "backslash-u text: \\u0000 stays as typed"},
        4: {"ctx__ua": "ok"},
    }
    assert [row["value"] for _, row in loading.children("nul_json", "nul_json__ctx__tags")] == ["a", "b"]


def test_nul_is_removed_from_jsonb(new_loading: Callable[..., Loading], case: Case) -> None:
    loading = new_loading(max_nesting=0)
    load_case(loading, case("02-nul-in-nested-json"))
    assert loading.columns("nul_json")["ctx"] == "jsonb"
    assert by_id(loading, "nul_json") == {
        1: {"ctx": {"ua": "Agent/1.0", "tags": ["a", "b"]}},
        2: {"ctx": {"key": "v"}},
        3: {"ctx": {"literal": "backslash-u text: \\u0000 stays as typed"}},
        4: {"ctx": {"ua": "ok"}},
    }


def test_integers_beyond_64_bit_keep_every_digit(loading: Loading, case: Case) -> None:
    load_case(loading, case("03-big-integers"))
    assert loading.columns("bigints") == {"event_name": "text", "id": "bigint", "n": "bigint", "n__v_text": "text"}
    assert by_id(loading, "bigints") == {
        1: {"n": 2**63 - 1},
        2: {"n__v_text": str(2**63)},
        3: {"n__v_text": str(2**64 - 1)},
        4: {"n__v_text": str(2**64)},
        5: {"n__v_text": str(-(2**63) - 1)},
        6: {"n__v_text": str(10**42)},
        7: {"n": 7},
    }


def test_what_is_not_a_finite_number_is_a_dead_letter_and_its_neighbours_load(loading: Loading, case: Case) -> None:
    lines = case("04-nan-infinity")
    load_case(loading, lines)
    assert by_id(loading, "nonfinite") == {1: {"x": 1.5}, 7: {"x__v_text": "NaN"}, 8: {"x": 2.5}}
    letters = loading.letters()
    assert [letter["body"].encode() for letter in letters] == lines[1:6]
    assert {letter["reason"] for letter in letters} == {"not JSON"}


def test_one_field_in_eight_shapes_keeps_every_value(loading: Loading, case: Case) -> None:
    load_case(loading, case("05-type-drift-one-field"))
    assert by_id(loading, "drift") == {
        1: {"v": 1},
        2: {"v__v_text": "one"},
        3: {"v__v_double": 1.5},
        4: {"v__v_bool": True},
        5: {},
        6: {"v__a": 1},
        7: {},
        8: {"v__v_text": "2026-11-30T12:00:00Z"},
        9: {"v": 2},
    }
    assert [(parent["id"], row["value"]) for parent, row in loading.children("drift", "drift__v")] == [(7, 1), (7, 2)]


def test_long_names_stay_apart_and_are_the_same_on_every_worker(
    new_loading: Callable[..., Loading], case: Case
) -> None:
    names = []
    for dataset in ("one", "two"):
        loading = new_loading(dataset=dataset)
        load_case(loading, case("07-long-identifiers"))
        rows = by_id(loading, "long_names")
        assert sorted(rows[1].values()) == [1, 2]
        assert list(rows[2].values()) == [1]
        roots = [table for table in loading.tables() if table.startswith("evt_")]
        assert [loading.count(table) for table in roots] == [1, 1]
        tables = loading.tables()
        assert len(tables) == 5
        assert all(len(name.encode()) <= 63 for table in tables for name in (table, *loading.columns(table)))
        names.append([(table, list(loading.columns(table))) for table in tables])
    assert names[0] == names[1]


def test_empty_is_not_null_and_a_record_of_nulls_is_a_row(loading: Loading, case: Case) -> None:
    load_case(loading, case("08-empty-and-null"))
    assert by_id(loading, "empties") == {1: {"note": ""}, 2: {}, 3: {"note": " "}, 4: {"note": "x", "payload__k__v": 1}}
    items = [(parent["id"], row) for parent, row in loading.children("empties", "empties__items")]
    assert sorted(items, key=lambda pair: pair[0]) == [(3, {}), (4, {"sku": "s1"})]
    assert loading.rows("empties_only") == [{"event_name": "empties_only"}]
    assert loading.rows("nulls_only") == [{"event_name": "nulls_only"}]


def test_lists_of_lists_and_mixed_lists_keep_every_element_once(loading: Loading, case: Case) -> None:
    load_case(loading, case("09-nested-lists"))
    assert by_id(loading, "lists") == {1: {}, 2: {}, 3: {}, 4: {}, 5: {"m": "scalar"}}
    elements: dict[int, list[dict[str, Any]]] = {}
    for parent, row in loading.children("lists", "lists__m"):
        elements.setdefault(parent["id"], []).append(row)
    assert elements == {
        1: [{}, {}],
        2: [{"value": 1}, {"value": 2}, {"value": 3}],
        3: [{"a": 1}, {"a": 2}],
        4: [{"value": 1}, {"value__v_text": "two"}, {}, {"a": 3}, {}],
    }
    inner = [row["value"] for _, row in loading.children("lists__m", "lists__m__list")]
    assert sorted(inner) == [1, 2, 3, 4, 4]
    assert [row["value"] for _, row in loading.children("lists__m__b", "lists__m__b__c")] == [5, 6]


def test_ids_as_keys_become_one_jsonb_column_and_no_more_ddl(loading: Loading, case: Case) -> None:
    lines = case("11-dynamic-map-keys")
    load_case(loading, lines[:5])
    learned = loading.execute("select count(*) from _dlt_version").fetchone()
    load_case(loading, lines[5:])
    assert loading.columns("dynmap") == {"event_name": "text", "id": "bigint", "scores": "jsonb"}
    assert by_id(loading, "dynmap") == {record["id"]: {"scores": record["scores"]} for record in map(json.loads, lines)}
    assert loading.execute("select count(*) from _dlt_version").fetchone() == learned


def test_instants_are_utc_and_everything_else_is_text(loading: Loading, case: Case) -> None:
    load_case(loading, case("12-timestamps"))
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    rows = by_id(loading, "stamps")
    assert rows == {
        1: {"at": noon},
        2: {"at": noon.replace(microsecond=123456)},
        3: {"at": noon},
        4: {"at": noon.replace(hour=6, minute=30)},
        5: {"at__v_text": "2026-02-30T00:00:00Z"},
        6: {"at__v_text": "0000-00-00T00:00:00Z"},
        7: {"at": datetime(1, 1, 1, tzinfo=UTC)},
        8: {"at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)},
        9: {"at__v_text": "12026-11-30T12:00:00Z"},
        10: {"at__v_bigint": 1764504000},
        11: {"at__v_bigint": 1764504000123},
        12: {"at__v_text": "unknown"},
        13: {"at__v_text": ""},
        14: {"at__v_text": "2026-11-30T24:00:00Z"},
        15: {"at__v_text": "2026-11-30T23:59:60Z"},
        16: {"at": noon},
    }


def test_codes_that_look_like_dates_stay_text(loading: Loading, case: Case) -> None:
    lines = case("13-date-lookalikes")
    load_case(loading, lines)
    assert set(loading.columns("lookalike").values()) == {"text", "bigint"}
    wanted = {record.pop("id"): record for record in map(json.loads, lines)}
    assert by_id(loading, "lookalike") == {
        key: {name: value for name, value in record.items() if name != "eventName"} for key, record in wanted.items()
    }


def test_half_a_surrogate_pair_becomes_the_replacement_character(loading: Loading, case: Case) -> None:
    load_case(loading, case("15-lone-surrogates"))
    assert by_id(loading, "surrogate") == {
        1: {"s": "half \ufffd pair"},
        2: {"s": "good pair \U0001f600"},
        3: {"s": "reversed \ufffd\ufffd"},
        4: {"s": "clean row"},
    }


def test_separators_and_quotes_arrive_byte_for_byte(loading: Loading, case: Case) -> None:
    lines = case("16-separators-and-quoting")
    load_case(loading, lines)
    assert by_id(loading, "quoting") == {record["id"]: {"s": record["s"]} for record in map(json.loads, lines)}


def test_reserved_names_are_renamed_and_sql_words_are_just_names(loading: Loading, case: Case) -> None:
    load_case(loading, case("19-reserved-names"))
    assert by_id(loading, "reserved") == {
        1: {"payload_dlt_id": "mine", "payload_dlt_load_id": "mine too"},
        2: {"payload_dlt_id": "mine"},
        3: {
            "select": 1,
            "order": 2,
            "user": 3,
            "payload_ctid": 4,
            "payload_xmin": 5,
            "payload_tableoid": 6,
            "oid": 7,
        },
        4: {"value": 1, "parent___dlt_id": "q"},
    }
    assert [row for _, row in loading.children("reserved", "reserved__kids")] == [
        {"payload_dlt_parent_id": "x", "payload_dlt_list_idx": "y", "payload_dlt_root_id": "z", "v": 1}
    ]


def test_bodies_that_are_no_object_are_dead_letters(loading: Loading, case: Case) -> None:
    lines = case("20-not-an-object")
    load_case(loading, lines)
    assert loading.rows("x") == [{"event_name": "x", "id": 1}]
    assert loading.rows("ok_row") == [{"event_name": "ok_row", "id": 1}]
    assert loading.rows("unknown") == [{}]
    assert loading.tables() == ["ok_row", "unknown", "x"]
    good = {b'[{"eventName":"x","id":1}]', b"{}", b'{"eventName":"ok_row","id":1}'}
    assert sorted(letter["body"].encode() for letter in loading.letters()) == sorted(set(lines) - good)
    assert all(letter["detail"] for letter in loading.letters())


def test_keys_that_clean_to_one_name_lose_nothing(loading: Loading, case: Case) -> None:
    lines = case("22-odd-keys")
    load_case(loading, lines)
    assert loading.letters() == []
    rows = by_id(loading, "oddkeys")
    for record in map(json.loads, lines):
        wanted = sorted(value for key, value in record.items() if key not in ("id", "eventName"))
        row = dict(rows[record["id"]])
        kept = row.pop("_overflow", {})
        assert sorted([*row.values(), *kept.values()]) == wanted
        # What has no column of its own stands under the very key that it came with.
        assert all(record[key] == value for key, value in kept.items())


def test_hostile_table_names(loading: Loading, case: Case) -> None:
    load_case(loading, case("23-hostile-table-names"))
    where = {
        row["id"]: table
        for table in loading.tables()
        if "id" in loading.columns(table)
        for row in loading.rows(table, "id")
    }
    assert len(where) == 20
    assert {where[number] for number in (1, 2, 3, 4, 5, 6, 17)} == {"unknown"}
    assert (where[7], where[8]) == ("events_dlt_loads", "events_dlt_version")
    assert where[9] == where[10] == "orders"
    assert where[11] == "orders_items"
    assert [row for _, row in loading.children("orders", "orders__items")] == [{"sku": "a"}]
    assert where[12] == "public_users"
    assert where[13].startswith("x_drop_table_orders")
    assert where[14] not in ("x", "unknown")
    assert len(where[16]) <= 63
    assert where[18] == where[19] == where[20] == "order_placed"
    internal = {row[0] for row in loading.execute("select distinct schema_name from _dlt_loads").fetchall()}
    assert internal == {"loader"}
    assert loading.letters() == []


def test_deep_nesting_is_kept_or_a_dead_letter(loading: Loading, case: Case) -> None:
    lines = case("25-deep-nesting")
    load_case(loading, lines)
    assert by_id(loading, "deep") == {2: {"o__n": "ok"}}
    letters = loading.letters()
    assert [letter["body"].encode() for letter in letters] == [lines[0], lines[2]]
    assert {letter["reason"] for letter in letters} == {"too deep"}


def test_the_empty_text_is_not_null(loading: Loading, case: Case) -> None:
    load_case(loading, case("26-csv-null-vs-empty"))
    assert by_id(loading, "emptystr") == {
        1: {"a": ""},
        2: {"a": "x", "b": ""},
        3: {"a": "\\N", "b": "NULL"},
        4: {"a": '""', "b": "a,b\nc"},
    }


def test_booleans_and_numbers_do_not_turn_into_each_other(loading: Loading, case: Case) -> None:
    load_case(loading, case("28-bool-number-mix"))
    rows = by_id(loading, "mix")
    assert rows == {
        1: {"ok": True, "n": 5},
        2: {"ok__v_bigint": 0, "n__v_bool": True},
        3: {"ok__v_text": "True", "n__v_text": "5"},
        4: {"ok__v_bigint": 2, "n__v_double": 5.0},
        5: {"n__v_double": 5.5},
    }
    assert rows[1]["ok"] is True
    assert rows[2]["n__v_bool"] is True


def test_two_workers_that_know_different_columns_agree(new_loading: Callable[..., Loading], case: Case) -> None:
    a, b = new_loading(), new_loading()
    lines_a, lines_b = case("30-divergence-worker-a"), case("30-divergence-worker-b")
    load_case(a, lines_a[:1])
    load_case(b, lines_b[:1])
    load_case(a, lines_a[1:])
    load_case(b, lines_b[1:])
    assert by_id(a, "div") == {
        1: {},
        2: {},
        3: {"amount": 1, "at": datetime(2026, 11, 30, 12, tzinfo=UTC), "score": 1.5, "flag": True, "label": "abc"},
        4: {"amount__v_double": 1.5},
        5: {"at__v_text": "unknown"},
        6: {"score": 2.0},
        7: {"flag__v_bigint": 2},
        8: {"label__v_bigint": 7},
        9: {"at__v_bigint": 1764504000},
    }


def test_one_text_among_200_numbers_is_kept_as_text_and_harms_nobody(loading: Loading, case: Case) -> None:
    lines = case("31-one-bad-in-200")
    load_case(loading, lines)
    rows = {}
    for table in ("bundle_a", "bundle_b", "bundle_c"):
        for row in loading.rows(table):
            assert row["event_name"] == table
            rows[row["id"]] = row.get("x", row.get("x__v_text"))
    assert rows == {record["id"]: record["x"] for record in map(json.loads, lines)}
    assert rows[100] == "NaN"
    assert loading.letters() == []


def test_one_message_delivered_thrice_is_one_row_and_a_second_message_another(loading: Loading, case: Case) -> None:
    lines = case("34-same-message-twice")
    loading.assert_settled(loading.load(lines, ids=["one"] * 3))
    assert loading.count("dup") == 1
    loading.load(lines[:2], ids=["one", "other"])
    assert [row["order_no"] for row in loading.rows("dup")] == ["A-1", "A-1"]
    assert loading.acked == {"one": 4, "other": 1}
    assert loading.letters() == []


def test_bytes_that_are_not_json_are_dead_letters_kept_byte_for_byte(loading: Loading) -> None:
    bodies = [
        base64.b64decode(text)
        for text in (
            "H4sIAAAAAAACA6tWSi1LzSvxS8xNVbJSSq9S0lHKTFGyMqwFAGi1P3EZAAAA",
            "77u/eyJldmVudE5hbWUiOiJib20iLCJpZCI6MX0=",
            "//57ACIAaQBkACIAOgAxAH0A",
            "eyJldmVudE5hbWUiOiJsYXRpbiIsInMiOiJjYWbpIn0=",
            "",
            "AAAAAAEKYWJj",
            "CgVoZWxsbxAB",
        )
    ]
    big = b'{"eventName":"big","id":1,"s":"' + b"x" * (10_000_000 - 33) + b'"}'
    load_case(loading, [*bodies, big, b'{"eventName":"neighbour","id":1}'])
    assert loading.rows("bom") == [{"event_name": "bom", "id": 1}]
    assert [len(row["s"]) for row in loading.rows("big")] == [10_000_000 - 33]
    assert loading.count("neighbour") == 1
    kept = [
        base64.b64decode(letter["body"]) if letter["body_encoding"] == "base64" else letter["body"].encode()
        for letter in loading.letters()
    ]
    assert sorted(kept) == sorted(body for body in bodies if body[:3] != b"\xef\xbb\xbf")
    assert all(letter["detail"] and letter["message_id"] and letter["published_at"] for letter in loading.letters())


def test_a_big_integer_inside_jsonb_keeps_every_digit(new_loading: Callable[..., Loading]) -> None:
    loading = new_loading(max_nesting=0)
    load_case(loading, [b'{"eventName":"deep_ints","o":{"n":18446744073709551616,"f":1e30,"t":"e99"}}'])
    found = loading.execute("select o ->> 'n', (o ->> 'f')::numeric from deep_ints").fetchone()
    assert found == ("18446744073709551616", Decimal(10) ** 30)


@pytest.mark.parametrize("key", ["dlt_id_key", "dltIdIdx"])
def test_a_list_named_like_the_index_of_its_table_gets_a_table_of_another_name(loading: Loading, key: str) -> None:
    loading.load([{"eventName": "orders", "id": 1, "lines": [{key: [1]}]}])
    lines = [{key: [3, 4]}, {"x__" + key: [5]}]
    messages = loading.load([{"eventName": "orders", "id": 2, key: [{"a": 2}], "lines": lines}])
    loading.assert_settled(messages)
    tables = loading.tables()
    assert [row["a"] for table in tables for row in loading.rows(table, "_dlt_id") if "a" in row] == [2]
    values = [row["value"] for table in tables for row in loading.rows(table, "_dlt_id") if "value" in row]
    assert sorted(values) == [1, 3, 4, 5]


@pytest.mark.parametrize("dataset", ["Events", 'Sp ace "q"', "Ünï", "a.b", "x'y", "select", "$1", "é" * 31])
def test_the_dataset_is_named_letter_by_letter(new_loading: Callable[..., Loading], dataset: str) -> None:
    loading = new_loading(dataset=dataset)
    loading.assert_settled(loading.load([{"eventName": "t", "a": 1, "l": [1]}]))
    loading.assert_settled(loading.load([{"eventName": "t", "a": "text", "b": 2}, b"no JSON"]))
    assert loading.rows("t") == [
        {"event_name": "t", "a": 1},
        {"event_name": "t", "a__v_text": "text", "b": 2},
    ]
    assert (loading.count("t__l"), len(loading.letters())) == (1, 1)
