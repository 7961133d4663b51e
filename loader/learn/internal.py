"""The loader's own tables beside dlt's, each made once under the advisory lock. One readable place for their SQL."""

from __future__ import annotations

DEAD_LETTERS = "_dead_letters"
DISCARDS = "_discards"
RECEIPTS = "_receipts"
SCHEMA_LOG = "_schema_log"
WORKERS = "_workers"
BACKFILLS = "_backfills"
BACKFILL_PROGRESS = "_backfill_progress"

TABLES: dict[str, str] = {
    # Every message (or element of an array) that could not be loaded, with the reason. Open until resolved_at is set
    # by the transaction in which the event was loaded after all. A reused event id has many bodies, so the digest
    # is part of the key.
    DEAD_LETTERS: """
create table if not exists {schema}._dead_letters (
    letter_id text primary key,
    _event_id text not null,
    _event_digest bigint not null,
    reason text not null,
    detail text not null,
    sqlstate text,
    table_name text,
    column_name text,
    message_id text not null,
    published_at timestamptz not null,
    attempt integer not null,
    ordering_key text not null,
    attributes jsonb not null,
    body_encoding text not null,
    body text not null,
    is_record boolean not null,
    load_id text not null,
    worker text not null,
    created_at timestamptz not null default now(),
    resolved_at timestamptz,
    resolution text,
    exported_at timestamptz,
    export_claimed_until timestamptz
)""",
    "_dead_letters_open": """
create index if not exists _dead_letters_open on {schema}._dead_letters (_event_id) where resolved_at is null""",
    # What the export to LOADER_DEAD_LETTER_TOPIC still has to publish, see loader/dead_letter/export.py.
    "_dead_letters_unexported": """
create index if not exists _dead_letters_unexported on {schema}._dead_letters (created_at)
where exported_at is null and resolved_at is null""",
    # What a contract's discard_row and discard_value left out: all are counted, the first 100 bodies kept.
    DISCARDS: """
create table if not exists {schema}._discards (
    discard_id bigint generated always as identity primary key,
    _event_id text not null,
    table_name text not null,
    reason text not null,
    body text,
    load_id text not null,
    created_at timestamptz not null default now()
)""",
    # What each load did, per table: the receipt that `reconcile` compares with the tables.
    RECEIPTS: """
create table if not exists {schema}._receipts (
    load_id text not null,
    table_name text not null,
    row_count bigint not null,
    event_count bigint not null,
    duplicate_count bigint not null,
    dead_letter_count bigint not null,
    discard_count bigint not null,
    oldest_published_at timestamptz,
    newest_published_at timestamptz,
    worker text not null,
    committed_at timestamptz not null default now()
)""",
    "_receipts_load_id": "create index if not exists _receipts_load_id on {schema}._receipts (load_id)",
    # Every column ever added, and the event that first asked for it.
    SCHEMA_LOG: """
create table if not exists {schema}._schema_log (
    entry_id bigint generated always as identity primary key,
    added_at timestamptz not null default now(),
    table_name text not null,
    column_name text not null,
    data_type text not null,
    is_variant boolean not null,
    new_table boolean not null,
    first_event_id text not null,
    worker text not null,
    schema_version bigint not null
)""",
    # One row a process, renewed by loader/worker/heartbeat.py; the space left in its pages keeps updates in place.
    WORKERS: """
create table if not exists {schema}._workers (
    worker text primary key,
    subscription text not null,
    loader_version text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    messages_held bigint not null,
    alert text
) with (fillfactor = 50)""",
    # Orders to the workers of a subscription (loader/backfill/order.py), in force until ended_at; and how far a refill
    # from a raw column has come. `request` is what was asked for: asking the same again goes on with it.
    BACKFILLS: """
create table if not exists {schema}._backfills (
    backfill_id text primary key,
    request jsonb not null,
    subscription text,
    aside boolean not null,
    since timestamptz,
    until timestamptz,
    tables text[],
    replace boolean not null,
    safety_snapshot text,
    estimated_events bigint,
    settled_before timestamptz,
    ordered_at timestamptz not null default now(),
    sought_at timestamptz,
    position text,
    rows_read bigint not null default 0,
    rows_filled bigint not null default 0,
    ended_at timestamptz,
    outcome text
)""",
    # Two orders for one subscription could not both be kept.
    "_backfills_open": """
create unique index if not exists _backfills_open on {schema}._backfills (subscription) where ended_at is null""",
    # What each lane of each worker has done of an order, written by the loads' own transactions.
    BACKFILL_PROGRESS: """
create table if not exists {schema}._backfill_progress (
    backfill_id text not null,
    worker text not null,
    lane text not null,
    messages bigint not null default 0,
    events_new bigint not null default 0,
    rows_new bigint not null default 0,
    events_there bigint not null default 0,
    events_rewritten bigint not null default 0,
    events_skipped bigint not null default 0,
    dead_letters bigint not null default 0,
    waiting bigint not null default 0,
    replayed_at timestamptz,
    seen_at timestamptz not null default now(),
    primary key (backfill_id, worker, lane)
) with (fillfactor = 50)""",
}

LOG_ADDITION = """
insert into {schema}._schema_log
    (table_name, column_name, data_type, is_variant, new_table, first_event_id, worker, schema_version)
values (%s, %s, %s, %s, %s, %s, %s, %s)
"""

STORE_VERSION = """
insert into {schema}._dlt_version (version, engine_version, inserted_at, schema_name, version_hash, schema)
values (%s, %s, now(), %s, %s, %s)
"""
