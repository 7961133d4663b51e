"""Column and table names as dlt spells them (snake_case, 63 bytes), with memory bounded against endless spellings."""

from __future__ import annotations

from dlt.common.normalizers.naming.snake_case import NamingConvention

MAX_IDENTIFIER = 63
"""Postgres cuts names at 63 bytes; dlt shortens before that, with a hash that keeps long names apart."""

EMPTY_KEY = "_empty"
VALUE = "value"
LIST_WRAP = "list"

# The loader's own columns. A payload key that would land on one of them is stored under `payload…` instead.
EVENT_ID = "_event_id"
EVENT_DIGEST = "_event_digest"
PUBLISHED_AT = "_published_at"
ATTRIBUTES = "_attributes"
RAW = "_raw"
OVERFLOW = "_overflow"
WANTED_TABLE = "_wanted_table"
DLT_ID = "_dlt_id"
DLT_LOAD_ID = "_dlt_load_id"
DLT_PARENT_ID = "_dlt_parent_id"
DLT_LIST_IDX = "_dlt_list_idx"

_OURS = frozenset({EVENT_ID, EVENT_DIGEST, PUBLISHED_AT, ATTRIBUTES, RAW, OVERFLOW, WANTED_TABLE})
# https://www.postgresql.org/docs/current/ddl-system-columns.html: no table may have a column of such a name.
_SYSTEM = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})

# What Postgres appends to a table's name for the index on _dlt_id: of a constraint, and of an index made alone.
_INDEXES = frozenset({"dlt_id_key", "dlt_id_idx"})

LONGEST_KEPT_KEY = 1_000
"""A longer key is spelled anew each time that it is met, and nothing remembers it."""

_CACHE_LIMIT = 50_000

naming = NamingConvention(max_length=MAX_IDENTIFIER)

_shorten = NamingConvention.shorten_identifier.__wrapped__
_snake_case = NamingConvention._to_snake_case
_NOT_IN_A_NAME = NamingConvention.RE_NON_ALPHANUMERIC
_REDUCE_ALPHABET = NamingConvention._TR_REDUCE_ALPHABET


def trim_caches() -> None:
    """Empty dlt's unbounded name caches when they have grown: called between bundles, for keys may be endless."""
    for cached in (NamingConvention._normalize_identifier, NamingConvention.shorten_identifier):
        if cached.cache_info().currsize > _CACHE_LIMIT:
            cached.cache_clear()


def of_key(key: str) -> str:
    """The name of one payload key, as dlt's relational normalizer spells it."""
    if not key or key.isspace():
        return EMPTY_KEY
    try:
        if len(key) > LONGEST_KEPT_KEY:
            return _of_long_key(key) or EMPTY_KEY
        return naming.normalize_path(key) or EMPTY_KEY
    except ValueError:  # nothing is left of keys such as "__"
        return EMPTY_KEY


def _of_long_key(key: str) -> str:
    """As dlt's `normalize_path`, past its caches: a key may have ten million characters."""
    parts = []
    for raw in naming.break_path(key):
        part = raw.strip()
        spelled = _NOT_IN_A_NAME.sub("_", part.translate(_REDUCE_ALPHABET))
        parts.append(_shorten(_snake_case(spelled), part, MAX_IDENTIFIER))
    return _shorten(naming.make_path(*parts), key, MAX_IDENTIFIER)


def of_list(key: str) -> str:
    """The name of one payload key in the name of a child table.

    Postgres calls the unique index of a table `table__dlt_id_key`, and tables and indexes share one space of names: a
    list `dlt_id_key` has its table under `payload_dlt_id_key`.
    """
    name = of_key(key)
    head, _, last = name.rpartition("__")
    if last not in _INDEXES:
        return name
    return f"{head}__payload_{last}" if head else f"payload_{last}"


def json_keys(text: str) -> frozenset[str]:
    """Keys declared to stay JSON, `key` or `table.key` with commas between, by their columns' names."""
    found = set()
    for each in filter(None, (part.strip() for part in text.split(","))):
        table, _, key = each.rpartition(".")
        column = unreserved(of_key(key))
        found.add(f"{table}.{column}" if table else column)
    return frozenset(found)


def joined(*fragments: str) -> str:
    """The name of a nested column or child table."""
    return naming.shorten_fragments(*fragments)


def variant(column: str, data_type: str) -> str:
    """The variant column that takes values of another type than `column` has."""
    return naming.shorten_fragments(column, f"v_{data_type}")


def unreserved(column: str) -> str:
    """`column`, or a name of its own where it would hit the loader's, dlt's or Postgres's own columns.

    `_dlt_id` → `payload_dlt_id`, `_event_id` → `payload_event_id`, `ctid` → `payload_ctid`.
    """
    if column.startswith("_dlt") or column in _OURS or column in _SYSTEM:
        return naming.shorten_fragments(f"payload_{column.lstrip('_')}")
    return column
