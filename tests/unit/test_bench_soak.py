"""The soak's judgement: a leak is found among swings, and what only swings is flat."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loader.bench.slope import BLOCKS, slope, slope_of_means
from loader.bench.soak import BOUNDS, SoakPlan, sample, series
from loader.errors import LoaderError
from loader.settings.declaration import Settings

MINUTES = 30


def swinging(leak_per_hour: float, name: str = "resident_bytes", seed: int = 1) -> list[dict[str, float]]:
    """Half an hour of a worker: windows of 5 s that fill and empty, an allocator that wanders, and a leak."""
    noise = random.Random(seed)
    wander = 0.0
    found = []
    for second in range(0, MINUTES * 60, 2):
        wander = 0.98 * wander + noise.gauss(0, 200_000)
        value = 150e6 + (second % 5) * 2e6 + wander + leak_per_hour * second / 3600
        found.append({"time": float(second), name: value})
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_of_seven_bytes_a_message_is_found_and_swings_are_none(seed: int) -> None:
    leaking = series(swinging(50e6, seed=seed))["resident_bytes"]
    assert (leaking["verdict"], leaking["flat"]) == ("grows", False)
    assert leaking["slope_per_hour"] == pytest.approx(50e6, rel=0.2)
    assert float(leaking["slope_error_per_hour"]) < 10e6
    level = series(swinging(0, seed=seed))["resident_bytes"]
    assert level["flat"]
    assert level["verdict"] in ("flat", "small")


def test_memory_that_is_given_back_is_no_leak_and_not_flat() -> None:
    falling = series(swinging(-50e6))["resident_bytes"]
    assert (falling["verdict"], falling["flat"]) == ("falls", False)


@pytest.mark.parametrize("name", ["open_files", "threads", "connections"])
def test_one_descriptor_thread_or_connection_lost_each_ten_minutes_is_found(name: str) -> None:
    samples = [{"time": float(second), name: 20.0 + second // 600} for second in range(0, MINUTES * 60, 2)]
    assert series(samples)[name]["verdict"] == "grows"
    level = [{"time": float(second), name: 20.0 + (second % 70 == 0)} for second in range(0, MINUTES * 60, 2)]
    assert series(level)[name]["flat"]


def test_what_grows_while_a_worker_becomes_warm_does_not_count() -> None:
    samples = [{"time": float(n), "resident_bytes": 100e6 + min(n, 200) * 1e5} for n in range(900)]
    assert series(samples)["resident_bytes"]["verdict"] == "flat"


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(LoaderError, match="too few"):
        series([{"time": 0.0, "threads": 1.0}] * 2)


def test_means_give_an_honest_error_where_neighbours_depend_on_one_another() -> None:
    noise = random.Random(2)
    outside = alone = 0
    for _ in range(60):
        values, wander = [], 0.0
        for _ in range(600):
            wander = 0.97 * wander + noise.gauss(0, 1)
            values.append(wander)
        outside += not slope_of_means(range(600), values).flat
        alone += not slope(range(600), values).flat
    assert outside < alone / 2
    assert slope_of_means(range(10), [3.0 * n for n in range(10)]).value == pytest.approx(3.0)
    assert 2 * BLOCKS > 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_leaks_memory_descriptors_threads_and_files_is_found(tmp_path: Path) -> None:
    code = (
        "import sys, threading\nkept = []\nfor n, line in enumerate(sys.stdin):\n"
        "    kept.append(bytearray(400_000)); kept.append(open('/dev/null'))\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        f"    open(f'{tmp_path}/{{n}}', 'w').write('x' * 10_000)\n    print(n, flush=True)\n"
    )
    samples = []
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        started = time.monotonic()
        for _ in range(24):
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            samples.append({"time": time.monotonic() - started, **sample(process.pid, str(tmp_path))})
        process.kill()
    found = series(samples)
    for name in ("resident_bytes", "open_files", "threads", "temporary_bytes"):
        assert found[name]["verdict"] == "grows", name


def test_a_soak_runs_with_the_defaults_of_production() -> None:
    assert SoakPlan().window_seconds == Settings.model_fields["window_seconds"].default
    assert Settings.model_fields["streams"].default == 1  # as worker_environment sets it
    assert set(BOUNDS) >= {"resident_bytes", "open_files", "threads", "connections", "temporary_bytes"}
