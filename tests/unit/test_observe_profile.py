"""The profiler shows who used the CPU, and not who waited."""

from __future__ import annotations

import sys
import threading
from collections import Counter

import pytest

from loader.observe.profile import NATIVE, Profile, Profiler


def burn_cycles(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(500))


def wait_quietly(stop: threading.Event) -> None:
    stop.wait()


def profile_of(target, seconds: float = 0.5) -> Profile:
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop,), name=work.__name__) for work in (target, wait_quietly)]
    for thread in threads:
        thread.start()
    try:
        return Profiler().take(seconds)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_thread_that_works_is_found_with_its_stack() -> None:
    profile = profile_of(burn_cycles)
    by_thread: Counter[str] = Counter()
    for (thread, *_frames), weight in profile.stacks.items():
        by_thread[thread] += weight
    assert by_thread.most_common(1)[0][0] == "burn_cycles"
    assert by_thread["wait_quietly"] < by_thread["burn_cycles"] / 20
    assert any(frame.endswith("burn_cycles") for stack in profile.stacks for frame in stack[1:])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has a clock for each thread")
def test_weights_are_the_cpu_time_that_was_used() -> None:
    profile = profile_of(burn_cycles)
    burned = sum(weight for stack, weight in profile.stacks.items() if stack[0] == "burn_cycles") / 1e6
    # The rest is the sampler's own, what Python does around it, and the last interval.
    assert profile.cpu_seconds * 0.7 < burned <= profile.cpu_seconds
    assert profile.own_seconds < profile.cpu_seconds / 4
    assert sum(profile.stacks.values()) / 1e6 + profile.own_seconds == pytest.approx(profile.cpu_seconds, rel=0.01)


def test_collapsed_lines_are_frames_and_a_number() -> None:
    profile = profile_of(burn_cycles)
    profile.stacks[(NATIVE, NATIVE)] += 5
    for line in profile.text("collapsed").splitlines():
        frames, _, weight = line.rpartition(" ")
        assert int(weight) > 0
        assert " " not in frames.partition(";")[2]


def test_the_top_table_begins_with_the_busiest_function() -> None:
    lines = profile_of(burn_cycles).text("top").splitlines()
    assert lines[3].endswith("burn_cycles")


def test_functions_are_counted_once_a_stack_even_when_they_recurse() -> None:
    profile = Profile(Counter({("main", "m.walk", "m.walk", "m.leaf"): 10, ("main", "m.walk"): 10}))
    rows = {line.split()[2]: line.split()[:2] for line in profile.text("top").splitlines()[3:]}
    assert rows == {"m.walk": ["50.0%", "100.0%"], "m.leaf": ["50.0%", "50.0%"]}


@pytest.mark.parametrize("seconds", [0, -1, 30.5, float("nan")])
def test_no_profile_is_longer_than_half_a_minute(seconds: float) -> None:
    with pytest.raises(ValueError, match="at most 30"):
        Profiler().take(seconds)
