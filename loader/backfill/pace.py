"""When a replay has ended: nothing says so, hence a rule on what workers tell and how long nothing came."""

from __future__ import annotations

from dataclasses import dataclass

from loader.backfill.store import Progress

_NEARLY_ALL = 0.95
_PATIENCE = 4
"""So many times longer a replay must be quiet that has brought back less than was expected."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. On the service a seek takes a minute to be true everywhere; an emulator has it at once."""

    settle: float
    """After the seek, before an end is believed."""
    quiet: float
    """Without a message of the replay."""
    lease: float
    """A message that a killed worker held comes again after its lease."""
    nothing: float
    """After which a seek that brought back nothing at all is called fruitless."""

    @classmethod
    def of(cls, window: float, lease: float, emulator: bool) -> Pace:
        """For workers with this window and lease."""
        if emulator:
            quiet = max(4.0, 2 * window + 2)
            return cls(quiet, quiet, lease + 5, 6 * quiet)
        quiet = max(90.0, 2 * window + 30)
        return cls(quiet, quiet, lease + 30, 4 * quiet)


def ended(pace: Pace, progress: Progress, since_seek: float, expected: int | None) -> bool:
    """Whether the replay is through: quiet, with nothing waiting in a worker and nothing leased to a dead one."""
    if since_seek < pace.settle or progress.waiting:
        return False
    if progress.quiet is None:
        return expected == 0
    quiet = pace.quiet
    if expected is not None and progress.events < expected * _NEARLY_ALL:
        quiet *= _PATIENCE
    if progress.unheard > 10:
        quiet = max(quiet, pace.lease)
    return progress.quiet >= quiet


def fruitless(pace: Pace, progress: Progress, since_seek: float) -> bool:
    """Whether a seek was answered and brought back nothing (emulators of some years did that)."""
    return progress.quiet is None and not progress.waiting and since_seek >= pace.nothing
