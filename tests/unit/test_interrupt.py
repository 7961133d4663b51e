"""Ctrl-C ends a command that looks again and again, whatever it is doing when it comes."""

from __future__ import annotations

import signal

import pytest

from loader.commands.interrupt import Interrupt


class Fading:
    """Something that is given up just as Ctrl-C is pressed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_threw_away_ends_the_next_pause() -> None:
    with Interrupt() as interrupt:
        fading = Fading()
        del fading
        with pytest.raises(KeyboardInterrupt):
            interrupt.pause(60)


def test_an_interrupt_is_raised_at_once_and_only_within() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupt() as interrupt:
        interrupt.pause(0)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
