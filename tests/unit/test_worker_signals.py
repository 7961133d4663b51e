"""Signals that stop a worker."""

from __future__ import annotations

import signal
import threading

import pytest

from loader.worker.signals import StopSignals


@pytest.fixture
def stop():
    stop = threading.Event()
    signals = StopSignals(stop.set)
    yield stop
    signals.restore()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_each_signal_asks_for_the_stop(stop, number):
    signal.raise_signal(number)
    assert stop.wait(5)


def test_a_signal_that_interrupts_a_wait_on_the_event_does_not_lock_up(stop):
    # The very lock that Event.wait holds for a moment each second.
    with stop._cond:
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(5)


def test_many_signals_are_one(stop):
    for _ in range(100):
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(5)
