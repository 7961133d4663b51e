"""Metrics: bounded, mergeable, readable to Prometheus, and right about ages."""

from __future__ import annotations

from bisect import bisect_left

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from loader.observe import reference
from loader.observe.declaration import AGE_BUCKETS, METRICS
from loader.observe.exposition import render
from loader.observe.metrics import LoaderMetrics, count_ages, sqlstate_class
from loader.observe.store import MOST_LABEL_VALUES, MOST_SERIES, OTHER, Store, merged
from loader.pull.puller import State

NOW = 1_700_000_000


def samples(snapshot) -> dict[tuple[str, frozenset], float]:
    text = render(snapshot).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def sample(snapshot, name: str, **labels: str) -> float:
    return samples(snapshot)[(name, frozenset(labels.items()))]


def pull_state(**changes) -> State:
    values = dict.fromkeys(State.__dataclass_fields__, 0)
    return State(**{**values, "healthy": True, "alert": None, "last_message": None, "exactly_once": False, **changes})


@given(
    st.lists(st.integers(-(10**7), 10**11) | st.sampled_from([round(bound * 1e6) for bound in AGE_BUCKETS]), min_size=1)
)
def test_ages_are_counted_as_one_by_one(ages: list[int]) -> None:
    counts, total = count_ages([NOW * 10**6 - age for age in ages], NOW * 10**6)
    expected = [0] * (len(AGE_BUCKETS) + 1)
    for age in ages:
        expected[bisect_left(AGE_BUCKETS, age / 1e6)] += 1
    assert counts == expected
    assert total == pytest.approx(max(0.0, sum(ages) / 1e6))


def test_a_prometheus_reader_finds_ages_and_events_of_each_table() -> None:
    metrics = LoaderMetrics()
    metrics.events_loaded("orders", [(NOW - 3) * 10**6, (NOW - 3600) * 10**6], float(NOW))
    metrics.events_loaded("clicks", [NOW * 10**6 - 50_000], float(NOW))
    snapshot = metrics.snapshot()
    age = "loader_publish_to_commit_age_seconds"
    assert sample(snapshot, "loader_events_loaded_total", table="orders") == 2
    assert sample(snapshot, f"{age}_bucket", table="orders", le="2.5") == 0
    assert sample(snapshot, f"{age}_bucket", table="orders", le="5.0") == 1
    assert sample(snapshot, f"{age}_bucket", table="orders", le="3600.0") == 2
    assert sample(snapshot, f"{age}_bucket", table="orders", le="+Inf") == 2
    assert sample(snapshot, f"{age}_sum", table="orders") == 3603
    assert sample(snapshot, f"{age}_count", table="clicks") == 1
    assert sample(snapshot, f"{age}_bucket", table="clicks", le="0.1") == 1


def test_every_declared_metric_is_served_with_its_kind_and_help() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(render(LoaderMetrics().snapshot()).decode())
    }
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)


def test_a_counter_without_labels_is_there_before_its_first_increase() -> None:
    assert sample(Store().snapshot(), "loader_leases_expired_total") == 0


def test_hostile_table_names_survive_the_exposition() -> None:
    store = Store()
    names = ['a"b', "a\\b", "a\nb", "\ud800", "ünïcode", "}{", 'x="y",z']
    for name in names:
        store.add("loader_events_loaded_total", 1, name)
    found = {
        dict(labels)["table"] for name, labels in samples(store.snapshot()) if name == "loader_events_loaded_total"
    }
    assert found == {name.encode("utf-8", "replace").decode() for name in names}


def test_tables_beyond_the_bound_are_counted_together() -> None:
    store = Store()
    for number in range(MOST_LABEL_VALUES + 100):
        store.add("loader_events_loaded_total", 1, f"t{number}")
        store.observe("loader_publish_to_commit_age_seconds", 1.0, f"t{number}")
    series = store.snapshot()["loader_events_loaded_total"]
    assert len(series) == MOST_LABEL_VALUES + 1
    assert store.value("loader_events_loaded_total", OTHER) == 100
    assert store.value("loader_publish_to_commit_age_seconds", OTHER) == 100
    # The same tables keep their names in every metric, and go on being counted.
    store.add("loader_rows_loaded_total", 7, "t3")
    store.add("loader_rows_loaded_total", 7, "new")
    assert store.value("loader_rows_loaded_total", "t3") == 7
    assert store.value("loader_rows_loaded_total", OTHER) == 7


def test_combinations_of_labels_are_bounded_too() -> None:
    store = Store()
    for number in range(MOST_SERIES + 50):
        store.add("loader_dead_letters_total", 1, f"t{number % 400}", f"reason {number // 400}")
    assert len(store.snapshot()["loader_dead_letters_total"]) == MOST_SERIES + 1
    assert store.value("loader_dead_letters_total", OTHER, OTHER) == 50


def test_processes_are_merged_by_each_metrics_rule() -> None:
    stores = [Store(), Store()]
    for store, factor in zip(stores, (1, 10), strict=True):
        store.add("loader_events_loaded_total", factor, "orders")
        store.observe("loader_bundle_seconds", 0.2 * factor, "copy")
        store.put("loader_messages_held", factor)
        store.put("loader_oldest_unloaded_age_seconds", factor)
        store.put("loader_stream_up", 1.0 if factor == 1 else 0.0)
    snapshot = merged(store.snapshot() for store in stores).snapshot()
    assert sample(snapshot, "loader_events_loaded_total", table="orders") == 11
    assert sample(snapshot, "loader_bundle_seconds_count", step="copy") == 2
    assert sample(snapshot, "loader_bundle_seconds_sum", step="copy") == pytest.approx(2.2)
    assert sample(snapshot, "loader_messages_held") == 11
    assert sample(snapshot, "loader_oldest_unloaded_age_seconds") == 10
    assert sample(snapshot, "loader_stream_up") == 0


def test_merging_keeps_the_bound_on_tables() -> None:
    stores = [Store(), Store()]
    for number in range(MOST_LABEL_VALUES):
        stores[0].add("loader_events_loaded_total", 1, f"a{number}")
        stores[1].add("loader_events_loaded_total", 1, f"b{number}")
    both = merged(store.snapshot() for store in stores)
    assert len(both.snapshot()["loader_events_loaded_total"]) == MOST_LABEL_VALUES + 1
    assert both.value("loader_events_loaded_total", OTHER) == MOST_LABEL_VALUES


def test_what_a_process_counted_lasts_beyond_it_and_its_gauges_do_not() -> None:
    gone = Store()
    gone.add("loader_events_loaded_total", 5, "orders")
    gone.observe("loader_bundle_seconds", 1.0, "copy")
    gone.put("loader_messages_held", 9)
    past = Store()
    past.take_in(gone.snapshot(), lasting_only=True)
    assert past.value("loader_events_loaded_total", "orders") == 5
    assert past.value("loader_bundle_seconds", "copy") == 1
    assert past.value("loader_messages_held") == 0


def test_the_pullers_counters_are_read_when_somebody_asks() -> None:
    states = iter([pull_state(received=3, acked=1), pull_state(received=8, acked=8, healthy=False)])
    metrics = LoaderMetrics(lambda: next(states))
    assert sample(metrics.snapshot(), "loader_messages_pulled_total") == 3
    later = metrics.snapshot()
    assert sample(later, "loader_messages_acked_total") == 8
    assert sample(later, "loader_stream_up") == 0


def test_the_oldest_waiting_message_ages_until_nothing_waits() -> None:
    now = [float(NOW)]
    metrics = LoaderMetrics(clock=lambda: now[0])
    metrics.oldest("bundle", (NOW - 2) * 10**6)
    metrics.oldest("learning", (NOW - 30) * 10**6)
    now[0] += 5
    assert sample(metrics.snapshot(), "loader_oldest_unloaded_age_seconds") == 35
    metrics.oldest("learning", None)
    assert sample(metrics.snapshot(), "loader_oldest_unloaded_age_seconds") == 7
    metrics.oldest("bundle", None)
    assert sample(metrics.snapshot(), "loader_oldest_unloaded_age_seconds") == 0


def test_database_errors_are_counted_by_class() -> None:
    assert sqlstate_class(psycopg.errors.InsufficientPrivilege()) == "42"
    assert sqlstate_class(psycopg.OperationalError("connection refused")) == "none"
    assert sqlstate_class(OSError()) == "none"


def test_a_metric_that_is_not_declared_is_an_error() -> None:
    with pytest.raises(KeyError):
        Store().add("loader_made_up_total", 1)
    with pytest.raises(ValueError, match="labels"):
        Store().add("loader_events_loaded_total", 1)


def test_process_figures_are_of_this_process() -> None:
    psutil = pytest.importorskip("psutil")
    snapshot = LoaderMetrics().snapshot()
    resident = psutil.Process().memory_info().rss
    assert resident / 2 < sample(snapshot, "process_resident_memory_bytes") < resident * 2
    assert sample(snapshot, "process_open_fds") >= 3
    assert sample(snapshot, "process_cpu_seconds_total") > 0


def test_declarations_follow_prometheus_naming() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert metric.help.endswith(".")


def test_the_readmes_table_is_renewed_between_its_markers() -> None:
    renewed = reference.renew(f"head\n{reference.BEGIN}\nold\n{reference.END}\ntail\n")
    assert renewed.startswith("head\n")
    assert renewed.endswith("\ntail\n")
    assert "old" not in renewed.splitlines()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.kind} |" in renewed
    assert reference.renew(renewed) == renewed
    with pytest.raises(ValueError):
        reference.renew("no markers")
