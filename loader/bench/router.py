"""Runs the bridge's comparisons in one go, interleaved, and sums them up."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from loader.bench import stalled
from loader.bench.bridge import (
    ConvenienceSink,
    PlainJson,
    Result,
    StandardJson,
    ceiling,
    fill,
    filter_stage,
    kafka_process,
    rewrite_stages,
    run_once,
    setting,
)
from loader.errors import LoaderError

Variants = dict[str, Callable[[str, str, int], Result]]


@dataclass(frozen=True, slots=True)
class RouterPlan:
    """What is measured. The convenience client takes a tenth of the messages: it is that much slower."""

    messages: int = 300_000
    repetitions: int = 3
    memory: bool = True


def _variants() -> Variants:
    def plain(name: str, **options: Any) -> Callable[[str, str, int], Result]:
        return lambda brokers, endpoint, count: run_once(name, brokers, endpoint, count, **options)

    return {
        "ceiling": ceiling,
        "pass_through": plain("pass"),
        "filter_orjson": plain("filter", format=PlainJson, stages=filter_stage),
        "filter_stdlib": plain("filter-std", format=StandardJson, stages=filter_stage),
        "always_rewrite_orjson": plain("rewrite", format=PlainJson, stages=rewrite_stages),
        "always_rewrite_stdlib": plain("rewrite-std", format=StandardJson, stages=rewrite_stages),
        "convenience_client": plain("convenience", sink=ConvenienceSink),
        "five_pipelines_shared": plain("shared", pipelines=5),
        "five_pipelines_apart": plain("apart", pipelines=5, shared=False),
    }


def run_router(plan: RouterPlan, say: Callable[[str], None]) -> dict[str, Any]:
    """Rates are messages read a second of CPU of this process; ratios are medians of ratios within a repetition."""
    rates: dict[str, list[float]] = {}
    last: dict[str, Result] = {}
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    with setting(plan.messages) as (brokers, endpoint):
        for number in range(plan.repetitions):
            for name, run in _variants().items():
                result = run(brokers, endpoint, plan.messages)
                rates.setdefault(name, []).append(result.rate)
                last[name] = result
                say(f"{number + 1}/{plan.repetitions} {name}: {result.rate:,.0f} messages a second of CPU")
    found: dict[str, Any] = {
        "messages_per_second_of_cpu": {name: round(median(values)) for name, values in rates.items()},
        "spread": {name: [round(min(values)), round(max(values))] for name, values in rates.items()},
        "pass_through_against_convenience": _ratio(rates, "pass_through", "convenience_client"),
        "pass_through_against_ceiling": _ratio(rates, "pass_through", "ceiling"),
        "lazy_saves_orjson": _saved(rates, "filter_orjson", "always_rewrite_orjson"),
        "lazy_saves_stdlib": _saved(rates, "filter_stdlib", "always_rewrite_stdlib"),
        "orjson_against_stdlib": _ratio(rates, "filter_orjson", "filter_stdlib"),
        "reads_shared": last["five_pipelines_shared"].reads,
        "reads_apart": last["five_pipelines_apart"].reads,
    }
    if plan.memory:
        found["stalled_sink_peak_bytes"] = peak_with_a_stalled_sink()
        say(f"peak with a stalled sink: {found['stalled_sink_peak_bytes'] / 1e6:.0f} MB")
    return found


def _ratio(rates: dict[str, list[float]], one: str, other: str) -> float:
    return round(median(a / b for a, b in zip(rates[one], rates[other], strict=True)), 2)


def _saved(rates: dict[str, list[float]], lazy: str, always: str) -> float:
    """Share of the CPU that is not spent."""
    return round(median(1 - b / a for a, b in zip(rates[lazy], rates[always], strict=True)), 3)


def peak_with_a_stalled_sink(seconds: float = 15.0) -> int:
    """Peak resident bytes of a bridge process."""
    with kafka_process({stalled.TOPIC: stalled.PARTITIONS}) as brokers:
        # Random bytes would not fit: the broker keeps 5 MiB a partition, compressed.
        body = b"large " * (stalled.MESSAGE_BYTES // 6)
        fill(brokers, stalled.TOPIC, (body for _ in range(stalled.PARTITIONS * 40)), stalled.PARTITIONS)
        answer = subprocess.run(
            [sys.executable, "-m", "loader.bench.stalled", brokers, f"{seconds:g}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + 60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path[:1]]))},
        )
    try:
        return int(answer.stdout.split()[0])
    except (IndexError, ValueError):
        raise LoaderError(f"the stalled bridge told no peak: {answer.stderr[-300:]}") from None
