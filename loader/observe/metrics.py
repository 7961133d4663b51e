"""The metrics of one worker process: it reports once a bundle, the rest is read when somebody asks."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from loader import __version__
from loader.observe.declaration import AGE_BUCKETS
from loader.observe.store import Snapshot, Store

if TYPE_CHECKING:
    from loader.copy.bundle_load import BundleLoad
    from loader.pull.puller import State

_AGE_MICROS = tuple(round(bound * 1e6) for bound in AGE_BUCKETS)
_STARTED = time.time()
_NO_TABLE = "_none"


class LoaderMetrics:
    """What the worker reports. Thread-safe; each method costs microseconds and is called once a bundle or more rarely.

    `pull_state` gives the puller's counters when somebody asks; it may be set later. `clock` is Unix time."""

    def __init__(self, pull_state: Callable[[], State] | None = None, clock: Callable[[], float] = time.time) -> None:
        self.pull_state = pull_state
        self.store = Store()
        self._clock = clock
        self._oldest: dict[str, int] = {}
        self.store.put("loader_database_up", 1.0)

    # --- bundles --------------------------------------------------------------------------------------------------

    def bundle_closed(self, closed_by: str, messages: int) -> None:
        """A bundle of so many messages goes to be loaded."""
        self.store.add("loader_bundles_total", 1, closed_by)
        self.store.add("loader_bundle_messages_total", messages)

    def bundle_steps(self, seconds: Mapping[str, float]) -> None:
        """Seconds by step, of one load: `fit` (decoding included), `copy` (commit included)."""
        for step, value in seconds.items():
            self.store.observe("loader_bundle_seconds", value, step)

    def load_committed(self, load: BundleLoad, committed: float | None = None) -> None:
        """Everything that a committed load tells; `committed` is its Unix time, now unless told otherwise."""
        moment = self._clock() if committed is None else committed
        fitted = load.fitted
        for table, moments in load.moments.items():
            self.events_loaded(table, moments, moment)
        for rows in load.tables():
            self.store.add("loader_rows_loaded_total", len(rows.rows), rows.plan.table.name)
        self.duplicates(len(load.duplicates))
        for letter in load.letters:
            self.dead_letter(letter.table, letter.reason)
        self.discarded("event", len(load.discards))
        self.discarded("value", fitted.discarded_values)

    def events_loaded(self, table: str, published: Sequence[int], committed: float) -> None:
        """Events of a root table that were committed, by their publish times in microseconds."""
        if published:
            counts, total = count_ages(published, round(committed * 1e6))
            self.store.add("loader_events_loaded_total", len(published), table)
            self.store.observe_many("loader_publish_to_commit_age_seconds", counts, total, table)

    def duplicates(self, count: int) -> None:
        """Events that were stored already."""
        if count:
            self.store.add("loader_events_duplicate_total", count)

    def dead_letter(self, table: str | None, reason: str, count: int = 1) -> None:
        """Dead letters that were committed."""
        self.store.add("loader_dead_letters_total", count, table or _NO_TABLE, reason)

    def discarded(self, what: str, count: int) -> None:
        """Left out by contract; `what` is `event` or `value`."""
        if count:
            self.store.add("loader_discards_total", count, what)

    def texts_cleaned(self, nul: int = 0, surrogates: int = 0) -> None:
        """Texts that were changed so that Postgres can hold them."""
        if nul:
            self.store.add("loader_texts_cleaned_total", nul, "nul")
        if surrogates:
            self.store.add("loader_texts_cleaned_total", surrogates, "surrogate")

    def isolation(self) -> None:
        """A load is searched for refused rows."""
        self.store.add("loader_isolations_total", 1)

    # --- what waits -----------------------------------------------------------------------------------------------

    def oldest(self, where: str, published: int | None) -> None:
        """Publish time (microseconds) of the oldest message at a place (`bundle`, `learning`, …); None: it is empty."""
        if published is None:
            self._oldest.pop(where, None)
        else:
            self._oldest[where] = published

    def waiting(self, why: str, events: int) -> None:
        """Events that wait now; `why` is `learning` or `refused`."""
        self.store.put("loader_events_waiting", events, why)

    # --- learning, database ---------------------------------------------------------------------------------------

    def learned(self, columns: int, seconds: float | None = None) -> None:
        """A learning has committed; `columns` were added, those of new tables too."""
        self.store.add("loader_learnings_total", 1)
        self.store.add("loader_columns_added_total", columns)
        if seconds is not None:
            self.store.observe("loader_learning_seconds", seconds)

    def lock_waited(self) -> None:
        """A learning was put off because it did not get a lock."""
        self.store.add("loader_lock_waits_total", 1)

    def database_error(self, error: BaseException) -> None:
        """An error of the database or of the way to it."""
        self.store.add("loader_database_errors_total", 1, sqlstate_class(error))

    def database_outage(self, down: bool, began: bool = False) -> None:
        """The database is down or up; `began` counts another outage."""
        if began:
            self.store.add("loader_database_outages_total", 1)
        self.store.put("loader_database_up", 0.0 if down else 1.0)

    def ready(self, ready: bool) -> None:
        """What /readyz would answer."""
        self.store.put("loader_ready", 1.0 if ready else 0.0)

    # --- reading --------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All values as of now."""
        self._read_pull_state()
        oldest = min(list(self._oldest.values()), default=None)
        age = 0.0 if oldest is None else max(0.0, self._clock() - oldest / 1e6)
        self.store.put("loader_oldest_unloaded_age_seconds", age)
        self.store.put("loader_workers", 1.0)
        process(self.store)
        return self.store.snapshot()

    def _read_pull_state(self) -> None:
        if self.pull_state is None:
            return
        state = self.pull_state()
        put = self.store.put
        put("loader_messages_pulled_total", state.received)
        put("loader_message_bytes_pulled_total", state.received_bytes)
        put("loader_messages_acked_total", state.acked)
        put("loader_messages_nacked_total", state.nacked)
        put("loader_ack_failures_total", state.ack_failures)
        put("loader_leases_expired_total", state.expired)
        put("loader_leases_renewed_total", state.renewals)
        put("loader_stream_reconnects_total", state.reconnects)
        put("loader_stream_up", 1.0 if state.healthy else 0.0)
        put("loader_messages_held", state.held)
        put("loader_message_bytes_held", state.held_bytes)
        put("loader_messages_unread", state.unread)


def count_ages(published: Sequence[int], committed: int) -> tuple[list[int], float]:
    """Ages by bucket of AGE_BUCKETS (one more above the last) and their sum in seconds; arguments in microseconds.

    A clock behind the publisher's would give ages below zero: they count as the youngest, and not into the sum."""
    size = len(published)
    counts = [0] * (len(_AGE_MICROS) + 1)
    oldest, newest = min(published), max(published)
    total = max(0.0, (size * committed - sum(published)) / 1e6)
    first, last = _bucket(committed - newest), _bucket(committed - oldest)
    if first == last:
        counts[first] = size  # the usual case: a bundle spans less than a bucket
        return counts, total
    # Sorting is cheap for what is nearly in order, and far cheaper than looking for each age's bucket.
    ordered = sorted(published)
    above = size
    for bucket in range(first, last):
        # Not older than the bound: published at or after it.
        older = bisect_right(ordered, committed - _AGE_MICROS[bucket] - 1)
        counts[bucket] = above - older
        above = older
    counts[last] = above
    return counts, total


def _bucket(age: int) -> int:
    # As bisect_left: an age equal to a bound belongs to it, for Prometheus' `le` means less or equal.
    return bisect_right(_AGE_MICROS, age - 1)


def sqlstate_class(error: BaseException) -> str:
    """The first two characters of the SQLSTATE; `none` when the error came from no server."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state[:2] if state else "none"


def process(store: Store) -> None:
    """CPU, memory, descriptors and threads of this process."""
    store.put("loader_build_info", 1.0, __version__, platform.python_version())
    store.put("process_cpu_seconds_total", time.process_time())
    store.put("process_resident_memory_bytes", _resident_bytes())
    store.put("process_open_fds", _open_files())
    store.put("process_threads", threading.active_count())
    store.put("process_start_time_seconds", _STARTED)


def _resident_bytes() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        # macOS tells its peak only, in bytes where Linux has kilobytes.
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(peak if sys.platform == "darwin" else peak * 1024)
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _open_files() -> float:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return float(len(os.listdir(folder)) - 1)  # one of them is this listing's own
        except OSError:
            continue
    return 0.0
