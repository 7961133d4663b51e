"""Reads what a dataset holds: every value of every table into the ledger, the dead letters, and the loads' receipts."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from loader.bench.fleet.content import path_of, row_digest, spelling_of
from loader.bench.fleet.events import Events
from loader.bench.fleet.ledger import Ledger
from loader.reconcile.layout import read_layout
from loader.reconcile.receipts import compare_receipts

_COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid
where c.relnamespace = %s::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
order by 1, 2
"""


@dataclass(frozen=True, slots=True)
class Noted:
    """Sums of what the loads' own transactions noted."""

    events: int
    duplicates: int
    loads: int


@dataclass(frozen=True, slots=True)
class Letters:
    """Open dead letters against the poison that was published."""

    open: int = 0
    missing: int = 0
    doubled: int = 0
    different: int = 0
    """The body is not the one that was published."""
    unexpected: int = 0
    """Of an event that could have been loaded, or that was never published."""
    examples: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Each poison message is one letter, and there is no other."""
        return not (self.missing or self.doubled or self.different or self.unexpected)


def read_rows(conn: psycopg.Connection[Any], dataset: str, events: Events, ledger: Ledger) -> None:
    """Every row of every table. A child row without its parent counts as unknown. Raises psycopg.Error."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in conn.execute(_COLUMNS, (f'"{dataset}"',)).fetchall():
        tables.setdefault(table, []).append((column, kind))
    conn.execute("set timezone to 'UTC'")
    for table, columns in tables.items():
        if not table.startswith("_"):
            _read_table(conn, dataset, table, columns, events, ledger)


def _read_table(
    conn: psycopg.Connection[Any],
    dataset: str,
    table: str,
    columns: list[tuple[str, str]],
    events: Events,
    ledger: Ledger,
) -> None:
    names = sorted((path_of(name), name, kind) for name, kind in columns if not name.startswith("_"))
    paths = [path for path, _, _ in names]
    spellings = [spelling_of(kind) for _, _, kind in names]
    root = not any(name == "_dlt_parent_id" for name, _ in columns)
    place = sql.SQL("''" if root else "c._dlt_list_idx")
    source = sql.SQL("{} c").format(sql.Identifier(dataset, table))
    identity = sql.SQL("c._event_id")
    if not root:
        parent = sql.Identifier(dataset, table.partition("__")[0])
        source += sql.SQL(" left join {} p on p._dlt_id = c._dlt_parent_id").format(parent)
        identity = sql.SQL("p._event_id")
    wanted = [identity, place, *(sql.Identifier("c", name) for _, name, _ in names)]
    query = sql.SQL("copy (select {} from {}) to stdout").format(sql.SQL(", ").join(wanted), source)
    with conn.cursor() as cursor, cursor.copy(query) as copy:
        for event, where, *cells in copy.rows():
            values = [
                (path, spell(cell))
                for path, spell, cell in zip(paths, spellings, cells, strict=True)
                if cell is not None
            ]
            number = events.number(event) if event is not None else None
            ledger.find(number, row_digest(table, where, values), root, event or f"a row of {table} without a parent")


def read_letters(conn: psycopg.Connection[Any], dataset: str, events: Events) -> Letters:
    """Open dead letters, body by body. Raises psycopg.Error."""
    found: dict[int, int] = {}
    different = unexpected = total = 0
    examples = []
    query = sql.SQL("select _event_id, body_encoding, body, reason from {} where resolved_at is null").format(
        sql.Identifier(dataset, "_dead_letters")
    )
    for identity, encoding, body, reason in conn.execute(query):
        total += 1
        number = events.number(identity)
        if number is None or not events.is_poison(number):
            unexpected += 1
            examples.append(f"{identity}: a dead letter ({reason}), but no poison")
            continue
        found[number] = found.get(number, 0) + 1
        data = base64.b64decode(body) if encoding == "base64" else body.encode()
        if data != events.body(number):
            different += 1
            examples.append(f"{identity}: the dead letter's body is not what was published")
    lost = [number for number in range(events.distinct) if events.is_poison(number) and number not in found]
    examples += [f"{events.identity(number)}: poison without a dead letter" for number in lost[:5]]
    doubled = sum(count > 1 for count in found.values())
    return Letters(total, len(lost), doubled, different, unexpected, tuple(examples[:10]))


def read_notes(conn: psycopg.Connection[Any], dataset: str) -> Noted:
    """Sums over `_receipts`. Raises psycopg.Error."""
    query = sql.SQL(
        "select coalesce(sum(event_count), 0)::bigint, coalesce(sum(duplicate_count), 0)::bigint,"
        " count(distinct load_id) from {}"
    ).format(sql.Identifier(dataset, "_receipts"))
    row = conn.execute(query).fetchone()
    assert row is not None
    return Noted(*row)


def read_gaps(conn: psycopg.Connection[Any], dataset: str) -> tuple[str, ...]:
    """Loads whose rows, in any table, are not as many as their transactions noted. Raises psycopg.Error."""
    checked = compare_receipts(conn, read_layout(conn, dataset), "")
    return tuple(f"{gap.subject}: {gap.detail}" for gap in checked.gaps)
