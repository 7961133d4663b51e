"""Records whose types are stable by path become what stock dlt makes of them: tables, columns, constraints, cells."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlt
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from loading_harness import Loading
from psycopg import sql

from loader.message.identity import dlt_id

OURS = ("_event_id", "_event_digest", "_published_at", "_overflow")
_numbers = itertools.count()

TEXTS = st.sampled_from(
    ["", " ", "plain", "it's \"q\" \\ \n\t", "\u2028", "\U0001f600", "e\u0301", "00501", "NaN", "2026-11-30",
     "12:30:00", "null", "\\N", "\\.", "x" * 200]
)  # fmt: skip
TIMES = st.sampled_from(
    ["2026-11-30T12:00:00Z", "2026-11-30T12:00:00.123456Z", "2026-11-30T12:00:00.123456789Z", "2026-11-30 12:00:00Z",
     "2026-11-30T12:00:00+05:30", "2026-11-30T12:00:00", "2026-11-30T12:00:00.5-03:00", "1999-01-01T00:00:00Z"]
)  # fmt: skip
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "int": st.integers(-(2**63), 2**63 - 1),
    # Adding zero makes 0.0 of -0.0, whose sign dlt loses and we keep.
    "float": st.floats(allow_nan=False, allow_infinity=False, width=64)
    .filter(lambda x: abs(x) < 1e18)
    .map((0.0).__add__),
    "bool": st.booleans(),
    "time": TIMES,
}
# Keys that clean to names of their own: collisions are a test of their own, for there stock dlt loses values.
KEYS = ["a", "userId", "Some Key", "kéy", "1st", "select", "a.b", "value", "w" * 80, "trailing_", "UPPER", "b-c", "+x"]


@st.composite
def shapes(draw: st.DrawFn, depth: int = 3) -> Any:
    """What one path holds: a kind of scalar, an object of named shapes, or a list of one shape."""
    kind = draw(st.sampled_from(["text", "int", "float", "bool", "time"] + (["dict", "list"] * 3 if depth else [])))
    if kind == "dict":
        names = draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=4))
        return {name: draw(shapes(depth - 1)) for name in names}
    if kind == "list":
        return [draw(shapes(depth - 1))]
    return kind


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Values of a shape; anything may be null, and any key may be missing."""
    if isinstance(shape, dict):
        return st.fixed_dictionaries({}, optional={key: st.none() | values(inner) for key, inner in shape.items()})
    if isinstance(shape, list):
        return st.lists(st.none() | values(shape[0]), max_size=3)
    return KINDS[shape]


@st.composite
def record_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=6))
    shape = {name: draw(shapes()) for name in names}
    return draw(st.lists(values(shape), min_size=1, max_size=15))


@pytest.fixture
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.setenv("RESTORE_FROM_DESTINATION", "false")


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("no_telemetry")
@pytest.mark.parametrize("nesting", [None, 0, 1, 2, 3])
def test_stable_records_equal_stock_dlt_cell_by_cell(
    new_loading: Callable[..., Loading], database_url: str, tmp_path: Path, nesting: int | None
) -> None:
    @settings(
        max_examples=6,
        phases=[Phase.explicit, Phase.generate],  # shrinking would run thousands of pipelines
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )
    @given(record_lists())
    # A list in a dict counts from its row, not from the dict.
    @example([{"a": {"b": [[1], {"c": [2]}]}, "l": [{"d": {"e": [[[3]]]}}]}, {"a": {"b": [[4]]}}])
    def check(records: list[dict[str, Any]]) -> None:
        number = next(_numbers)
        ids = [f"e{number}-{position}" for position in range(len(records))]
        rules = {} if nesting is None else {"max_nesting": nesting}
        loading = new_loading(
            dataset=f"ours{number}", table_key=None, default_table="things", max_columns=1_000, **rules
        )
        try:
            half = len(records) // 2
            for part in (slice(None, half), slice(half, None)):
                if records[part]:
                    loading.load(map(json.dumps, records[part]), ids=ids[part])
            assert loading.letters() == []
            stock(database_url, tmp_path / str(number), f"stock{number}", records, ids, nesting)
            assert table_shapes(loading.conn, f"ours{number}") == table_shapes(loading.conn, f"stock{number}")
            for table in loading.tables():
                assert cells(loading.conn, f"ours{number}", table) == cells(loading.conn, f"stock{number}", table)
        finally:
            loading.execute(f"drop schema if exists ours{number}, stock{number} cascade")
            loading.close()

    check()


def stock(
    url: str, folder: Path, dataset: str, records: list[dict[str, Any]], ids: list[str], nesting: int | None
) -> None:
    """Load by stock dlt, with the row ids that the loader gives."""

    @dlt.source(name="loader", max_table_nesting=1_000 if nesting is None else nesting)
    def source() -> Any:
        # dlt changes what it is given.
        rows = [
            {**json.loads(json.dumps(record)), "_dlt_id": dlt_id(identity)}
            for record, identity in zip(records, ids, strict=True)
        ]
        yield dlt.resource(rows, name="things", write_disposition="append")

    pipeline = dlt.pipeline(
        f"oracle_{dataset}",
        destination=dlt.destinations.postgres(url),
        dataset_name=dataset,
        pipelines_dir=str(folder),
    )
    pipeline.run(source())
    pipeline.deactivate()


def table_shapes(conn: psycopg.Connection[Any], dataset: str) -> set[tuple[Any, ...]]:
    """Columns with type and NOT NULL, and constraints, by table."""
    columns = conn.execute(
        "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
        " where c.relnamespace = to_regnamespace(%s) and c.relkind = 'r' and left(c.relname, 1) <> '_'"
        " and a.attname <> all(%s)",
        (dataset, list(OURS)),
    ).fetchall()
    constraints = conn.execute(
        "select c.relname, x.conname, pg_get_constraintdef(x.oid), true from pg_class c join pg_constraint x"
        " on x.conrelid = c.oid and x.contype <> 'n'"
        " where c.relnamespace = to_regnamespace(%s) and left(c.relname, 1) <> '_'",
        (dataset,),
    ).fetchall()
    return {*columns, *constraints}


def cells(conn: psycopg.Connection[Any], dataset: str, table: str) -> list[dict[str, Any]]:
    """Every cell as text, ids and parents included; load ids are each loader's own."""
    names = sorted(
        name
        for (name,) in conn.execute(
            "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            (sql.Identifier(dataset, table).as_string(conn),),
        )
        if name not in (*OURS, "_dlt_load_id")
    )
    query = sql.SQL("select {} from {} order by _dlt_id").format(
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names),
        sql.Identifier(dataset, table),
    )
    return [dict(zip(names, row, strict=True)) for row in conn.execute(query)]
